"""Raises an alert for a large payment without a confirmation within five minutes. No message reports that, so a timer
does."""

from __future__ import annotations

import msgspec

import samzapy
from samzapy import Context, KeyValueStore, MessageCollector, OutgoingMessageEnvelope, SystemStream, TaskCoordinator

LARGE_CENTS, CONFIRMED_WITHIN_MS = 50_000, 300_000


class Payment(msgspec.Struct, tag="payment"):
    """A payment by card. Its key, and its confirmation's, is the card."""

    id: str
    card: str
    cents: int


class Confirmation(msgspec.Struct, tag="confirmation"):
    """The owner of the card has confirmed a payment."""

    payment: str


class CardFraudTask(samzapy.StreamTask[str, Payment | Confirmation], samzapy.TimerTask, samzapy.InitableTask):
    """Times are event times. `card.fraud.alerts` in the job file names the output, as `system.stream`."""

    _open: KeyValueStore[str, Payment]
    _timers: samzapy.Timers
    _alerts: SystemStream

    def init(self, context: Context) -> None:
        self._open = context.get_store("open")
        self._timers = context.task.timers
        self._alerts = SystemStream.parse(context.job.config["card.fraud.alerts"])

    def process(
        self,
        envelope: samzapy.IncomingMessageEnvelope[str, Payment | Confirmation],
        collector: MessageCollector,
        coordinator: TaskCoordinator,
    ) -> None:
        event = envelope.message
        if isinstance(event, Confirmation):
            deadline = self._timers.time_of(event.payment)
            if deadline is not None and envelope.event_time < deadline:
                self._timers.cancel(event.payment)
                self._open.delete(event.payment)
        elif event.cents >= LARGE_CENTS:
            self._open.put(event.id, event)
            self._timers.schedule(event.id, envelope.event_time + CONFIRMED_WITHIN_MS)

    def on_timer(self, key: str, time_ms: int, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        payment = self._open.get(key)
        if payment is not None:
            self._open.delete(key)
            collector.send(OutgoingMessageEnvelope(self._alerts, payment, key=payment.card, timestamp=time_ms))
