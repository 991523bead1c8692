"""A task's timers and the two clocks they fire by."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import inf
from operator import attrgetter

from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.event_time import TimerClock
from samzapy.api.metrics import MetricsRegistry
from samzapy.api.stream import SystemStreamPartition
from samzapy.clock import Clock
from samzapy.container.event_clock import EventClock
from samzapy.storage.views.timers import NEVER, Timer, TimerStore

_event_time = attrgetter("event_time")

#: Timers that are looked up in one go.
_AT_ONCE = 256


class TaskTiming:
    """Says where a run of messages has to be interrupted for a timer, and which timers are due.

    Event timers fire right after the first message that brings the task's clock to their time, wherever polls and commits
    fall; those of asynchronous tasks when the messages that were polled together are done. Wall-clock timers fire between
    slices of messages, and between polls.
    """

    __slots__ = ("_clock", "_heard", "_idle_s", "_late", "_reach", "_watermarked", "event_clock", "fired", "timers")

    def __init__(
        self,
        timers: TimerStore,
        event_clock: EventClock,
        clock: Clock,
        interrupt: Callable[[], object],
        *,
        watermarked: Collection[SystemStreamPartition] = (),
        idle_ms: int = -1,
    ) -> None:
        """`interrupt` makes the task return after the message at hand. Of the partitions `watermarked` it is watermarks
        that tell the time, not messages; any other one that is silent for `idle_ms` is idle (<= 0: none ever is)."""
        self.timers = timers
        timers.interrupt = interrupt
        self.event_clock = event_clock
        self._clock = clock
        self._watermarked = frozenset(watermarked)
        self._idle_s = idle_ms / 1000.0
        began = clock.monotonic()
        self._heard = {ssp: began for ssp in event_clock.ssps if ssp not in self._watermarked}
        self._reach = -inf
        self._late: deque[tuple[SystemStreamPartition, int, int | None]] = deque()
        self.fired = 0

    def begin(self, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope]) -> None:
        """A run of messages of one partition comes next."""
        self._reach = self._not_before_now(min(self.event_clock.reach(ssp), self._latest(ssp, envelopes)))

    def until_due(self, envelopes: Sequence[IncomingMessageEnvelope]) -> Sequence[IncomingMessageEnvelope]:
        """The messages of the run up to the first after which an event timer may be due; all of them if none will be. A
        timer that is set meanwhile for a time within these interrupts them."""
        due = self.timers.earliest(TimerClock.EVENT)
        self.timers.interrupt_until = self._reach
        if len(envelopes) < 2 or self._reach < due:
            return envelopes
        for index, envelope in enumerate(envelopes):
            if envelope.event_time >= due:
                self.timers.interrupt_until = self._not_before_now(min(self._reach, envelope.event_time))
                return envelopes[: index + 1]
        return envelopes

    def _not_before_now(self, time_ms: float) -> float:
        now = self.event_clock.now
        return time_ms if now is None else max(now, time_ms)

    def passed(self, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope]) -> None:
        """These messages are processed."""
        if ssp not in self._watermarked:
            self.event_clock.passed(ssp, envelopes)

    def accepted(self, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope]) -> None:
        """These messages will be processed, some time."""
        self._late.append((ssp, envelopes[-1].offset, self._latest(ssp, envelopes)))

    def follow(self, watermarks: Mapping[SystemStreamPartition, int]) -> None:
        """The watermarks of the intermediate partitions."""
        known = self.event_clock.marks
        for ssp, mark in watermarks.items():
            if ssp not in known or mark > known[ssp]:
                self.event_clock.advance(ssp, mark)

    def look_for_idle(self, now: float) -> None:
        """Let partitions that have brought nothing for long hold the clock back no longer."""
        if self._idle_s > 0:
            for ssp, heard in self._heard.items():
                if now - heard > self._idle_s:
                    self.event_clock.set_aside(ssp)
                    self._heard[ssp] = inf

    def ends(self, ssp: SystemStreamPartition) -> None:
        """The partition holds the clock back no longer, once what was accepted of it is processed."""
        last = next((offset for accepted, offset, _ in reversed(self._late) if accepted == ssp), -1)
        self._late.append((ssp, last, None))

    def done(self, position: Callable[[SystemStreamPartition], int]) -> None:
        """Everything below `position` is processed, of what was accepted."""
        late = self._late
        while late and position(late[0][0]) > late[0][1]:
            ssp, _, latest = late.popleft()
            if latest is None:
                self.event_clock.set_aside(ssp)
            elif latest >= 0:
                self.event_clock.advance(ssp, latest)

    def is_due(self) -> bool:
        """Whether a look for due timers may find some."""
        now, timers = self.event_clock.now, self.timers
        if now is not None and timers.earliest(TimerClock.EVENT) <= now:
            return True
        wall = timers.earliest(TimerClock.WALL)
        return wall != NEVER and wall <= self._clock.wall_ms()

    def wait_s(self) -> float:
        """Seconds until a wall-clock timer may be due."""
        return max(0.0, (self.timers.earliest(TimerClock.WALL) - self._clock.wall_ms()) / 1000)

    def take_due(self) -> Iterator[Timer]:
        """Timers whose time has come, in order of time within each clock, each taken out of the store before it is
        given; a few at a time. One that is cancelled or set anew meanwhile is left out."""
        for clock, now in ((TimerClock.EVENT, self.event_clock.now), (TimerClock.WALL, self._clock.wall_ms())):
            if now is None:
                continue
            for timer in self.timers.due(clock, now, _AT_ONCE):
                if self.timers.time_of(timer.key, clock) == timer.time_ms:
                    self.timers.cancel(timer.key, clock)
                    self.fired += 1
                    yield timer

    def _latest(self, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope]) -> int:
        if ssp in self._watermarked:
            return -1
        if self._idle_s > 0:
            self._heard[ssp] = self._clock.monotonic()
        return max(map(_event_time, envelopes), default=-1)

    def publish(self, task_name: str, metrics: MetricsRegistry) -> None:
        """Set the task's gauges."""
        metrics.gauge(task_name, "timers-fired").set(self.fired)
        if self.event_clock.now is not None:
            metrics.gauge(task_name, "event-clock").set(self.event_clock.now)
