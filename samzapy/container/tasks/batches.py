"""Runs batch tasks: gathers the messages of a poll, or of some time, by partition, and gives the task one batch at a time.

1. Messages are gathered until the whole poll is taken, so a partition that a poll brings in pieces is one batch. With
   `task.batch.max.wait.ms` they are gathered until the first of them has waited that long, or until there are
   `task.batch.max.messages`.
2. Windows, timers and commits do not wait for gathered messages: they run in between, with positions before them. A stop
   leaves gathered messages to the next start, as if never polled. The end of a partition, and a control message, come after
   them.
3. A batch is never cut because it takes long: the task chooses its size.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from math import inf
from operator import attrgetter
from typing import Any

from samzapy.api.batch import MessageBatch
from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStreamPartition
from samzapy.config.tasks.processing import BatchConfig
from samzapy.container.run_loop import RunLoop
from samzapy.container.tasks.synchronous import Processing, SynchronousExecutor
from samzapy.container.tasks.task_instance import TaskInstance
from samzapy.container.tasks.throughput import ProcessTimes

ProcessBatch = Callable[[MessageBatch[Any, Any], MessageCollector, TaskCoordinator], object]
Run = Sequence[IncomingMessageEnvelope]

_offset = attrgetter("offset")


def as_batch(run: Run) -> MessageBatch[Any, Any]:
    """The run as a batch; a message that was decoded again comes as a list."""
    return run if isinstance(run, MessageBatch) else MessageBatch.of(run)


class GatheredMessages:
    """The runs of one partition that wait for the task."""

    __slots__ = ("_count", "_last_at", "_runs", "_since")

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._count = 0
        self._since = self._last_at = inf

    def add(self, run: Run, now: float) -> None:
        """Take a run that came at the monotonic time `now`."""
        if not self._runs:
            self._since = now
        self._last_at = now
        self._runs.append(run)
        self._count += len(run)

    def __bool__(self) -> bool:
        return bool(self._runs)

    @property
    def since(self) -> float:
        """The monotonic time when the first of them came; infinity if there are none."""
        return self._since if self._runs else inf

    def full(self, most: int) -> bool:
        """Whether they are due before their time: there are `most`, or one that cannot be part of a batch."""
        return self._count >= most or any(not isinstance(run, MessageBatch) for run in self._runs)

    def take(self, multiple: int = 1) -> Iterator[Run]:
        """Take them out, in batches as long as possible. If all are batches, only multiples of `multiple` are taken."""
        runs, self._runs, self._count = self._runs, [], 0
        for batches, group in groupby(runs, lambda run: isinstance(run, MessageBatch)):
            if not batches:
                yield from group
                continue
            batch: MessageBatch[Any, Any] = MessageBatch.joined(list(group))  # type: ignore[arg-type]  # batches they are
            rest = len(batch) % multiple
            if rest and len(batch) == sum(map(len, runs)):
                self.add(batch[len(batch) - rest :], self._last_at)
                batch = batch[: len(batch) - rest]
            yield batch

    def give_back(self, runs: Iterable[Run]) -> None:
        """Put back runs that were taken out and not processed, before all others."""
        self._runs[:0] = back = [run for run in runs if run]
        self._count += sum(map(len, back))


class BatchExecutor(SynchronousExecutor):
    """Passes each task batches of its accepted messages, after each poll."""

    def __init__(self, processing: Mapping[str, Processing], times: ProcessTimes, config: BatchConfig) -> None:
        """`processing` calls the user's `process_batch`, by task; `times` are the times of all tasks."""
        super().__init__(processing, times)
        self._slice = config.max_messages or sys.maxsize
        self._wait_s = config.max_wait_ms / 1000.0
        self._gathered: dict[tuple[str, SystemStreamPartition], GatheredMessages] = {}
        self._tasks: dict[str, TaskInstance] = {}

    @property
    def due_at(self) -> float:
        return min((each.since for each in self._gathered.values()), default=inf) + self._wait_s

    def process(self, loop: RunLoop, task: TaskInstance, ssp: SystemStreamPartition, envelopes: Run) -> None:
        """Accept the messages."""
        if envelopes:
            self._tasks[task.name] = task
            self._gathered.setdefault((task.name, ssp), GatheredMessages()).add(envelopes, loop.clock.monotonic())

    def advance(self, loop: RunLoop) -> bool:
        """Process the messages that have been gathered for long enough."""
        now, waits = loop.clock.monotonic(), self._wait_s > 0
        for (name, ssp), gathered in self._gathered.items():
            if now >= gathered.since + self._wait_s:
                self._flush(loop, self._tasks[name], ssp, gathered)
            elif waits and gathered.full(self._slice):
                self._flush(loop, self._tasks[name], ssp, gathered, self._slice)
        return False

    def finish(self, loop: RunLoop, task: TaskInstance) -> bool:
        for (name, ssp), gathered in self._gathered.items():
            if name == task.name:
                self._flush(loop, task, ssp, gathered)
        return not loop.stopping

    def partition_ended(self, loop: RunLoop, task: TaskInstance, ssp: SystemStreamPartition) -> None:
        gathered = self._gathered.get((task.name, ssp))
        if gathered is not None:
            self._flush(loop, task, ssp, gathered)
            if gathered:
                return  # the loop stops before the end of the partition
        super().partition_ended(loop, task, ssp)

    def is_done(self, loop: RunLoop, task: TaskInstance) -> bool:
        return not any(gathered for (name, _), gathered in self._gathered.items() if name == task.name)

    def _flush(
        self,
        loop: RunLoop,
        task: TaskInstance,
        ssp: SystemStreamPartition,
        gathered: GatheredMessages,
        multiple: int = 1,
    ) -> None:
        """Process gathered messages until the loop stops. The rest stays gathered, so that no end of a partition comes
        before it."""
        if loop.stopping:
            return
        runs = gathered.take(multiple)
        for run in runs:
            super().process(loop, task, ssp, run)
            if loop.stopping:
                gathered.give_back([run[bisect_left(run, task.offsets[ssp], key=_offset) :], *runs])
                return

    def _resize(self, processed: int, took: float) -> None:
        """The size stays."""
