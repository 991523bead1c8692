"""Runs asynchronous tasks on one asyncio loop: starts messages while there is room, waits for their ends, and keeps
commits free of gaps."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Generator, Iterable, Sequence

from samzapy.api.stream import SystemStreamPartition
from samzapy.clock import Clock
from samzapy.container.event_time.control_messages import ControlRun
from samzapy.container.tasks.async_messages import AsyncMessages
from samzapy.container.tasks.event_loop import EventLoop
from samzapy.container.tasks.executor import Delivery, Load, Quiet, Step, TaskExecutor
from samzapy.container.tasks.task_instance import TaskInstance
from samzapy.errors import TaskFailed

#: A task with the first number of waiting messages gets no more until they are down to the second.
_MOST_WAITING, _FEW_WAITING = 4_000, 1_000
#: The longest waits, in seconds: of a step, and for the messages that something else waits for.
_STEP_S, _SETTLE_S = 0.01, 0.1


class AsynchronousExecutor(TaskExecutor):
    """Keeps messages of the tasks in flight.

    1. A window, a timer and the end of a stream wait until their task has no message in flight.
    2. A commit covers the whole container, so it waits for all tasks: it holds the work of exactly the messages before
       its offsets. After `commit_max_delay_ms` it is skipped, and the next one tries again. With `task.async.commit` it
       does not wait, and its offsets are the end of the contiguous prefix.
    3. A stop waits for the messages in flight, `shutdown_ms` at most. After that the attempt ends without a commit.
    4. A stop leaves a message that waits for its repetition to the next start, as in a synchronous task. If later
       messages of the partition are done, the stop waits for the repetition.
    """

    def __init__(
        self,
        messages: Sequence[AsyncMessages],
        events: EventLoop,
        clock: Clock,
        should_stop: Callable[[], bool],
        *,
        shutdown_ms: int,
        commit_max_delay_ms: int,
    ) -> None:
        self._all = messages
        self._of = {each.task.name: each for each in messages}
        self._events = events
        self._clock = clock
        self._should_stop = should_stop
        self._shutdown_ms = shutdown_ms
        self._commit_max_delay_s = commit_max_delay_ms / 1000
        self._full: set[str] = set()
        self._busy = False

    @property
    def load(self) -> Load:
        for each in self._all:
            if len(each.waiting) >= _MOST_WAITING:
                self._full.add(each.task.name)
            elif len(each.waiting) <= _FEW_WAITING:
                self._full.discard(each.task.name)
        return Load(
            full=all(each.waiting for each in self._all),
            idle=not any(each.waiting or each.unsettled for each in self._all),
            busy=self._busy,
            # A partition waits for the slowest of its tasks.
            held=frozenset(ssp for name in self._full for ssp in self._of[name].task.offsets),
        )

    def process(
        self, deliveries: Iterable[Delivery], ended: Collection[SystemStreamPartition]
    ) -> Generator[Step, None, None]:
        for task, ssp, run in deliveries:
            own = self._of[task.name]
            if isinstance(run, ControlRun):
                while own.waiting or own.unsettled:
                    yield from self._advance()
                own.skip(ssp, run[0].offset)
                yield Step(task, control=(ssp, run.control))
            else:
                own.accept(ssp, run)
                task.event_clock.accepted(ssp, run)
        yield from self._advance()

    def settle(self, quiet: Quiet, task: TaskInstance | None = None, *, stopping: bool) -> str:
        messages = self._all if task is None else [self._of[task.name]]
        longest_s = math.inf
        if quiet is Quiet.COMMIT:
            messages = [each for each in messages if not each.commits_in_flight]
            longest_s = self._commit_max_delay_s
        stop_requested_at: float | None = None
        began = self._clock.monotonic()
        while awaited := [each for each in messages if each.prevents(quiet)]:
            now, going_on = self._clock.monotonic(), messages
            if now - began > longest_s and not stopping:
                return _in_flight(messages)
            if stopping or self._should_stop():
                stop_requested_at = now if stop_requested_at is None else stop_requested_at
                going_on = awaited = [each for each in awaited if each.holds_up_stop]
                self._check_stop(awaited, now - stop_requested_at)
                if not awaited:
                    break
            for each in going_on:
                each.start(now, only_overtaken=True)
            for each in self._all:
                each.check(now)
            self._events.run(_SETTLE_S)
        for each in messages:
            each.check(self._clock.monotonic())
        return ""

    def close(self) -> None:
        for each in self._all:
            each.close()

    def _advance(self) -> Generator[Step, None, None]:
        """Start and check messages, and wait a little for those in flight."""
        now = self._clock.monotonic()
        for each in self._all:
            each.start(now)
        for each in self._all:
            each.check(now)
            each.task.collector.hand_over()
            yield Step(each.task, moved=each.task.event_clock.done())
        # Before the wait: messages that end during it have outputs, which the next call hands over.
        self._busy = any(each.in_flight or each.waiting.ready or each.waiting.repeating for each in self._all)
        if any(each.unsettled for each in self._all):
            self._events.run(_STEP_S)

    def _check_stop(self, messages: Sequence[AsyncMessages], waited_s: float) -> None:
        """Raise TaskFailed when the stop has waited too long, or at once if a repetition is due too late for it."""
        for each in messages:
            late = (waited_s + each.repeats_in_s) * 1000 > self._shutdown_ms
            if late and each.waiting.repeating and not each.in_flight:
                raise TaskFailed(
                    f"{each.task.name}: a message is to be tried again later than {self._shutdown_ms} ms "
                    "(task.shutdown.ms) after "
                    "the stop, and others behind it are done: no commit is possible"
                )
        if messages and waited_s * 1000 > self._shutdown_ms:
            raise TaskFailed(
                f"messages are still in flight {self._shutdown_ms} ms (task.shutdown.ms) after the stop: "
                f"{_in_flight(messages)}"
            )


def _in_flight(messages: Sequence[AsyncMessages]) -> str:
    return ", ".join(f"{each.task.name} ({_count(each)})" for each in messages if each.unsettled)


def _count(messages: AsyncMessages) -> str:
    repeating = messages.waiting.repeating
    return f"{messages.in_flight} and {repeating} to be tried again" if repeating else f"{messages.in_flight}"


logger = logging.getLogger(__name__)
