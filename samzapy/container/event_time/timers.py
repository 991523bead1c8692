"""Fires a task's timers: finds the place where a timer interrupts a run of messages, and the timers that are due.

1. An event timer fires right after the first message that brings the task's clock to its time, independent of polls and
   commits. In an asynchronous task it fires when all messages of the poll are done.
2. A wall-clock timer fires between slices of messages, and between polls.
3. A timer is taken out of the store before it fires, so the commit that makes its outputs durable also removes it.

`clock` explains why an event timer does not fire.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Any

from samzapy.api.context import MetricsRegistry
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.event_time import TimerClock
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStreamPartition
from samzapy.clock import Clock
from samzapy.container.event_time.clock import EventClock, event_times
from samzapy.storage.views.timers import NEVER, Timer, TimerStore

#: Timers that are looked up in one go.
_AT_ONCE = 256


class TaskTimers:
    """The timers of one task; this one has none."""

    #: Whether a look for due timers can find any.
    can_fire = False

    def begin(self, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope]) -> None:
        """A run of messages of one partition comes next."""

    def until_due(self, envelopes: Sequence[IncomingMessageEnvelope], first: int, last: int) -> int:
        """The place in the run up to which messages from `first` on may be processed: behind the first message after
        which an event timer may be due, else `last`. A timer set meanwhile, for a time within these messages,
        interrupts them."""
        return last

    def is_due(self) -> bool:
        return False

    def wait_s(self) -> float:
        """Seconds until a wall-clock timer may be due."""
        return inf

    def take_due(self) -> Iterator[Timer]:
        """The due timers, in order of time within each clock, a few at a time. Each leaves the store before it is
        yielded. A timer that is cancelled or set again meanwhile is left out."""
        return iter(())

    def publish(self, task_name: str, metrics: MetricsRegistry) -> None:
        """Set the task's gauges."""


NO_TIMERS = TaskTimers()


class StoredTimers(TaskTimers):
    """The timers of one task, in its store. `fired` counts them."""

    can_fire = True

    def __init__(
        self,
        timers: TimerStore,
        store: KeyValueStore[bytes, Any],
        event_clock: EventClock,
        clock: Clock,
        interrupt: Callable[[], object],
    ) -> None:
        """`store` is the store of `timers`, without a journal: changes between messages are never undone. `event_clock`
        is the task's, and exact. `interrupt` makes the task return after the message at hand."""
        self.timers = timers
        timers.interrupt = interrupt
        timers.between_messages = store
        self._event_clock = event_clock
        self._clock = clock
        self._reach = -inf
        #: The event times of the run, if they were looked at.
        self._times: list[int] = []
        self.fired = 0

    def begin(self, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope]) -> None:
        clock = self._event_clock
        self._times.clear()
        self._reach = self._not_before_now(min(clock.reach(ssp), clock.latest(ssp, envelopes)))

    def until_due(self, envelopes: Sequence[IncomingMessageEnvelope], first: int, last: int) -> int:
        timers = self.timers
        timers.interrupt_until = self._reach
        if last - first < 2 or self._reach < timers.earliest(TimerClock.EVENT):
            return last
        # Timers that have moved must not interrupt the run.
        due = timers.first_due(TimerClock.EVENT, int(self._reach))
        if self._reach < due:
            return last
        times = self._times = self._times or list(event_times(envelopes))
        for place in range(first, last):
            if times[place] >= due:
                timers.interrupt_until = self._not_before_now(min(self._reach, times[place]))
                return place + 1
        return last

    def _not_before_now(self, time_ms: float) -> float:
        now = self._event_clock.now
        return time_ms if now is None else max(now, time_ms)

    def is_due(self) -> bool:
        now, timers = self._event_clock.now, self.timers
        timers.tidy()
        if now is not None and timers.earliest(TimerClock.EVENT) <= now:
            return True
        wall = timers.earliest(TimerClock.WALL)
        return wall != NEVER and wall <= self._clock.wall_ms()

    def wait_s(self) -> float:
        return max(0.0, (self.timers.earliest(TimerClock.WALL) - self._clock.wall_ms()) / 1000)

    def take_due(self) -> Iterator[Timer]:
        for clock, now in ((TimerClock.EVENT, self._event_clock.now), (TimerClock.WALL, self._clock.wall_ms())):
            if now is not None:
                for timer in self.timers.fire(clock, now, _AT_ONCE):
                    self.fired += 1
                    yield timer

    def publish(self, task_name: str, metrics: MetricsRegistry) -> None:
        metrics.gauge(task_name, "timers-fired").set(self.fired)
        if self._event_clock.now is not None:
            metrics.gauge(task_name, "event-clock").set(self._event_clock.now)
