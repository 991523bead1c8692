"""Raises an alert for a payment that looks like fraud. One rule remembers a tiny payment, the other waits for a
confirmation.

1. `tested`: a large payment within ten minutes after a tiny one. A thief tries a card before using it.
2. `unconfirmed`: a large payment without a confirmation within five minutes. No message reports that, so a timer does.
"""

from __future__ import annotations

from typing import Any

import msgspec

from samzapy import (
    Context,
    IncomingMessageEnvelope,
    InitableTask,
    KeyValueStore,
    MessageCollector,
    OutgoingMessageEnvelope,
    StreamTask,
    SystemStream,
    TaskCoordinator,
    Timers,
    TimerTask,
)

TINY_CENTS, LARGE_CENTS = 100, 50_000
TESTED_WITHIN_MS, CONFIRMED_WITHIN_MS = 600_000, 300_000


class Payment(msgspec.Struct, tag="payment"):
    """A payment by card. Its key, and its confirmation's, is the card."""

    id: str
    card: str
    cents: int


class Confirmation(msgspec.Struct, tag="confirmation"):
    """The owner of the card has confirmed a payment."""

    payment: str


class Alert(msgspec.Struct):
    """A payment that broke a rule."""

    rule: str
    payment: str
    cents: int


class CardFraudTask(StreamTask[str, Payment | Confirmation], TimerTask, InitableTask):
    """Times are event times. `card.fraud.alerts` in the job file names the output, as `system.stream`."""

    _tiny: KeyValueStore[str, int]
    _open: KeyValueStore[str, Payment]
    _timers: Timers
    _alerts: SystemStream

    def init(self, context: Context) -> None:
        self._tiny = context.get_store("tiny")
        self._open = context.get_store("open")
        self._timers = context.task.timers
        self._alerts = SystemStream.parse(context.job.config["card.fraud.alerts"])

    def process(
        self,
        envelope: IncomingMessageEnvelope[str, Payment | Confirmation],
        collector: MessageCollector,
        coordinator: TaskCoordinator,
    ) -> None:
        event, now = envelope.message, envelope.event_time
        if isinstance(event, Confirmation):
            deadline = self._timers.time_of(["open", event.payment])
            if deadline is not None and now < deadline:
                self._timers.cancel(["open", event.payment])
                self._open.delete(event.payment)
        elif event.cents <= TINY_CENTS:
            self._tiny.put(event.card, now)
            self._timers.schedule(["tiny", event.card], now + TESTED_WITHIN_MS)
        elif event.cents >= LARGE_CENTS:
            tested = self._tiny.get(event.card)
            if tested is not None and now < tested + TESTED_WITHIN_MS:
                self._alert("tested", event, now, collector)
            self._open.put(event.id, event)
            self._timers.schedule(["open", event.id], now + CONFIRMED_WITHIN_MS)

    def on_timer(self, key: Any, time_ms: int, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        store, name = key
        if store == "tiny":
            self._tiny.delete(name)
        elif payment := self._open.get(name):
            self._alert("unconfirmed", payment, time_ms, collector)
            self._open.delete(name)

    def _alert(self, rule: str, payment: Payment, time_ms: int, collector: MessageCollector) -> None:
        alert = Alert(rule, payment.id, payment.cents)
        collector.send(OutgoingMessageEnvelope(self._alerts, alert, key=payment.card, timestamp=time_ms))
