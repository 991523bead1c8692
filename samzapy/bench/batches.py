"""The tasks of `configs/bench/` that process batches."""

from __future__ import annotations

import operator
from collections import Counter
from typing import Any

from samzapy.api.batch import BatchTask, MessageBatch
from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStream
from samzapy.bench.tasks import Marked

Batch = MessageBatch[Any, Any]


class KeyedCountBatchTask(Marked, BatchTask):
    """Counts a batch of events by their `user`, and merges that into the store `counts`."""

    _counts: KeyValueStore[str, int]

    def init(self, context: Context) -> None:
        self._counts = context.get_store("counts")
        super().init(context)

    def process_batch(self, batch: Batch, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        self._counts.merge_all(Counter([event["user"] for event in batch.messages]), operator.add)
        self.at = batch[-1]


class TypedKeyedCountBatchTask(KeyedCountBatchTask):
    """The same with events of a class."""

    def process_batch(self, batch: Batch, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        self._counts.merge_all(Counter([event.user for event in batch.messages]), operator.add)
        self.at = batch[-1]


class KeysBatchTask(KeyedCountBatchTask):
    """Counts the keys, which are the users; the messages need no serde that decodes them."""

    def process_batch(self, batch: Batch, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        self._counts.merge_all(Counter(batch.keys), operator.add)
        self.at = batch[-1]


class PassThroughBatchTask(Marked, BatchTask):
    """Adds one field to the events of a batch and sends them on, to the `system.stream` that `bench.output` names."""

    _output: SystemStream

    def init(self, context: Context) -> None:
        self._output = SystemStream.parse(context.job.config["bench.output"])
        super().init(context)

    def process_batch(self, batch: Batch, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        for event in batch.messages:
            event["seen"] = True
        collector.send_batch(self._output, batch.keys, batch.messages)
        self.at = batch[-1]


class TypedPassThroughBatchTask(PassThroughBatchTask):
    """The same with events of a class."""

    def process_batch(self, batch: Batch, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        for event in batch.messages:
            event.seen = True
        collector.send_batch(self._output, batch.keys, batch.messages)
        self.at = batch[-1]
