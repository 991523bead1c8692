"""The run loop of asynchronous tasks: start what there is room for, wait for what ends, and commit without gaps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStreamPartition
from samzapy.clock import Clock
from samzapy.container.asynchronous.event_loop import EventLoop
from samzapy.container.asynchronous.task_instance import AsyncTaskInstance
from samzapy.container.commit.protocol import CommitProtocol
from samzapy.container.event_time.control_messages import ControlRun
from samzapy.container.inputs.inputs import Inputs
from samzapy.container.run_loop import MAX_WAIT_S, LoopControl, RunLoop
from samzapy.container.tasks.task_instance import TaskInstance
from samzapy.errors import TaskFailed

#: A task that has so many messages waiting gets no more; when it has but so few, it gets some again.
_MOST_WAITING, _FEW_WAITING = 4_000, 1_000
_BUSY_WAIT_S = 0.01


class AsyncRunLoop(RunLoop):
    """As `RunLoop`, for tasks with messages in flight.

    A window and the end of a stream wait until nothing of their task is in flight. A commit is the container's, so it waits
    for all tasks together: what it writes is the work of exactly the messages before its offsets. After
    `commit_max_delay_ms` it is left out, and the next one tries again. With `task.async.commit` a commit does not wait, and
    its offsets are those of the contiguous prefix. A stop lets what is in flight end, for `shutdown_ms` at most; longer
    than that and the attempt ends without a commit.
    """

    def __init__(  # noqa: PLR0913  # a run loop, and what its tasks wait in
        self,
        tasks: Sequence[AsyncTaskInstance],
        inputs: Inputs,
        committer: CommitProtocol,
        control: LoopControl,
        clock: Clock,
        events: EventLoop,
        *,
        window_ms: int,
        commit_ms: int,
        shutdown_ms: int,
        commit_max_delay_ms: int,
    ) -> None:
        super().__init__(tasks, inputs, committer, control, clock, window_ms=window_ms, commit_ms=commit_ms)
        self._async_tasks = tasks
        self._events = events
        self._shutdown_ms = shutdown_ms
        self._commit_max_delay_s = commit_max_delay_ms / 1000
        self._polled_to: dict[SystemStreamPartition, int] = {}
        self._full: set[str] = set()
        self._told_of_end: set[str] = set()

    def turn(self, longest_wait_s: float = MAX_WAIT_S) -> bool:
        self._timers()
        self._look_for_drain()
        found = self._take_in(longest_wait_s)
        busy = self._advance()
        self._end_streams()
        if self._commits.owed and not any(task.waiting or task.unsettled for task in self._async_tasks):
            self._commits.catch_up()
        return found or busy

    def wind_down(self) -> None:
        """Wait until nothing is in flight, and a commit may stand there."""
        self._stopping = True
        self._settle(self._async_tasks)
        while not self._commits.possible:
            self.turn()
            self._settle(self._async_tasks)

    def _take_in(self, longest_wait_s: float) -> bool:
        """Poll, unless every task has enough to do; whether anything came."""
        hungry = any(not task.waiting for task in self._async_tasks)
        if not hungry or (self._awaits_boundary() and not self._inputs.boundaries.halved):
            return False
        self._hold_back()
        busy = any(task.unsettled or task.waiting for task in self._async_tasks)
        polled = self._inputs.poll(0.0 if busy else min(self._wait(), longest_wait_s))
        if not polled:
            return False
        self._polled_to.update((ssp, envelopes[-1].offset + 1) for ssp, envelopes in polled)
        # All that was ever polled, not this poll alone: earlier messages may still be waiting.
        self._commits.before(self._polled_to)
        for ssp, envelopes in polled:
            for task in self._by_ssp[ssp]:
                if self.stopped:
                    return True
                if task.event_clock.intermediate and self._hear(task, ssp, envelopes):
                    continue
                left: Sequence[IncomingMessageEnvelope] = envelopes
                if envelopes[0].offset < task.offsets[ssp]:
                    left = [each for each in envelopes if each.offset >= task.offsets[ssp]]
                task.process(ssp, left)
                if left:
                    task.event_clock.accepted(ssp, left)
        return True

    def _awaits_boundary(self) -> bool:
        """Whether what was polled is to be done before there is more, as a commit or the stop needs it."""
        return self._commits.owed or (not self._commits.possible and (self._stopping or self._should_stop()))

    def _hear(self, task: TaskInstance, ssp: SystemStreamPartition, run: Sequence[IncomingMessageEnvelope]) -> bool:
        if isinstance(run, ControlRun):
            # What it says is about everything before it, so that is done first.
            for each in self._async_tasks:
                while each is task and (each.waiting or each.unsettled):
                    self._timers()
                    self._advance()
                    if self._stopping or self._should_stop():
                        self._stopping = True
                        return True
        return super()._hear(task, ssp, run)

    def _hold_back(self) -> None:
        """A partition waits for the slowest of its tasks."""
        before = set(self._full)
        for task in self._async_tasks:
            if len(task.waiting) >= _MOST_WAITING:
                self._full.add(task.name)
            elif len(task.waiting) <= _FEW_WAITING:
                self._full.discard(task.name)
        if self._full != before:
            self._inputs.hold({ssp for task in self._tasks if task.name in self._full for ssp in task.offsets})

    def _advance(self) -> bool:
        """Start, check, and wait a little; whether messages were in flight or could have been."""
        now = self._clock.monotonic()
        for task in self._async_tasks:
            task.start(now)
        for task in self._async_tasks:
            task.check(now)
            self._after_call(task)
            self._follow(task, moved=task.event_clock.done())
            if task.over_budget():
                self.commit()
        # Asked before the wait: what ends in it has sent something that is handed over by the next turn.
        busy = any(task.in_flight or task.waiting.ready for task in self._async_tasks)
        if any(task.unsettled for task in self._async_tasks):
            self._events.run(min(_BUSY_WAIT_S, self._wait()))
        return busy

    def _settle(self, tasks: Sequence[AsyncTaskInstance], longest_s: float = math.inf) -> bool:
        """Wait until nothing of `tasks` is in flight, and no message was overtaken by one that is done; False if that has
        lasted for `longest_s`."""
        stop_asked_at: float | None = None
        began = self._clock.monotonic()
        while any(task.unsettled for task in tasks):
            now = self._clock.monotonic()
            if now - began > longest_s and not self._stopping:
                return False
            if self._should_stop() or self._stopping:
                stop_asked_at = now if stop_asked_at is None else stop_asked_at
                self._check_patience(tasks, now - stop_asked_at)
            for task in tasks:
                task.start(now, only_overtaken=True)
            for task in self._async_tasks:
                task.check(now)
            self._events.run(MAX_WAIT_S)
        for task in tasks:
            task.check(self._clock.monotonic())
        return True

    def _check_patience(self, tasks: Sequence[AsyncTaskInstance], waited_s: float) -> None:
        if waited_s * 1000 <= self._shutdown_ms:
            return
        waiting = ", ".join(f"{task.name} ({task.in_flight})" for task in tasks if task.unsettled)
        raise TaskFailed(
            f"messages are still in flight {self._shutdown_ms} ms (task.shutdown.ms) after the stop: {waiting}"
        )

    def commit(self) -> None:
        waited_for = [task for task in self._async_tasks if not task.commits_in_flight]
        if self._settle(waited_for, self._commit_max_delay_s):
            super().commit()
        else:
            busy = ", ".join(f"{task.name} ({task.in_flight})" for task in waited_for if task.unsettled)
            self._commits.leave_out(f"messages are in flight for longer than task.commit.max.delay.ms: {busy}")

    def _call_window(self, task: TaskInstance) -> None:
        self._settle([each for each in self._async_tasks if each is task])
        super()._call_window(task)

    def _fire(self, task: TaskInstance) -> None:
        if task.timers.is_due():
            self._settle([each for each in self._async_tasks if each is task])
            super()._fire(task)

    def _end_streams(self) -> None:
        for ssp in self._inputs.take_ended():
            for task in self._by_ssp[ssp]:
                self._open[task.name].discard(ssp)
                task.event_clock.ends(ssp)
        for each in self._async_tasks:
            over = not self._open[each.name] and not each.waiting and not each.unsettled
            if over and each.name not in self._told_of_end:
                self._told_of_end.add(each.name)
                self._follow(each, moved=each.event_clock.done())
                self._tell_of_end(each)
        if self._async_tasks and len(self._told_of_end) == len(self._async_tasks):
            self._stopping = True
