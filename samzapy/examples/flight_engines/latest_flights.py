"""The last flights of each plane, in an engine that is not one of samzapy's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.examples.flight_engines.report import ReportingTask
from samzapy.examples.recent_items import RecentItems


class LatestFlightsTask(ReportingTask):
    """Keeps the destinations of each plane's last flights in `latest`, and reports the planes of `latest.flights.planes`."""

    _latest: RecentItems
    _planes: list[str]

    def init(self, context: Context) -> None:
        super().init(context)
        self._latest = context.get_store("latest", RecentItems)
        self._planes = context.job.config["latest.flights.planes"].split(",")

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        flight = envelope.message
        if flight["tailnum"] is not None:
            self._latest.append(flight["tailnum"], flight["dest"])

    def report(self) -> Iterator[tuple[str, Any]]:
        for plane in self._planes:
            yield plane, self._latest.last(plane)
