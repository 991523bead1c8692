"""Runs the tasks that process their messages in turn, one by one or in batches.

1. A step of a StreamTask is a slice of messages of one partition, as many as the task has recently processed in about
   50 ms. So the loop sees timers and stop requests in time for messages of any cost, and the steps cost cheap messages
   little.
2. A BatchTask gets one batch at a time. Messages are gathered until the whole poll is taken, so a partition that a poll
   brings in pieces is one batch. With `task.batch.max.wait.ms` they are gathered until the first of them has waited
   that long, or until there are `task.batch.max.messages`. A batch is never cut because it takes long: the task chooses
   its size.
3. Windows, timers and commits do not wait for gathered messages: they run in between, with positions before them. A
   stop leaves gathered messages to the next start, as if never polled. The end of a partition, and a control message,
   come after them.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from itertools import groupby
from math import inf
from operator import attrgetter
from typing import Any

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import MetricsRegistry
from samzapy.api.envelope import IncomingMessageEnvelope, MessageBatch
from samzapy.api.stream import SystemStreamPartition
from samzapy.clock import Clock
from samzapy.config.task import BatchConfig
from samzapy.container.errors.recovery import TolerantCollector
from samzapy.container.event_time.control_messages import ControlRun
from samzapy.container.inputs.decode import Undecodable
from samzapy.container.inputs.inputs import Run
from samzapy.container.run_loop import Delivery, Load, Quiet, Step, TaskExecutor
from samzapy.container.tasks.task_instance import TaskInstance
from samzapy.errors import RecordRefused

Process = Callable[[IncomingMessageEnvelope, MessageCollector, TaskCoordinator], object]

_offset = attrgetter("offset")

_SLICE_SECONDS = 0.05
_MIN_SLICE = 1
#: The outputs of a slice wait in memory until its end; larger slices exceed the processor's cache.
_MAX_SLICE = 256

#: The bounds of the buckets: seconds for a message, from a microsecond on, and messages of a slice or batch.
SECONDS = (1e-6, 5e-6, 1e-5, 5e-5, 1e-4, 5e-4, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0, 60.0, 600.0)
MESSAGES = (1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 65_536)

_IDLE = Load()


class Processing(ABC):
    """Calls the `process` of one task. Subclasses differ in the handling of messages that fail."""

    __slots__ = ()

    @abstractmethod
    def process(self, ssp: SystemStreamPartition, envelopes: Run) -> int:
        """Process messages of one partition until the task has a request; returns the number of processed ones.

        Raises the error that ends the attempt, naming the message's position; the task's position stays before it.
        """


class StrictProcessing(Processing):
    """The first message that fails ends the attempt."""

    __slots__ = ("_process", "_task")

    def __init__(self, task: TaskInstance, process: Process) -> None:
        self._task = task
        self._process = process

    def process(self, ssp: SystemStreamPartition, envelopes: Run) -> int:
        task = self._task
        process, collector, requests = self._process, task.collector, task.requests
        task.touched = True
        envelope = envelopes[0]
        try:
            for envelope in envelopes:  # the handler and the position need the last one
                if (returned := process(envelope, collector, requests)) is not None:
                    task.refuse_returned(f"process of {envelope.position}", returned)
                if requests.pending:
                    break
        except BaseException as cause:  # noqa: BLE001  # raised again with the position
            task.raise_failure(envelope, cause)
        done = bisect_right(envelopes, envelope.offset, key=_offset) if requests.pending else len(envelopes)
        task.passed(ssp, envelopes, done)
        return done


class SynchronousExecutor(TaskExecutor):
    """Processes every message before the next one, so nothing is ever in flight."""

    def __init__(self, processing: Mapping[str, Processing], clock: Clock, metrics: MetricsRegistry) -> None:
        self._processing = processing
        self._clock = clock
        self._seconds = metrics.histogram("process", "seconds", SECONDS)
        self._messages = metrics.histogram("process", "batch", MESSAGES)
        self._slice = 100

    @property
    def load(self) -> Load:
        return _IDLE

    def process(
        self, deliveries: Iterable[Delivery], ended: Collection[SystemStreamPartition]
    ) -> Generator[Step, None, None]:
        for task, ssp, run in deliveries:
            if isinstance(run, ControlRun):
                yield self._passed(task, ssp, run)
            else:
                yield from self._slices(task, ssp, run)
            del run  # processed messages are freed before the next ones are decoded

    def settle(self, quiet: Quiet, task: TaskInstance | None = None, *, stopping: bool) -> str:
        return ""

    def close(self) -> None:
        """Nothing is in flight."""

    @staticmethod
    def _passed(task: TaskInstance, ssp: SystemStreamPartition, run: ControlRun) -> Step:
        task.skip(ssp, run[0].offset)
        return Step(task, control=(ssp, run.control))

    def _slices(self, task: TaskInstance, ssp: SystemStreamPartition, run: Run) -> Generator[Step, None, None]:
        if isinstance(run, Undecodable):
            assert isinstance(task.collector, TolerantCollector)
            task.collector.recovery.pass_over(run)
            task.skip(ssp, run[0].offset)
            task.collector.hand_over()
            yield Step(task)
            return
        process, timers, now = self._processing[task.name].process, task.timers, self._clock.monotonic
        done, total, step = 0, len(run), Step(task)
        if timers is not None:
            timers.begin(ssp, run)
        while done < total:
            started, last = now(), min(total, done + self._slice)
            if timers is not None:
                last = timers.until_due(run, done, last)
            processed = process(ssp, run[done:last] if done or last < total else run)
            try:
                task.collector.hand_over()
            except RecordRefused as refused:
                task.raise_failure(as_batch(run)[done : done + max(processed, 1)], refused)
            done += processed
            self._count(task, processed, now() - started)
            yield step

    def _count(self, task: TaskInstance, processed: int, took: float) -> None:
        task.seconds += took
        if processed:
            self._seconds.update(took / processed, processed)
            self._messages.update(processed)
        self._resize(processed, took)

    def _resize(self, processed: int, took: float) -> None:
        if took > 2 * _SLICE_SECONDS:
            self._slice = max(_MIN_SLICE, int(processed * _SLICE_SECONDS / took))
        elif took < _SLICE_SECONDS / 2 and processed >= self._slice:
            self._slice = min(2 * self._slice, _MAX_SLICE)


ProcessBatch = Callable[[MessageBatch[Any, Any], MessageCollector, TaskCoordinator], object]


def as_batch(run: Run) -> MessageBatch[Any, Any]:
    """The run as a batch; a message that was decoded again comes as a list."""
    return run if isinstance(run, MessageBatch) else MessageBatch.of(run)


class GatheredMessages:
    """The runs of one partition that wait for the task."""

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._count = 0
        self._last_at = inf
        #: The monotonic time when the first of them came; infinity if there are none.
        self.since = inf

    def add(self, run: Run, now: float) -> None:
        self.since, self._last_at = min(self.since, now), now
        self._runs.append(run)
        self._count += len(run) if isinstance(run, MessageBatch) else sys.maxsize

    def full(self, most: int) -> bool:
        """Whether they are due before their time: there are `most`, or one that cannot be part of a batch."""
        return self._count >= most

    def take(self, multiple: int = 1) -> Iterator[Run]:
        """Take them out, in batches as long as possible. If all are batches, only multiples of `multiple` are taken."""
        runs, count = self._runs, self._count
        self._runs, self._count, self.since = [], 0, inf
        for batches, group in groupby(runs, lambda run: isinstance(run, MessageBatch)):
            if not batches:
                yield from group
                continue
            batch: MessageBatch[Any, Any] = MessageBatch.joined(list(group))  # type: ignore[arg-type]  # batches
            rest = len(batch) % multiple
            if rest and len(batch) == count:
                self.add(batch[len(batch) - rest :], self._last_at)
                batch = batch[: len(batch) - rest]
            yield batch


class BatchExecutor(SynchronousExecutor):
    """Passes each task batches of its accepted messages, after each poll."""

    def __init__(
        self, processing: Mapping[str, Processing], clock: Clock, metrics: MetricsRegistry, config: BatchConfig
    ) -> None:
        super().__init__(processing, clock, metrics)
        self._slice = config.max_messages or sys.maxsize
        self._wait_s = config.max_wait_ms / 1000.0
        self._gathered: dict[tuple[str, SystemStreamPartition], tuple[TaskInstance, GatheredMessages]] = {}

    @property
    def load(self) -> Load:
        return Load(due_at=min((held.since for _, held in self._gathered.values()), default=inf) + self._wait_s)

    def process(
        self, deliveries: Iterable[Delivery], ended: Collection[SystemStreamPartition]
    ) -> Generator[Step, None, None]:
        for task, ssp, run in deliveries:
            if isinstance(run, ControlRun):
                yield from self._all_of(task)
                yield self._passed(task, ssp, run)
                continue
            held = self._gathered.setdefault((task.name, ssp), (task, GatheredMessages()))[1]
            held.add(run, self._clock.monotonic())
        now = self._clock.monotonic()
        for (_, ssp), (task, held) in self._gathered.items():
            if ssp in ended or now >= held.since + self._wait_s:
                yield from self._batches(task, ssp, held.take())
            elif self._wait_s > 0 and held.full(self._slice):
                yield from self._batches(task, ssp, held.take(self._slice))
        self._gathered = {place: item for place, item in self._gathered.items() if item[1].since < inf}

    def _all_of(self, task: TaskInstance) -> Generator[Step, None, None]:
        for (name, ssp), (_, held) in self._gathered.items():
            if name == task.name:
                yield from self._batches(task, ssp, held.take())

    def _batches(
        self, task: TaskInstance, ssp: SystemStreamPartition, runs: Iterable[Run]
    ) -> Generator[Step, None, None]:
        for run in runs:
            yield from self._slices(task, ssp, run)

    def _resize(self, processed: int, took: float) -> None:
        """The size stays."""
