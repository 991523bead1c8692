"""Runs synchronous tasks: a slice of messages at a time, and between slices a look at the clock and at requests.

A slice is as many messages of one partition as a task has lately processed in about 50 ms. So the loop sees timers and
stop requests in time whatever a message costs, and cheap messages pay for them once in thousands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStreamPartition
from samzapy.container.run_loop import RunLoop, TaskExecutor
from samzapy.container.tasks.task_instance import TaskInstance

_SLICE_SECONDS = 0.05
_MIN_SLICE = 1
#: What a slice sends waits in memory until its end: more than this no longer stays in the processor's cache.
_MAX_SLICE = 256


class SynchronousExecutor(TaskExecutor):
    """Processes every message before the next one, so nothing is ever in flight."""

    lingers = False
    idle = True

    def __init__(self) -> None:
        self._slice = 100

    def wants_input(self, loop: RunLoop) -> bool:
        return True

    def polled(self, ends: dict[SystemStreamPartition, int]) -> Mapping[SystemStreamPartition, int]:
        return ends

    def process(
        self,
        loop: RunLoop,
        task: TaskInstance,
        ssp: SystemStreamPartition,
        envelopes: Sequence[IncomingMessageEnvelope],
    ) -> None:
        done, total, timers, clock = 0, len(envelopes), task.timers, loop.clock
        timers.begin(ssp, envelopes)
        while done < total:
            started = clock.monotonic()
            part = envelopes if total <= self._slice and not done else envelopes[done : done + self._slice]
            part = timers.until_due(part)
            processed = task.process(ssp, part)
            done += processed
            task.collector.hand_over()
            self._resize(processed, clock.monotonic() - started)
            if task.requests.pending:
                loop.obey(task)
            loop.fire(task)
            if task.over_budget():
                loop.commit()
            if done < total:
                loop.look_at_clock()
            if loop.may_stop():
                loop.stopping = True
                return

    def skip(self, task: TaskInstance, ssp: SystemStreamPartition, offset: int) -> None:
        task.skip(ssp, offset)

    def advance(self, loop: RunLoop) -> bool:
        return False

    def finish(self, loop: RunLoop, task: TaskInstance) -> bool:
        return True

    def settle(self, loop: RunLoop, task: TaskInstance) -> None:
        """Nothing is in flight."""

    def busy_for_commit(self, loop: RunLoop) -> str:
        return ""

    def partition_ended(self, loop: RunLoop, task: TaskInstance, ssp: SystemStreamPartition) -> None:
        loop.follow(task, moved=task.event_clock.end(ssp))

    def is_done(self, loop: RunLoop, task: TaskInstance) -> bool:
        return True

    def wind_down(self, loop: RunLoop) -> None:
        """Nothing is in flight."""

    def _resize(self, processed: int, took: float) -> None:
        if took > 2 * _SLICE_SECONDS:
            self._slice = max(_MIN_SLICE, int(processed * _SLICE_SECONDS / took))
        elif took < _SLICE_SECONDS / 2 and processed >= self._slice:
            self._slice = min(2 * self._slice, _MAX_SLICE)
