"""Counts page views: the smallest job with state."""

from __future__ import annotations

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope, OutgoingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStream
from samzapy.api.task import InitableTask, StreamTask


class PageViewCountTask(StreamTask, InitableTask):
    """Counts views by page, the message's key, in the store `counts`, and sends each new count.

    `page.views.output` in the job file names the output as `system.stream`.
    """

    _counts: KeyValueStore[str, int]
    _output: SystemStream

    def init(self, context: Context) -> None:
        self._counts = context.get_store("counts")
        self._output = SystemStream.parse(context.job.config["page.views.output"])

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        page = envelope.key
        views = (self._counts.get(page) or 0) + 1
        self._counts.put(page, views)
        collector.send(OutgoingMessageEnvelope(self._output, {"page": page, "views": views}, key=page))
