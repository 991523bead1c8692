"""How many planes an airport saw, and the spread of its delays, from sketches of a few kilobytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.examples.flight_engines.report import ReportingTask
from samzapy.storage.views import BloomFilters, DistinctCounts, Quantiles

_FRACTIONS = (0.5, 0.9, 0.99)


class AirportsTask(ReportingTask):
    """By airport of departure: `planes` counts different planes, `delays` knows the distribution of the delays, and
    `pairs` which plane flew to which destination."""

    _planes: DistinctCounts
    _delays: Quantiles
    _pairs: BloomFilters

    def init(self, context: Context) -> None:
        super().init(context)
        self._planes = context.get_store("planes", DistinctCounts)
        self._delays = context.get_store("delays", Quantiles)
        self._pairs = context.get_store("pairs", BloomFilters)

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        flight = envelope.message
        airport, plane, delay = flight["origin"], flight["tailnum"], flight["dep_delay"]
        if plane is not None:
            self._planes.add(airport, plane)
            self._pairs.add(airport, f"{plane} {flight['dest']}")
        if delay is not None:
            self._delays.add(airport, delay)

    def report(self) -> Iterator[tuple[str, Any]]:
        for airport in ("EWR", "JFK", "LGA"):
            yield (
                airport,
                {
                    "planes": round(self._planes.estimate(airport)),
                    "planes_between": [round(bound) for bound in self._planes.bounds(airport)],
                    "pairs": round(self._pairs.approximate_count(airport)),
                    "delays": self._delays.count(airport),
                    "quantiles": self._delays.quantiles(airport, _FRACTIONS),
                },
            )
        yield "all", {"planes": round(self._planes.estimate_union(("EWR", "JFK", "LGA")))}
