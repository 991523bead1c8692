"""Orders that a producer may have sent more than once, passed on once."""

from __future__ import annotations

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope, OutgoingMessageEnvelope
from samzapy.api.stream import SystemStream
from samzapy.operators import DeduplicatingTask


class UniqueOrdersTask(DeduplicatingTask):
    """Knows an order by its key, the UUID its producer gave it, and drops it when it comes again.

    `unique.orders.output` in the job file names the output as `system.stream`; `unique.orders.remembered` is how many
    orders each task remembers: the store never holds more than two entries for each and one.
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
