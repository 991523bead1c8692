"""The tasks of `configs/bench/`, and the marks that they write for the measurement.

A task marks when it is ready, when it is closed, and the CPU time between. The runtime restores before `init` and
commits before `close`, so the time from the first ready task to the last closed one is exactly the processing of the
messages, without start-up and restore. The marks are lines in a file, appended by the processes that run the tasks.
"""

from __future__ import annotations

import json
import operator
import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope, MessageBatch, OutgoingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStream
from samzapy.api.task import BatchTask, ClosableTask, InitableTask, StreamTask

#: The key of the job file that names the marks' file; without it nothing is written.
MARKS_KEY = "bench.marks"
READY, FIRST, CLOSED = "ready", "first", "closed"


class Mark(NamedTuple):
    """One moment of one task's process. `at` is `time.monotonic`, one clock for all processes of a machine; `cpu_s` is
    the process's, user and system, all threads."""

    event: str
    pid: int
    at: float
    cpu_s: float


@dataclass(frozen=True)
class Stretch:
    """The measured stretch of a run, from the first ready task to the last closed one. `first`: the time when the first
    message was processed, None if its task does not mark it."""

    start: float
    end: float
    cpu_s: float
    cpu_before_s: float
    first: float | None = None


def append_mark(path: str, event: str) -> None:
    """Add a mark of this process, as of now, to the file at `path`."""
    mark = Mark(event, os.getpid(), time.monotonic(), time.process_time())
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(json.dumps(mark) + "\n")


def read_stretch(path: Path) -> Stretch | None:
    """The stretch between the marks in a file; None if no task was closed, or none wrote any.

    Only processes that closed count: an attempt that failed has been repeated by another.
    """
    if not path.exists():
        return None
    marks = [Mark(*json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    closed = {mark.pid: mark for mark in marks if mark.event == CLOSED}
    ready = {mark.pid: mark for mark in reversed(marks) if mark.event == READY and mark.pid in closed}
    if not ready:
        return None
    before = sum(mark.cpu_s for mark in ready.values())
    return Stretch(
        start=min(mark.at for mark in ready.values()),
        end=max(mark.at for mark in closed.values()),
        cpu_s=sum(mark.cpu_s for mark in closed.values()) - before,
        cpu_before_s=before,
        first=min((mark.at for mark in marks if mark.event == FIRST and mark.pid in closed), default=None),
    )


class Marked(InitableTask, ClosableTask):
    """A task that marks when it is ready and closed, in the file that `bench.marks` names."""

    _marks: str | None = None

    def init(self, context: Context) -> None:
        self._marks = context.job.config.get(MARKS_KEY)
        if self._marks:
            append_mark(self._marks, READY)

    def close(self) -> None:
        if self._marks:
            append_mark(self._marks, CLOSED)


class _Sending(Marked):
    """Sends to the `system.stream` that `bench.output` names."""

    _output: SystemStream

    def init(self, context: Context) -> None:
        self._output = SystemStream.parse(context.job.config["bench.output"])
        super().init(context)


class _Counting(Marked):
    """Counts in the store `counts`."""

    _counts: KeyValueStore[str, int]

    def init(self, context: Context) -> None:
        self._counts = context.get_store("counts")
        super().init(context)


class PassThroughTask(_Sending, StreamTask):
    """Adds one field to an event and sends it on."""

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        event = envelope.message
        event["seen"] = True
        collector.send(OutgoingMessageEnvelope(self._output, event, envelope.key))


class KeyedCountTask(_Counting, StreamTask):
    """Counts the events of each `user`."""

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        counts = self._counts
        user = envelope.message["user"]
        counts.put(user, (counts.get(user) or 0) + 1)


class TypedPassThroughTask(PassThroughTask):
    """The same with events of a class."""

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        event = envelope.message
        event.seen = True
        collector.send(OutgoingMessageEnvelope(self._output, event, envelope.key))


class TypedKeyedCountTask(KeyedCountTask):
    """The same with events of a class."""

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        counts = self._counts
        user = envelope.message.user
        counts.put(user, (counts.get(user) or 0) + 1)


class FirstMessageTask(KeyedCountTask):
    """The keyed count; marks the end of its first message, too."""

    _is_first = True

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        super().process(envelope, collector, coordinator)
        if self._is_first and self._marks:
            append_mark(self._marks, FIRST)
        self._is_first = False


Batch = MessageBatch[Any, Any]


class KeyedCountBatchTask(_Counting, BatchTask):
    """Counts the events of a batch by their `user`, and merges the counts into the store."""

    def process_batch(self, batch: Batch, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        self._counts.merge_all(Counter([event["user"] for event in batch.messages]), operator.add)


class TypedKeyedCountBatchTask(KeyedCountBatchTask):
    """The same with events of a class."""

    def process_batch(self, batch: Batch, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        self._counts.merge_all(Counter([event.user for event in batch.messages]), operator.add)


class KeysBatchTask(KeyedCountBatchTask):
    """Counts the keys, which are the users; the messages are not decoded."""

    def process_batch(self, batch: Batch, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        self._counts.merge_all(Counter(batch.keys), operator.add)


class PassThroughBatchTask(_Sending, BatchTask):
    """Adds one field to the events of a batch and sends them on."""

    def process_batch(self, batch: Batch, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        for event in batch.messages:
            event["seen"] = True
        collector.send_batch(self._output, batch.keys, batch.messages)


class TypedPassThroughBatchTask(PassThroughBatchTask):
    """The same with events of a class."""

    def process_batch(self, batch: Batch, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        for event in batch.messages:
            event.seen = True
        collector.send_batch(self._output, batch.keys, batch.messages)
