"""The latest order of each customer, from orders in Avro."""

from __future__ import annotations

from typing import Any

from samzapy import IncomingMessageEnvelope, InitableTask, MessageCollector, StreamTask, TaskContext, TaskCoordinator


class LatestOrderTask(StreamTask[str, dict[str, Any]], InitableTask):
    """Keeps the last order by its key in the store `latest`."""

    def init(self, context: TaskContext) -> None:
        self._latest = context.get_store("latest")

    def process(
        self,
        envelope: IncomingMessageEnvelope[str, dict[str, Any]],
        collector: MessageCollector,
        coordinator: TaskCoordinator,
    ) -> None:
        self._latest.put(envelope.key, envelope.message)
