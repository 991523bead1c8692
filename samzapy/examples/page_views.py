"""Counts page views: the smallest job with state, and a second job that reads the changelog of that state."""

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


class PopularPagesTask(StreamTask, InitableTask):
    """Reports each page once, when its count reaches `popular.pages.views`; the output is `popular.pages.output`.

    A changelog has at most one record for each key and commit, and compaction keeps only the newest. So a count may
    jump, and a repeated message may be older than the last one. Treat a message as the present value of its key, not as
    a change.
    """

    _announced: KeyValueStore[str, int]
    _output: SystemStream
    _enough: int

    def init(self, context: Context) -> None:
        config = context.job.config
        self._announced = context.get_store("announced")
        self._output = SystemStream.parse(config["popular.pages.output"])
        self._enough = int(config["popular.pages.views"])

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        page, views = envelope.key, envelope.message
        if views is not None and views >= self._enough and self._announced.get(page) is None:
            self._announced.put(page, views)
            collector.send(OutgoingMessageEnvelope(self._output, {"page": page}, key=page))
