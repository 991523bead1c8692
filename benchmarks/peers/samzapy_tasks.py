"""samzapy's own tasks among the peers: the same work, and the same marks at the first and the last message."""

from __future__ import annotations

import operator
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.peers.programs.run import COMMITTED, FIRST, LAST, mark
from benchmarks.workloads.pipelines import MeasuredPipelineTask
from samzapy import (
    BatchTask,
    ClosableTask,
    Context,
    IncomingMessageEnvelope,
    InitableTask,
    KeyValueStore,
    MessageBatch,
    MessageCollector,
    OutgoingMessageEnvelope,
    StreamTask,
    SystemStream,
    TaskCoordinator,
)

#: The number of the next message that a task of this process processes.
_number = count(1).__next__


class _Marking(InitableTask, ClosableTask):
    """Marks the process's first and last message; a run without end has no last one. A container commits before it
    closes its tasks."""

    #: Messages that all tasks of this process have processed in batches, and whether there was a batch.
    done = 0
    begun = False

    def init(self, context: Context) -> None:
        self._marks = Path(context.job.config["peer.marks"])
        self._last = int(context.job.config["peer.events"])

    def close(self) -> None:
        mark(self._marks, COMMITTED)

    def _mark(self, number: int) -> None:
        mark(self._marks, FIRST if number == 1 else LAST)

    def _before_batch(self) -> None:
        """Before a batch."""
        if not _Marking.begun:
            _Marking.begun = True
            mark(self._marks, FIRST)

    def _after_batch(self, messages: int) -> None:
        """After a batch of so many."""
        _Marking.done += messages
        if 0 < self._last <= _Marking.done:
            mark(self._marks, LAST)


class KeyedCount(_Marking, StreamTask):
    """Counts by the event's user."""

    _counts: KeyValueStore[str, int]

    def init(self, context: Context) -> None:
        super().init(context)
        self._counts = context.get_store("counts")

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        counts = self._counts
        user = envelope.message["user"]
        counts.put(user, (counts.get(user) or 0) + 1)
        number = _number()
        if number == 1 or number == self._last:  # noqa: PLR1714  # the quickest that there is
            self._mark(number)


class TypedKeyedCount(KeyedCount):
    """The same with events of a class."""

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        counts = self._counts
        user = envelope.message.user
        counts.put(user, (counts.get(user) or 0) + 1)
        number = _number()
        if number == 1 or number == self._last:  # noqa: PLR1714
            self._mark(number)


class PassThrough(_Marking, StreamTask):
    """Adds a field and sends the event on."""

    def init(self, context: Context) -> None:
        super().init(context)
        self._output = SystemStream.parse(context.job.config["bench.output"])

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        event = envelope.message
        event["seen"] = True
        collector.send(OutgoingMessageEnvelope(self._output, event, envelope.key))
        number = _number()
        if number == 1 or number == self._last:  # noqa: PLR1714
            self._mark(number)


class TypedPassThrough(PassThrough):
    """The same with events of a class."""

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        event = envelope.message
        event.seen = True
        collector.send(OutgoingMessageEnvelope(self._output, event, envelope.key))
        number = _number()
        if number == 1 or number == self._last:  # noqa: PLR1714
            self._mark(number)


class TypedKeyedCountBatch(_Marking, BatchTask):
    """The count of events of a class, a batch at a time."""

    def init(self, context: Context) -> None:
        super().init(context)
        self._counts = context.get_store("counts")

    def process_batch(
        self, batch: MessageBatch[Any, Any], collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        self._before_batch()
        self._counts.merge_all(Counter([event.user for event in batch.messages]), operator.add)
        self._after_batch(len(batch))


class Pipelined(_Marking, MeasuredPipelineTask):
    """The work as a pipeline, with events of a class. With a repartition a message is done behind it."""

    def init(self, context: Context) -> None:
        super().init(context)
        MeasuredPipelineTask.init(self, context)

    def process_batch(
        self, batch: MessageBatch[Any, Any], collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        self._before_batch()
        super().process_batch(batch, collector, coordinator)
        if not self.plan.own_streams:
            self._after_batch(len(batch))
        elif batch.ssp.system_stream in self.plan.own_streams:
            self._after_batch(sum(map(int, batch.messages)))  # the total of a key's events, as b"+3"

    def close(self) -> None:
        MeasuredPipelineTask.close(self)
        super().close()


class TypedPassThroughBatch(_Marking, BatchTask):
    """The pass-through of events of a class, a batch at a time."""

    def init(self, context: Context) -> None:
        super().init(context)
        self._output = SystemStream.parse(context.job.config["bench.output"])

    def process_batch(
        self, batch: MessageBatch[Any, Any], collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        self._before_batch()
        for event in batch.messages:
            event.seen = True
        collector.send_batch(self._output, batch.keys, batch.messages)
        self._after_batch(len(batch))
