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
from array import array
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from samzapy.api.batch import BatchTask, MessageBatch
from samzapy.api.collector import MessageCollector, RequestScope, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope, OutgoingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStream
from samzapy.api.task import ClosableTask, InitableTask, StreamTask, WindowableTask

#: The key of the job file that names the marks' file; without it nothing is written.
MARKS_KEY = "bench.marks"
READY, FIRST, CLOSED = "ready", "first", "closed"


@dataclass(frozen=True)
class Mark:
    """One moment of one task's process. `at` is `time.monotonic`, one clock for all processes of a machine; `cpu_s` is
    the process's, user and system, all threads; `timeline` holds (at, partition, next offset), `latencies_ns` are the
    process's own."""

    event: str
    pid: int
    at: float
    cpu_s: float
    timeline: list[tuple[float, int, int]] = field(default_factory=list)
    latencies_ns: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Stretch:
    """The measured stretch of a run, from the first ready task to the last closed one. Latencies are in each process's
    order. `first`: the time when the first message was processed, None if its task does not mark it."""

    start: float
    end: float
    cpu_s: float
    cpu_before_s: float
    timeline: tuple[tuple[float, int, int], ...]
    latencies_ns: tuple[int, ...]
    first: float | None = None


def append_mark(
    path: str,
    event: str,
    timeline: list[tuple[float, int, int]] | None = None,
    latencies_ns: list[int] | None = None,
) -> None:
    """Add a mark of this process, as of now, to the file at `path`."""
    mark = Mark(event, os.getpid(), time.monotonic(), time.process_time(), timeline or [], latencies_ns or [])
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(mark)) + "\n")


def read_stretch(path: Path) -> Stretch | None:
    """The stretch between the marks in a file; None if no task was closed, or none wrote any.

    Only processes that closed count: an attempt that failed has been repeated by another.
    """
    if not path.exists():
        return None
    marks = [Mark(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    closed = [mark for mark in marks if mark.event == CLOSED]
    pids = {mark.pid for mark in closed}
    ready = [mark for mark in marks if mark.event == READY and mark.pid in pids]
    if not ready:
        return None
    first = [min((mark for mark in ready if mark.pid == pid), key=lambda mark: mark.at) for pid in pids]
    last = [max((mark for mark in closed if mark.pid == pid), key=lambda mark: mark.at) for pid in pids]
    before = sum(mark.cpu_s for mark in first)
    return Stretch(
        start=min(mark.at for mark in first),
        end=max(mark.at for mark in last),
        cpu_s=sum(mark.cpu_s for mark in last) - before,
        cpu_before_s=before,
        timeline=tuple(sorted((at, partition, offset) for mark in closed for at, partition, offset in mark.timeline)),
        latencies_ns=tuple(ns for mark in closed for ns in mark.latencies_ns),
        first=min((mark.at for mark in marks if mark.event == FIRST and mark.pid in pids), default=None),
    )


class Marked(InitableTask, WindowableTask, ClosableTask):
    """A task of one input partition that marks when it is ready and closed, in the file that `bench.marks` names, and
    notes its progress in every window. It keeps the current message in `at`."""

    at: IncomingMessageEnvelope | None = None
    _marks: str | None = None

    def init(self, context: Context) -> None:
        self._timeline: list[tuple[float, int, int]] = []
        self._marks = context.job.config.get(MARKS_KEY)
        if self._marks:
            append_mark(self._marks, READY)

    def window(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        if self.at is not None:
            self._timeline.append((time.monotonic(), self.at.ssp.partition, self.at.offset + 1))

    def close(self) -> None:
        if self._marks:
            if self.at is not None:
                self._timeline.append((time.monotonic(), self.at.ssp.partition, self.at.offset + 1))
            append_mark(self._marks, CLOSED, self._timeline, self.take_latencies())

    def take_latencies(self) -> list[int]:
        """The latencies in nanoseconds that were noted since the last call; none here."""
        return []


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
        self.at = envelope
        event = envelope.message
        event["seen"] = True
        collector.send(OutgoingMessageEnvelope(self._output, event, envelope.key))


class KeyedCountTask(_Counting, StreamTask):
    """Counts the events of each `user`."""

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        self.at = envelope
        counts = self._counts
        user = envelope.message["user"]
        counts.put(user, (counts.get(user) or 0) + 1)


class TypedPassThroughTask(PassThroughTask):
    """The same with events of a class."""

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        self.at = envelope
        event = envelope.message
        event.seen = True
        collector.send(OutgoingMessageEnvelope(self._output, event, envelope.key))


class TypedKeyedCountTask(KeyedCountTask):
    """The same with events of a class."""

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        self.at = envelope
        counts = self._counts
        user = envelope.message.user
        counts.put(user, (counts.get(user) or 0) + 1)


class FirstMessageTask(KeyedCountTask):
    """The keyed count; marks the end of its first message, too."""

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        is_first = self.at is None
        super().process(envelope, collector, coordinator)
        if is_first and self._marks:
            append_mark(self._marks, FIRST)


class LatencyTask(KeyedCountTask):
    """The keyed count of events with the time of their writing (`at_ns`); notes their latency.

    The container stops when its tasks have seen `bench.expected` events.
    """

    #: Of all tasks in the process.
    latencies_ns = array("q")

    def init(self, context: Context) -> None:
        self._expected = int(context.job.config["bench.expected"])
        super().init(context)

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        super().process(envelope, collector, coordinator)
        self.latencies_ns.append(time.time_ns() - envelope.message["at_ns"])

    def window(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        super().window(collector, coordinator)
        if len(self.latencies_ns) >= self._expected:
            coordinator.shutdown(RequestScope.ALL_TASKS_IN_CONTAINER)

    def take_latencies(self) -> list[int]:
        taken = self.latencies_ns.tolist()
        del self.latencies_ns[:]
        return taken


Batch = MessageBatch[Any, Any]


class KeyedCountBatchTask(_Counting, BatchTask):
    """Counts the events of a batch by their `user`, and merges the counts into the store."""

    def process_batch(self, batch: Batch, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        self._counts.merge_all(Counter([event["user"] for event in batch.messages]), operator.add)
        self.at = batch[-1]


class TypedKeyedCountBatchTask(KeyedCountBatchTask):
    """The same with events of a class."""

    def process_batch(self, batch: Batch, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        self._counts.merge_all(Counter([event.user for event in batch.messages]), operator.add)
        self.at = batch[-1]


class KeysBatchTask(KeyedCountBatchTask):
    """Counts the keys, which are the users; the messages are not decoded."""

    def process_batch(self, batch: Batch, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        self._counts.merge_all(Counter(batch.keys), operator.add)
        self.at = batch[-1]


class PassThroughBatchTask(_Sending, BatchTask):
    """Adds one field to the events of a batch and sends them on."""

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
