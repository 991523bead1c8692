"""Forwards each order once, though its producer may have sent it more than once."""

from __future__ import annotations

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope, OutgoingMessageEnvelope
from samzapy.api.stream import SystemStream
from samzapy.operators import DeduplicatingTask


class UniqueOrdersTask(DeduplicatingTask):
    """Recognizes an order by its key, a UUID that the producer assigned, and drops it when it comes again.

    `unique.orders.output` in the job file names the output, as `system.stream`. Each task remembers
    `unique.orders.remembered` orders: its store holds at most two entries for each of them, and one more.
    """

    _output: SystemStream

    def init(self, context: Context) -> None:
        config = context.job.config
        self._output = SystemStream.parse(config["unique.orders.output"])
        self.deduplication_capacity = int(config["unique.orders.remembered"])
        super().init(context)

    def message_key(self, envelope: IncomingMessageEnvelope) -> str | None:
        key: str = envelope.key
        return key

    def process_new(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        collector.send(OutgoingMessageEnvelope(self._output, envelope.message, key=envelope.key))
