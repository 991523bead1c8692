"""Delays by airline, airport and month: roll up, slice, drill."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.examples.flight_engines.report import ReportingTask
from samzapy.storage.views import Cell, CubeStore


class DelayCubeTask(ReportingTask):
    """Keeps every departure in the cube `delays`. The report: all airports, the months of the worst airport, and the
    airlines of that airport in its worst month."""

    _delays: CubeStore

    def init(self, context: Context) -> None:
        super().init(context)
        self._delays = context.get_store("delays", CubeStore)

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        flight = envelope.message
        month = datetime.fromtimestamp(envelope.event_time / 1000, tz=timezone.utc).month
        dimensions = {"carrier": flight["carrier"], "origin": flight["origin"], "month": month}
        self._delays.add(dimensions, {"delay": flight["dep_delay"]})

    def report(self) -> Iterator[tuple[str, Any]]:
        airports = self._delays.roll_up("origin")
        yield "airports", [_row(cell) for cell in airports]
        if airports:
            months = self._delays.drill(max(airports, key=_mean), "month")
            yield "months", [_row(cell) for cell in months]
            yield "airlines", [_row(cell) for cell in self._delays.drill(max(months, key=_mean), "carrier")]


def _mean(cell: Cell) -> float:
    return cell.aggregate.measures["delay"].mean or 0.0


def _row(cell: Cell) -> dict[str, Any]:
    delay = cell.aggregate.measures["delay"]
    row = {
        "departures": cell.aggregate.count,
        "delays": delay.count,
        "sum": delay.sum,
        "min": delay.min,
        "max": delay.max,
    }
    return cell.dimensions | row
