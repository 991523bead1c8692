"""Converts payments to euros, with a table of rates that is read first, and with priority for refunds."""

from __future__ import annotations

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope, OutgoingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStream
from samzapy.api.task import InitableTask, StreamTask

RATES = "rates"


class PaymentsTask(StreamTask, InitableTask):
    """Keeps the newest rate of each currency, and converts payments and refunds with it.

    The job file makes sure that the rate is there before the payment: `rates` is a bootstrap stream, broadcast to all
    tasks. `payments.output` in the job file names the output as `system.stream`.
    """

    _rates: KeyValueStore[str, float]
    _output: SystemStream

    def init(self, context: Context) -> None:
        self._rates = context.get_store("rates")
        self._output = SystemStream.parse(context.job.config["payments.output"])

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        if envelope.ssp.stream == RATES:
            self._rates.put(envelope.key, envelope.message["euros"])
            return
        payment = envelope.message
        rate = self._rates.get(payment["currency"])
        if rate is None:
            raise ValueError(f"no rate for {payment['currency']!r}")
        converted = {"what": envelope.ssp.stream, "euros": round(payment["amount"] * rate, 2)}
        collector.send(OutgoingMessageEnvelope(self._output, converted, key=envelope.key))
