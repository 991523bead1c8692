"""Runs asynchronous tasks: starts what there is room for, waits for what ends, and lets a commit have no gaps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStreamPartition
from samzapy.container.asynchronous.event_loop import EventLoop
from samzapy.container.asynchronous.task_instance import AsyncTaskInstance
from samzapy.container.run_loop import MAX_WAIT_S, RunLoop, TaskExecutor
from samzapy.container.tasks.task_instance import TaskInstance
from samzapy.errors import TaskFailed

#: A task that has so many messages waiting gets no more; when it has but so few, it gets some again.
_MOST_WAITING, _FEW_WAITING = 4_000, 1_000
_BUSY_WAIT_S = 0.01


class AsynchronousExecutor(TaskExecutor):
    """Keeps messages of the tasks in flight.

    1. A window, a timer and the end of a stream wait until their task has nothing in flight.
    2. A commit is the container's, so it waits for all tasks together: it holds the work of exactly the messages before
       its offsets. After `commit_max_delay_ms` it is left out, and the next one tries again. With `task.async.commit` it
       does not wait, and its offsets are those of the contiguous prefix.
    3. A stop lets the messages in flight end, for `shutdown_ms` at most. After that the attempt ends without a commit.
    """

    lingers = True

    def __init__(
        self, tasks: Sequence[AsyncTaskInstance], events: EventLoop, *, shutdown_ms: int, commit_max_delay_ms: int
    ) -> None:
        self._tasks = tasks
        self._by_name = {task.name: task for task in tasks}
        self._events = events
        self._shutdown_ms = shutdown_ms
        self._commit_max_delay_s = commit_max_delay_ms / 1000
        self._polled_to: dict[SystemStreamPartition, int] = {}
        self._full: set[str] = set()

    @property
    def idle(self) -> bool:
        return not any(task.waiting or task.unsettled for task in self._tasks)

    def wants_input(self, loop: RunLoop) -> bool:
        """Not while every task has enough to do, nor while a commit or the stop waits for what was polled."""
        if all(task.waiting for task in self._tasks):
            return False
        if self._awaits_boundary(loop) and not loop.inputs.boundaries.halved:
            return False
        self._hold_back(loop)
        return True

    def polled(self, ends: dict[SystemStreamPartition, int]) -> Mapping[SystemStreamPartition, int]:
        # All that was ever polled, not this poll alone: earlier messages may still be waiting.
        self._polled_to.update(ends)
        return self._polled_to

    def process(
        self,
        loop: RunLoop,
        task: TaskInstance,
        ssp: SystemStreamPartition,
        envelopes: Sequence[IncomingMessageEnvelope],
    ) -> None:
        """Accept the messages; they start when there is room."""
        task.process(ssp, envelopes)
        if envelopes:
            task.event_clock.accepted(ssp, envelopes)

    def skip(self, task: TaskInstance, ssp: SystemStreamPartition, offset: int) -> None:
        self._by_name[task.name].skip(ssp, offset)

    def advance(self, loop: RunLoop) -> bool:
        """Start, check, and wait a little."""
        now = loop.clock.monotonic()
        for task in self._tasks:
            task.start(now)
        for task in self._tasks:
            task.check(now)
            loop.after_call(task)
            loop.follow(task, moved=task.event_clock.done())
            if task.over_budget():
                loop.commit()
        # Asked before the wait: what ends in it has sent something that is handed over by the next turn.
        busy = any(task.in_flight or task.waiting.ready for task in self._tasks)
        if any(task.unsettled for task in self._tasks):
            self._events.run(min(_BUSY_WAIT_S, loop.wait_s()))
        return busy

    def finish(self, loop: RunLoop, task: TaskInstance) -> bool:
        own = self._by_name[task.name]
        while own.waiting or own.unsettled:
            loop.look_at_clock()
            self.advance(loop)
            if loop.stopping or loop.should_stop():
                loop.stopping = True
                return False
        return True

    def settle(self, loop: RunLoop, task: TaskInstance) -> None:
        self._settle(loop, [self._by_name[task.name]])

    def busy_for_commit(self, loop: RunLoop) -> str:
        waited_for = [task for task in self._tasks if not task.commits_in_flight]
        if self._settle(loop, waited_for, self._commit_max_delay_s):
            return ""
        return _in_flight(waited_for)

    def partition_ended(self, loop: RunLoop, task: TaskInstance, ssp: SystemStreamPartition) -> None:
        task.event_clock.ends(ssp)

    def is_done(self, loop: RunLoop, task: TaskInstance) -> bool:
        own = self._by_name[task.name]
        if own.waiting or own.unsettled:
            return False
        loop.follow(task, moved=task.event_clock.done())
        return True

    def wind_down(self, loop: RunLoop) -> None:
        """Wait until nothing is in flight, and a commit may stand there."""
        loop.stopping = True
        self._settle(loop, self._tasks)
        while not loop.commits.possible:
            loop.turn()
            self._settle(loop, self._tasks)

    def _awaits_boundary(self, loop: RunLoop) -> bool:
        commits = loop.commits
        return commits.owed or (not commits.possible and (loop.stopping or loop.should_stop()))

    def _hold_back(self, loop: RunLoop) -> None:
        """Let a partition wait for the slowest of its tasks."""
        before = set(self._full)
        for task in self._tasks:
            if len(task.waiting) >= _MOST_WAITING:
                self._full.add(task.name)
            elif len(task.waiting) <= _FEW_WAITING:
                self._full.discard(task.name)
        if self._full != before:
            loop.inputs.hold({ssp for task in self._tasks if task.name in self._full for ssp in task.offsets})

    def _settle(self, loop: RunLoop, tasks: Sequence[AsyncTaskInstance], longest_s: float = math.inf) -> bool:
        """Wait until nothing of `tasks` is in flight, and no message was overtaken by one that is done; False if that has
        lasted for `longest_s`."""
        stop_asked_at: float | None = None
        began = loop.clock.monotonic()
        while any(task.unsettled for task in tasks):
            now = loop.clock.monotonic()
            if now - began > longest_s and not loop.stopping:
                return False
            if loop.should_stop() or loop.stopping:
                stop_asked_at = now if stop_asked_at is None else stop_asked_at
                self._check_patience(tasks, now - stop_asked_at)
            for task in tasks:
                task.start(now, only_overtaken=True)
            for task in self._tasks:
                task.check(now)
            self._events.run(MAX_WAIT_S)
        for task in tasks:
            task.check(loop.clock.monotonic())
        return True

    def _check_patience(self, tasks: Sequence[AsyncTaskInstance], waited_s: float) -> None:
        if waited_s * 1000 > self._shutdown_ms:
            raise TaskFailed(
                f"messages are still in flight {self._shutdown_ms} ms (task.shutdown.ms) after the stop: {_in_flight(tasks)}"
            )


def _in_flight(tasks: Sequence[AsyncTaskInstance]) -> str:
    return ", ".join(f"{task.name} ({task.in_flight})" for task in tasks if task.unsettled)
