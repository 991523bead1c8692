"""Counts departures by airport and scheduled hour: tumbling windows over flights that are reported when they leave.

python -m samzapy.examples.departures JOB.properties [--config key=value]...

writes the departures to the job's input, in the order of leaving.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStream
from samzapy.examples.flights.dataset import Event, flights
from samzapy.examples.flights.load import load_command
from samzapy.operators.windows import Count, Tumbling, WindowedAggregation, WindowedTask


class DeparturesPerHourTask(WindowedTask):
    """Closes an hour when the schedule is three hours past its end; flights that leave later go to a separate stream.
    `departures.output` and `departures.late` in the job file name the streams, as `system.stream`."""

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


DEPARTURES = "departures"
_MINUTE_MS = 60_000


def departures(events: Iterable[Event]) -> list[Event]:
    """The flights that left, keyed by airport, in the order in which they left. Their event time is the scheduled hour,
    so the stream is out of order by the delays."""
    left = [
        (
            event.time_ms + event.value["dep_delay"] * _MINUTE_MS,
            Event(event.value["origin"], event.value, event.time_ms),
        )
        for event in events
        if event.value["dep_delay"] is not None
    ]
    left.sort(key=lambda each: each[0])
    return [event for _, event in left]


if __name__ == "__main__":
    sys.exit(load_command("departures", lambda _: [(DEPARTURES, departures(flights()))]))
