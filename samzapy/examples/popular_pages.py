"""A job whose input is another job's state: the changelog of the page view counts."""

from __future__ import annotations

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope, OutgoingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStream
from samzapy.api.task import InitableTask, StreamTask


class PopularPagesTask(StreamTask, InitableTask):
    """Tells of each page once, when its count has reached `popular.pages.views`; the output is `popular.pages.output`.

    A changelog has one record a key and commit, and its cleaner leaves the newest: a count may be seen to jump, and what
    is processed again may be older than what was seen. So a message is taken for what a key is now, not for one change.
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
