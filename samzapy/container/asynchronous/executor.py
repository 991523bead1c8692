"""Runs asynchronous tasks: starts messages while there is room, waits for their ends, and keeps commits free of gaps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import attrgetter

from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStreamPartition
from samzapy.container.asynchronous.async_messages import AsyncMessages
from samzapy.container.asynchronous.event_loop import EventLoop
from samzapy.container.run_loop import MAX_WAIT_S, RunLoop, TaskExecutor
from samzapy.container.tasks.task_instance import TaskInstance
from samzapy.errors import TaskFailed

#: A task with the first number of waiting messages gets no more until they are down to the second.
_MOST_WAITING, _FEW_WAITING = 4_000, 1_000
_BUSY_WAIT_S = 0.01


class AsynchronousExecutor(TaskExecutor):
    """Keeps messages of the tasks in flight.

    1. A window, a timer and the end of a stream wait until their task has no message in flight.
    2. A commit covers the whole container, so it waits for all tasks: it holds the work of exactly the messages before its
       offsets. After `commit_max_delay_ms` it is skipped, and the next one tries again. With `task.async.commit` it does
       not wait, and its offsets are the end of the contiguous prefix.
    3. A stop waits for the messages in flight, `shutdown_ms` at most. After that the attempt ends without a commit.
    4. A stop leaves a message that waits for its repetition to the next start, as in a synchronous task. If later
       messages of the partition are done, the stop waits for the repetition.
    """

    lingers = True

    def __init__(
        self, messages: Sequence[AsyncMessages], events: EventLoop, *, shutdown_ms: int, commit_max_delay_ms: int
    ) -> None:
        """`messages`: the messages of each task."""
        self._all = messages
        self._of = {each.task.name: each for each in messages}
        self._events = events
        self._shutdown_ms = shutdown_ms
        self._commit_max_delay_s = commit_max_delay_ms / 1000
        self._full: set[str] = set()

    @property
    def idle(self) -> bool:
        return not any(each.waiting or each.unsettled for each in self._all)

    def wants_input(self, loop: RunLoop) -> bool:
        """False while every task has enough to do."""
        if all(each.waiting for each in self._all):
            return False
        self._hold_back(loop)
        return True

    def process(
        self,
        loop: RunLoop,
        task: TaskInstance,
        ssp: SystemStreamPartition,
        envelopes: Sequence[IncomingMessageEnvelope],
    ) -> None:
        """Accept the messages; they start when there is room."""
        self._of[task.name].accept(ssp, envelopes)
        if envelopes:
            task.event_clock.accepted(ssp, envelopes)

    def skip(self, task: TaskInstance, ssp: SystemStreamPartition, offset: int) -> None:
        self._of[task.name].skip(ssp, offset)

    def advance(self, loop: RunLoop) -> bool:
        """Start, check, and wait a little."""
        now = loop.clock.monotonic()
        for each in self._all:
            each.start(now)
        for each in self._all:
            each.check(now)
            loop.after_call(each.task)
            loop.follow(each.task, moved=each.task.event_clock.done())
            if each.task.over_budget():
                loop.commit()
        # Before the wait: messages that end during it have outputs, which the next turn hands over.
        busy = any(each.in_flight or each.waiting.ready or each.waiting.repeating for each in self._all)
        if any(each.unsettled for each in self._all):
            self._events.run(min(_BUSY_WAIT_S, loop.wait_s()))
        return busy

    def finish(self, loop: RunLoop, task: TaskInstance) -> bool:
        own = self._of[task.name]
        while own.waiting or own.unsettled:
            loop.look_at_clock()
            self.advance(loop)
            if loop.stop_asked:
                loop.stopping = True
                return False
        return True

    def settle(self, loop: RunLoop, task: TaskInstance) -> None:
        self._settle(loop, [self._of[task.name]])

    def leave_nothing_to_undo(self, loop: RunLoop, task: TaskInstance) -> None:
        self._settle(loop, [self._of[task.name]], busy=attrgetter("undoable"))

    def busy_for_commit(self, loop: RunLoop) -> str:
        waited_for = [each for each in self._all if not each.commits_in_flight]
        if self._settle(loop, waited_for, self._commit_max_delay_s, attrgetter("gapped")):
            return ""
        return _in_flight(waited_for)

    def partition_ended(self, loop: RunLoop, task: TaskInstance, ssp: SystemStreamPartition) -> None:
        task.event_clock.ends(ssp)

    def is_done(self, loop: RunLoop, task: TaskInstance) -> bool:
        own = self._of[task.name]
        if own.waiting or own.unsettled:
            return False
        loop.follow(task, moved=task.event_clock.done())
        return True

    def wind_down(self, loop: RunLoop) -> None:
        """Wait until nothing is in flight."""
        loop.stopping = True
        self._settle(loop, self._all)

    def _hold_back(self, loop: RunLoop) -> None:
        """Let a partition wait for the slowest of its tasks."""
        before = set(self._full)
        for each in self._all:
            if len(each.waiting) >= _MOST_WAITING:
                self._full.add(each.task.name)
            elif len(each.waiting) <= _FEW_WAITING:
                self._full.discard(each.task.name)
        if self._full != before:
            loop.inputs.hold({ssp for name in self._full for ssp in self._of[name].task.offsets})

    def close(self) -> None:
        for each in self._all:
            each.close()

    def _settle(
        self,
        loop: RunLoop,
        messages: Sequence[AsyncMessages],
        longest_s: float = math.inf,
        busy: Callable[[AsyncMessages], bool] = attrgetter("unsettled"),
    ) -> bool:
        """Wait until none of `messages` is `busy` (default: in flight, or overtaken by a completed one); False after
        `longest_s`. After a stop request, wait only for messages that hold up the stop."""
        stop_asked_at: float | None = None
        began = loop.clock.monotonic()
        while awaited := [each for each in messages if busy(each)]:
            now, going_on = loop.clock.monotonic(), messages
            if now - began > longest_s and not loop.stopping:
                return False
            if loop.stop_asked:
                stop_asked_at = now if stop_asked_at is None else stop_asked_at
                going_on = awaited = [each for each in awaited if each.holds_up_stop]
                self._check_repetitions(awaited, now - stop_asked_at)
                if not awaited:
                    break
                self._check_patience(awaited, now - stop_asked_at)
            for each in going_on:
                each.start(now, only_overtaken=True)
            for each in self._all:
                each.check(now)
            self._events.run(MAX_WAIT_S)
        for each in messages:
            each.check(loop.clock.monotonic())
        return True

    def _check_patience(self, messages: Sequence[AsyncMessages], waited_s: float) -> None:
        if waited_s * 1000 > self._shutdown_ms:
            raise TaskFailed(
                f"messages are still in flight {self._shutdown_ms} ms (task.shutdown.ms) after the stop: {_in_flight(messages)}"
            )

    def _check_repetitions(self, messages: Sequence[AsyncMessages], waited_s: float) -> None:
        """Raise TaskFailed at once if a repetition is due too late for this stop."""
        for each in messages:
            late = (waited_s + each.repeats_in_s) * 1000 > self._shutdown_ms
            if late and each.waiting.repeating and not each.in_flight:
                raise TaskFailed(
                    f"{each.task.name}: a message is to be tried again later than {self._shutdown_ms} ms (task.shutdown.ms) after "
                    "the stop, and others behind it are done: no commit is possible"
                )


def _in_flight(messages: Sequence[AsyncMessages]) -> str:
    return ", ".join(f"{each.task.name} ({_count(each)})" for each in messages if each.unsettled)


def _count(messages: AsyncMessages) -> str:
    repeating = messages.waiting.repeating
    return f"{messages.in_flight} and {repeating} to be tried again" if repeating else f"{messages.in_flight}"
