"""Impressions of advertisements joined with the clicks on them."""

from __future__ import annotations

from typing import Any

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.task import EndOfStreamListenerTask, WindowableTask
from samzapy.examples.joins.sending import SendingTask, inputs
from samzapy.operators.joins import Joined, Side, StreamStreamJoin, TimeRules, Within

#: A click counts if it comes within half an hour of the impression.
CLICKED_WITHIN_MS = 30 * 60_000
#: How far the messages of a partition may be out of order.
LATENESS_MS = 60_000


class ImpressionsClicksTask(SendingTask, WindowableTask, EndOfStreamListenerTask):
    """Sends, by impression: each click with its impression, impressions that nobody has clicked on, and clicks on none."""

    _waiting: StreamStreamJoin

    def init(self, context: Context) -> None:
        super().init(context)
        self._waiting = StreamStreamJoin(
            context,
            "waiting",
            inputs(context, "impressions", "clicks"),
            Within(after=CLICKED_WITHIN_MS),
            TimeRules(LATENESS_MS),
        )

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        self.send(self._waiting.add(envelope), collector)

    def window(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        self.send(self._waiting.advance(), collector)

    def on_end_of_stream(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        self.send(self._waiting.finish(), collector)

    def message(self, joined: Joined) -> dict[str, Any]:
        sides = {"impression": joined.left, "click": joined.right}
        return {name: _message(side) for name, side in sides.items()}


def _message(side: Side | None) -> dict[str, Any] | None:
    return None if side is None else {"time_ms": side.time_ms, **side.value}
