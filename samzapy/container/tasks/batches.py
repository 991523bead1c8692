"""Runs batch tasks: gathers the messages of a poll, or of some time, by partition, and gives the task one batch at a
time.

1. Messages are gathered until the whole poll is taken, so a partition that a poll brings in pieces is one batch. With
   `task.batch.max.wait.ms` they are gathered until the first of them has waited that long, or until there are
   `task.batch.max.messages`.
2. Windows, timers and commits do not wait for gathered messages: they run in between, with positions before them. A
   stop leaves gathered messages to the next start, as if never polled. The end of a partition, and a control message,
   come after them.
3. A batch is never cut because it takes long: the task chooses its size.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from itertools import groupby
from math import inf
from typing import Any

from samzapy.api.batch import MessageBatch
from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.metrics import MetricsRegistry
from samzapy.api.stream import SystemStreamPartition
from samzapy.clock import Clock
from samzapy.config.task import BatchConfig
from samzapy.container.event_time.control_messages import ControlRun
from samzapy.container.tasks.executor import Delivery, Load, Run, Step
from samzapy.container.tasks.synchronous import Processing, SynchronousExecutor
from samzapy.container.tasks.task_instance import TaskInstance

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
        self._count += len(run)

    def full(self, most: int) -> bool:
        """Whether they are due before their time: there are `most`, or one that cannot be part of a batch."""
        return self._count >= most or any(not isinstance(run, MessageBatch) for run in self._runs)

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
