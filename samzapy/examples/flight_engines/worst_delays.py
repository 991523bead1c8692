"""The most delayed flights of each airline: a running top-N."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.examples.flight_engines.report import ReportingTask
from samzapy.storage.views import HeapStore


class WorstDelaysTask(ReportingTask):
    """Keeps the flights with the longest delays in the heap `worst`, one group an airline; how many, says `heap.size`."""

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
            # The place in the log makes each departure an item of its own, and a replayed one the same item.
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
