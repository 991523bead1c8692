"""Forwards each order once, though its producer may have sent it more than once."""

from __future__ import annotations

import msgspec

from samzapy import (
    Context,
    IncomingMessageEnvelope,
    MessageCollector,
    OutgoingMessageEnvelope,
    SystemStream,
    TaskCoordinator,
)
from samzapy.operators import DeduplicatingTask


class Order(msgspec.Struct):
    """An order. Its key is a UUID that the producer assigned."""

    total: int


class UniqueOrdersTask(DeduplicatingTask[str, Order]):
    """Recognizes an order by its key, and drops it when it comes again.

    `unique.orders.output` in the job file names the output, as `system.stream`. Each task remembers
    `unique.orders.remembered` orders: its store holds at most two entries for each of them, and one more.
    """

    _output: SystemStream

    def init(self, context: Context) -> None:
        config = context.job.config
        self._output = SystemStream.parse(config["unique.orders.output"])
        self.deduplication_capacity = int(config["unique.orders.remembered"])
        super().init(context)

    def message_key(self, envelope: IncomingMessageEnvelope[str, Order]) -> str | None:
        return envelope.key

    def process_new(
        self, envelope: IncomingMessageEnvelope[str, Order], collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        collector.send(OutgoingMessageEnvelope(self._output, envelope.message, key=envelope.key))
