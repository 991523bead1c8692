"""Counts departures per airport and scheduled hour."""

from __future__ import annotations

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStream
from samzapy.operators.windows import Count, Tumbling, WindowedAggregation, WindowedTask


class DeparturesPerHourTask(WindowedTask):
    """An hour is closed three hours of the schedule after its end; flights that leave later than that go to a stream of
    their own. `departures.output` and `departures.late` in the job file name the streams as `system.stream`."""

    def aggregation(self, context: Context) -> WindowedAggregation:
        config = context.job.config
        return WindowedAggregation(
            Tumbling("1h", grace="3h"),
            Count(),
            output=SystemStream.parse(config["departures.output"]),
            late=SystemStream.parse(config["departures.late"]),
        )

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        self.windows.add(envelope, envelope.message["origin"], 1, collector)
