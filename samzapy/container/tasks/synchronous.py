"""Runs synchronous tasks: a slice of messages at a time, and between slices a look at the clock and at requests.

A slice has as many messages of one partition as the task has recently processed in about 50 ms. So the loop sees timers
and stop requests in time for messages of any cost, and the looks cost cheap messages little. After the last slice of a
run the loop checks whether something is due, so commits also come in time for many partitions with few messages each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStreamPartition
from samzapy.container.run_loop import RunLoop, TaskExecutor
from samzapy.container.tasks.task_instance import TaskInstance
from samzapy.container.tasks.throughput import ProcessTimes

Process = Callable[[IncomingMessageEnvelope, MessageCollector, TaskCoordinator], object]

_offset = attrgetter("offset")

_SLICE_SECONDS = 0.05
_MIN_SLICE = 1
#: The outputs of a slice wait in memory until its end; larger slices exceed the processor's cache.
_MAX_SLICE = 256


class Processing(ABC):
    """Calls the `process` of one task. Subclasses differ in the handling of messages that fail."""

    __slots__ = ()

    @abstractmethod
    def process(self, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope]) -> int:
        """Process messages of one partition until the task has a request; returns the number of processed ones.

        Raises the error that ends the attempt, naming the message's position; the task's position stays before it.
        """


class StrictProcessing(Processing):
    """The first message that fails ends the attempt."""

    __slots__ = ("_process", "_task")

    def __init__(self, task: TaskInstance, process: Process) -> None:
        self._task = task
        self._process = process

    def process(self, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope]) -> int:
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

    lingers = False
    idle = True

    def __init__(self, processing: Mapping[str, Processing], times: ProcessTimes) -> None:
        """`processing` calls the user's `process`, by task; `times` are the times of all tasks."""
        self._processing = processing
        self._times = times
        self._slice = 100

    def wants_input(self, loop: RunLoop) -> bool:
        return True

    def process(
        self,
        loop: RunLoop,
        task: TaskInstance,
        ssp: SystemStreamPartition,
        envelopes: Sequence[IncomingMessageEnvelope],
    ) -> None:
        process, timers, clock = self._processing[task.name].process, task.timers, loop.clock
        done, total = 0, len(envelopes)
        timers.begin(ssp, envelopes)
        while done < total:
            started = clock.monotonic()
            last = timers.until_due(envelopes, done, min(total, done + self._slice))
            processed = process(ssp, envelopes[done:last] if done or last < total else envelopes)
            done += processed
            task.collector.hand_over()
            ended = clock.monotonic()
            took = ended - started
            task.throughput.seconds += took
            self._times.add(processed, took)
            self._resize(processed, took)
            if task.requests.pending:
                loop.obey(task)
            loop.fire(task)
            if task.over_budget():
                loop.commit()
            if done < total:
                loop.look_at_clock(amid_poll=True)
            else:
                loop.look_between_runs(ended)
            if loop.stop_asked:
                loop.stopping = True
                return

    def skip(self, task: TaskInstance, ssp: SystemStreamPartition, offset: int) -> None:
        task.skip(ssp, offset)

    def advance(self, loop: RunLoop) -> bool:
        return False

    def finish(self, loop: RunLoop, task: TaskInstance) -> bool:
        return True

    def settle(self, loop: RunLoop, task: TaskInstance) -> None:
        """Return at once: no message is in flight."""

    def leave_nothing_to_undo(self, loop: RunLoop, task: TaskInstance) -> None:
        """Return at once: no message is in flight."""

    def busy_for_commit(self, loop: RunLoop) -> str:
        return ""

    def partition_ended(self, loop: RunLoop, task: TaskInstance, ssp: SystemStreamPartition) -> None:
        loop.follow(task, moved=task.event_clock.end(ssp))

    def is_done(self, loop: RunLoop, task: TaskInstance) -> bool:
        return True

    def wind_down(self, loop: RunLoop) -> None:
        """Return at once: no message is in flight."""

    def close(self) -> None:
        """Return at once: no message is in flight."""

    def _resize(self, processed: int, took: float) -> None:
        if took > 2 * _SLICE_SECONDS:
            self._slice = max(_MIN_SLICE, int(processed * _SLICE_SECONDS / took))
        elif took < _SLICE_SECONDS / 2 and processed >= self._slice:
            self._slice = min(2 * self._slice, _MAX_SLICE)
