"""A producer whose records are counted, a batch at a time."""

from __future__ import annotations

from collections.abc import Sequence

from samzapy.api.metrics import Counter
from samzapy.api.system import OutgoingRecord, SystemProducer
from samzapy.container.forwarding_producer import ForwardingProducer


class CountingProducer(ForwardingProducer):
    """Passes outputs on and counts them. It carries no transaction: it is for what is outside of one."""

    __slots__ = ("_counter",)

    def __init__(self, producer: SystemProducer, counter: Counter) -> None:
        super().__init__(producer)
        self._counter = counter

    def send(self, records: Sequence[OutgoingRecord]) -> None:
        super().send(records)
        self._counter.count += len(records)
