"""Runs synchronous tasks: a step is a slice of messages of one partition.

A slice has as many messages as the task has recently processed in about 50 ms. So the loop sees timers and stop
requests in time for messages of any cost, and the steps cost cheap messages little.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from operator import attrgetter

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.metrics import MetricsRegistry
from samzapy.api.stream import SystemStreamPartition
from samzapy.clock import Clock
from samzapy.container.event_time.control_messages import ControlRun
from samzapy.container.tasks.executor import Delivery, Load, Quiet, Run, Step, TaskExecutor
from samzapy.container.tasks.task_instance import TaskInstance

Process = Callable[[IncomingMessageEnvelope, MessageCollector, TaskCoordinator], object]

_offset = attrgetter("offset")

_SLICE_SECONDS = 0.05
_MIN_SLICE = 1
#: The outputs of a slice wait in memory until its end; larger slices exceed the processor's cache.
_MAX_SLICE = 256

#: The bounds of the buckets: seconds for a message, from a microsecond on, and messages of a slice or batch.
SECONDS = (1e-6, 5e-6, 1e-5, 5e-5, 1e-4, 5e-4, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0)
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
        process, timers, now = self._processing[task.name].process, task.timers, self._clock.monotonic
        done, total, step = 0, len(run), Step(task)
        timers.begin(ssp, run)
        while done < total:
            started = now()
            last = timers.until_due(run, done, min(total, done + self._slice))
            processed = process(ssp, run[done:last] if done or last < total else run)
            done += processed
            task.collector.hand_over()
            self._count(task, processed, now() - started)
            yield step

    def _count(self, task: TaskInstance, processed: int, took: float) -> None:
        task.throughput.seconds += took
        if processed:
            self._seconds.update(took / processed, processed)
            self._messages.update(processed)
        self._resize(processed, took)

    def _resize(self, processed: int, took: float) -> None:
        if took > 2 * _SLICE_SECONDS:
            self._slice = max(_MIN_SLICE, int(processed * _SLICE_SECONDS / took))
        elif took < _SLICE_SECONDS / 2 and processed >= self._slice:
            self._slice = min(2 * self._slice, _MAX_SLICE)
