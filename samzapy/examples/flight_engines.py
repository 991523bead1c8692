"""Four small jobs over the flights, one for each engine with its own query interface.

WorstDelaysTask    heap: the most delayed flights of each airline
AirportsTask       sketches: the number of planes at each airport, and the distribution of the delays
PlaneSearchTask    inverted index: planes by words of their maker and model
DelayCubeTask      cube: delays by airline, airport and month: roll up, slice, drill

Each job has a single task, which reads all partitions and sends its report at the end of the inputs, so the report
covers all flights. `recent_items` has a fifth job, for an engine of your own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope, OutgoingMessageEnvelope
from samzapy.api.stream import SystemStream
from samzapy.api.task import EndOfStreamListenerTask, InitableTask, StreamTask
from samzapy.storage.views import BloomFilters, Cell, CubeStore, DistinctCounts, HeapStore, InvertedIndex, Quantiles


class ReportingTask(StreamTask, InitableTask, EndOfStreamListenerTask):
    """Sends its report at the end of the inputs, to the stream `report.output` of the job file (`system.stream`)."""

    _output: SystemStream

    def init(self, context: Context) -> None:
        self._output = SystemStream.parse(context.job.config["report.output"])

    @abstractmethod
    def report(self) -> Iterator[tuple[str, Any]]:
        """The messages to send, each with its key."""

    def on_end_of_stream(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        for key, message in self.report():
            collector.send(OutgoingMessageEnvelope(self._output, message, key=key))


class WorstDelaysTask(ReportingTask):
    """Keeps the flights with the longest delays in the heap `worst`: one group for each airline, `heap.size` flights in
    each."""

    _worst: HeapStore

    def init(self, context: Context) -> None:
        super().init(context)
        self._worst = context.get_store("worst", HeapStore)

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        flight = envelope.message
        delay = flight["dep_delay"]
        if delay is not None:
            # The position makes each departure a distinct item, and a replayed departure the same item.
            item = [flight["flight"], flight["origin"], flight["dest"], envelope.position]
            self._worst.push(item, delay, flight["carrier"])

    def report(self) -> Iterator[tuple[str, Any]]:
        for carrier in self._worst.groups():
            worst = self._worst.top(20, carrier)
            yield (
                carrier,
                [
                    {"flight": number, "from": origin, "to": destination, "delay": delay}
                    for (number, origin, destination, _), delay in worst
                ],
            )


_FRACTIONS = (0.5, 0.9, 0.99)


class AirportsTask(ReportingTask):
    """Keeps three sketches for each airport of departure: `planes` counts distinct planes, `delays` has the
    distribution of the delays, and `pairs` the pairs of plane and destination."""

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


class PlaneSearchTask(ReportingTask):
    """Keeps the register of planes in the inverted index `planes`, and at the end answers the queries of
    `plane.search.queries`, which are separated by semicolons."""

    _planes: InvertedIndex
    _queries: list[str]

    def init(self, context: Context) -> None:
        super().init(context)
        self._planes = context.get_store("planes", InvertedIndex)
        self._queries = [query.strip() for query in context.job.config["plane.search.queries"].split(";")]

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        plane = envelope.message
        if plane is None:
            self._planes.delete(envelope.key)
        else:
            self._planes.add(envelope.key, f"{plane['manufacturer']} {plane['model']}")

    def report(self) -> Iterator[tuple[str, Any]]:
        for query in self._queries:
            yield (
                query,
                [{"plane": hit.document, "score": round(hit.score, 6)} for hit in self._planes.search(query, 5)],
            )


class DelayCubeTask(ReportingTask):
    """Adds every departure to the cube `delays`. The report has all airports, the months of the worst airport, and the
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
