"""A task's clock in event time, and the timers that it fires. `on_clock`, `on_watermark`, state checkpoints, the
checkpoint and reports read it, too.

Why did my timer not fire? The clock has not come to the timer's time. The clock is the least mark of the sources that
count, so look at the source that holds it back:

1. The mark of an input partition is the latest event time among its processed messages. A message without an event time
   (-1) moves nothing, and neither does one that is more than `task.event.time.max.ahead.ms` after the wall clock.
2. The mark of a partition of an intermediate stream is the least watermark of its senders; its messages move nothing. A
   sender that has not sent a watermark yet holds the mark back, and so does one that the others have announced and that
   has not been heard yet (see `senders`).
3. While any source that counts has no mark, the clock has no time, and no event timer fires.
4. A source is idle once it has brought nothing for `task.watermark.idle.timeout.ms`. It does not count then, nor after
   its end, until it brings something. The rule looks about once a second. A partition brings something when its
   position moves; a sender, when it sends a control message. A partition is idle when all of its senders are idle. It
   is not idle while its messages wait in the container, or while the container holds it back or does not poll it. When
   no source counts, the clock stands at the highest mark.
5. The clock never goes back. A restart continues with the committed marks and the last messages of the senders; a
   partition that starts before its committed offset starts without a mark. Idle partitions count again until they are
   idle again.
6. An asynchronous task moves its marks when all messages of a poll are done.
7. A task that neither has timers nor listens to its clock takes the last message of each run for the whole run, which
   costs nothing per message. Its marks may be a little behind.
8. An event timer fires right after the first message that brings the clock to its time, independent of polls and
   commits. A wall-clock timer does not follow this clock: it fires between slices of messages, and between polls. A
   timer is taken out of the store before it fires, so the commit that makes its outputs durable also removes it.

`samzapy checkpoint show` prints the task's time, the source that holds it back, and the idle sources, as of the last
commit. The status page shows the present values.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from math import inf
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeVar

from samzapy.api.checkpoint import Checkpoint, SenderState
from samzapy.api.envelope import IncomingMessageEnvelope, MessageBatch
from samzapy.api.event_time import TaskClock, TimerClock
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStreamPartition
from samzapy.clock import Clock, IdleRule, TimeBound, Watermarks
from samzapy.container.event_time.control_messages import Senders, SentControl
from samzapy.storage.views.timers import NEVER, Timer, TimerStore

T = TypeVar("T")

#: The longest interval between looks of the idle rule, in milliseconds.
_CHECK_MS = 1_000

_event_time = attrgetter("event_time")


def event_times(run: Sequence[IncomingMessageEnvelope]) -> Iterable[int]:
    """The event time of each message."""
    return run.timestamps if isinstance(run, MessageBatch) else map(_event_time, run)


class EventClock:
    """One task's clock. Feeding it costs a call per run of messages, never one per message.

    `intermediate`: the partitions that follow their senders. `over`: the partitions that had ended when the checkpoint
    was written; they end again unless another message comes.

    For the thread that runs the task. Other threads may read `now`, `time_ms`, `idle` and `held_by`.
    """

    def __init__(
        self,
        offsets: Mapping[SystemStreamPartition, int],
        clock: Clock,
        idle_ms: int = -1,
        *,
        intermediate: Collection[SystemStreamPartition] = (),
        exact: bool = False,
        bound: TimeBound | None = None,
        senders: Mapping[SystemStreamPartition, str] = MappingProxyType({}),
    ) -> None:
        """`offsets` is the task's live map of positions, which the idle rule reads. `clock` measures the silence of a
        source; `idle_ms` <= 0: no source is ever idle. `exact`: the latest time of each run counts, not its last
        message's. `bound`: of the times that move the clock, by default none. `senders`: how the names of the senders
        begin that count in a partition, by default all."""
        self._counting = dict(senders)
        self._offsets = offsets
        self._clock = clock
        self._idle_s = idle_ms / 1000.0
        self._exact = exact
        self._bound = bound or TimeBound()
        #: The milliseconds between calls of `check_idle`; <= 0: never.
        self.check_ms = min(idle_ms, _CHECK_MS)
        self.intermediate = frozenset(intermediate)
        self._marks = Watermarks(offsets)
        self._stages: Watermarks[SystemStreamPartition] = Watermarks(self.intermediate)
        now = clock.monotonic()
        self._senders = {ssp: Senders({}, now, self._idle_s) for ssp in self.intermediate}
        self._rule = IdleRule([ssp for ssp in offsets if ssp not in self.intermediate], now, self._idle_s)
        #: The positions at the last look; empty before the first, which only notes where the partitions stand.
        self._seen: dict[SystemStreamPartition, int] = {}
        self._ended: set[SystemStreamPartition] = set()
        self._accepted: deque[tuple[SystemStreamPartition, int, int]] = deque()
        self._earlier: int | None = None
        self._reported: int | None = None
        self.over: set[SystemStreamPartition] = set()

    def resume(self, checkpoint: Checkpoint | None) -> None:
        """Go on where a commit left off. Call it once, when the starting positions are final."""
        if checkpoint is None:
            return
        self._earlier = checkpoint.clock
        self._marks = Watermarks(self._offsets, self._still_true(checkpoint.event_times, checkpoint))
        now = self._clock.monotonic()
        senders_of = self._still_true(checkpoint.senders, checkpoint)
        for ssp, known in senders_of.items():
            if ssp in self.intermediate:
                counting = {name: state for name, state in known.items() if self._counts(ssp, name)}
                self._senders[ssp] = senders = Senders(counting, now, self._idle_s)
                if senders.ended:
                    self.over.add(ssp)
                self._follow(ssp)
        back = any(ssp in self.intermediate for ssp in checkpoint.senders.keys() - senders_of.keys())
        self._reported = self._told_before(checkpoint.told, back=back)

    def _told_before(self, told: int | None, *, back: bool) -> int | None:
        """The watermark that `on_watermark` was last called with. The present one may be lower, since sources that were
        idle or had ended count again. If an intermediate partition starts before its committed offset (`back`), the
        calls that follow from its messages are made again."""
        if told is None:  # no sender had sent a watermark, or an older version wrote it
            return self._stages.current
        return None if told < 0 or back else told

    def _still_true(
        self, kept: Mapping[SystemStreamPartition, T], checkpoint: Checkpoint
    ) -> dict[SystemStreamPartition, T]:
        """Leave out the partitions that start before their committed offset: their messages come as for the first
        time."""
        committed, offsets = checkpoint.input_offsets, self._offsets
        return {
            ssp: item
            for ssp, item in kept.items()
            if ssp in offsets and offsets[ssp] >= committed.get(ssp, offsets[ssp])
        }

    # Readings of the clock

    @property
    def now(self) -> int | None:
        """The event time in milliseconds since 1970; None while a source that counts has no mark."""
        return self._marks.current

    @property
    def time_ms(self) -> int | None:
        """`now`, but never before the committed time of the task's last life; None before there is any."""
        now = self._marks.current
        return self._earlier if now is None else max(now, self._earlier or now)

    def of(self, ssps: Iterable[SystemStreamPartition]) -> int | None:
        """Like `now`, of some of the partitions."""
        return self._marks.of(ssps)

    @property
    def idle(self) -> bool:
        return all(self._is_silent(ssp) for ssp in self._offsets)

    @property
    def reading(self) -> TaskClock:
        return TaskClock(self.now, self.idle)

    @property
    def held_by(self) -> str:
        """The source that holds the clock back, for people: `kafka.in[3]`, `kafka.in[3] (sender shop-1/Partition 0)`,
        or nothing."""
        ssp = self._marks.holding
        if ssp is None:
            return ""
        sender = self._senders[ssp].holding if ssp in self._senders else None
        return str(ssp) if sender is None else f"{ssp} (sender {sender})"

    @property
    def silent(self) -> list[str]:
        result: list[str] = []
        for ssp in sorted(self._offsets):
            if self._is_silent(ssp):
                result.append(str(ssp))
            elif ssp in self._senders:
                result += [f"{ssp} (sender {name})" for name in sorted(self._senders[ssp].silent)]
        return result

    @property
    def marks(self) -> Mapping[SystemStreamPartition, int]:
        return self._marks.marks

    @property
    def senders(self) -> Mapping[SystemStreamPartition, Mapping[str, SenderState]]:
        """The last control message of each sender. It goes with the checkpoint: a sender sends its end only once, and a
        restart begins after that message."""
        return {ssp: dict(senders.known) for ssp, senders in self._senders.items() if senders.known}

    @property
    def watermark(self) -> int | None:
        return self._stages.current

    @property
    def told(self) -> int | None:
        """The watermark that `take_watermark` has returned last, -1 for none; None if there was no watermark yet. The
        checkpoint keeps it, because timers and `on_clock` may commit or stop the task before `on_watermark` is called,
        and because the watermark may be lower after a restart."""
        if self._reported is not None:
            return self._reported
        return None if self._stages.current is None else -1

    def take_watermark(self) -> int | None:
        """The watermark if it has moved since the last call, else None."""
        now = self._stages.current
        if now is None or (self._reported is not None and now <= self._reported):
            return None
        self._reported = now
        return now

    def metrics(self) -> dict[str, float]:
        times = {"clock-ms": self.time_ms, "watermark": self.watermark}
        return {name: time_ms for name, time_ms in times.items() if time_ms is not None}

    # Messages

    def reach(self, ssp: SystemStreamPartition) -> float:
        """The furthest time that this partition alone can move the clock to; -inf if another one that counts has no
        mark."""
        return self._marks.reach(ssp)

    def latest(
        self, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope], *, counts: bool = False
    ) -> int:
        """The event time that a run of messages moves its partition to, -1 for none. `counts`: count the messages that
        are too far ahead to move it."""
        if ssp in self.intermediate:
            return -1
        latest = max(event_times(envelopes), default=-1) if self._exact else envelopes[-1].event_time
        if latest <= self._bound.latest or self._bound.takes(latest):
            return latest
        within = [time_ms for time_ms in event_times(envelopes) if time_ms <= self._bound.latest]
        if counts:
            self._bound.refuse(f"{ssp}, up to offset {envelopes[-1].offset}", latest, len(envelopes) - len(within))
        return max(within, default=-1)

    def passed(self, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope]) -> bool:
        latest = self.latest(ssp, envelopes, counts=True)
        return latest >= 0 and self._marks.advance(ssp, latest)

    def accepted(self, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope]) -> None:
        """A run of messages will be processed later; see `done`."""
        self._accepted.append((ssp, envelopes[-1].offset, self.latest(ssp, envelopes, counts=True)))

    def done(self) -> bool:
        """Take the accepted runs that the task's positions have passed; returns whether the clock has moved."""
        accepted, offsets, moved = self._accepted, self._offsets, False
        while accepted and offsets[accepted[0][0]] > accepted[0][1]:
            ssp, _, latest = accepted.popleft()
            if latest >= 0:
                moved |= self._marks.advance(ssp, latest)
        return moved

    def end(self, ssp: SystemStreamPartition) -> bool:
        """The partition has ended, all of its messages are processed, and it counts no longer; returns whether the
        clock has moved."""
        self._ended.add(ssp)
        if ssp in self.intermediate:
            self._stages.set_aside(ssp)
        latest = max((latest for accepted, _, latest in self._accepted if accepted == ssp), default=-1)
        self._accepted = deque(run for run in self._accepted if run[0] != ssp)
        moved = latest >= 0 and self._marks.advance(ssp, latest)
        return self._marks.set_aside(ssp) or moved

    # Senders

    @property
    def drained(self) -> bool:
        """Whether some partition has ended because its senders are drained."""
        return any(senders.drained for senders in self._senders.values())

    def receive(self, ssp: SystemStreamPartition, control: SentControl) -> bool:
        """Receive a control message of a partition; returns whether the partition has ended with it."""
        if not self._counts(ssp, control.sender):
            return False
        senders = self._senders[ssp]
        before = senders.ended
        senders.receive(control, self._clock.monotonic())
        self._follow(ssp)
        return senders.ended and not before

    def _counts(self, ssp: SystemStreamPartition, sender: str) -> bool:
        return sender.startswith(self._counting.get(ssp, ""))

    def reopens(self, ssp: SystemStreamPartition) -> bool:
        """A message of a partition has come; returns whether the partition had ended."""
        if ssp not in self.over:
            return False
        self.over.discard(ssp)
        self._ended.discard(ssp)
        self._senders[ssp].begin_anew()
        return True

    def forget_drain(self) -> None:
        """The task is drained: the next run begins with senders that are not drained."""
        for senders in self._senders.values():
            if senders.drained:
                senders.begin_anew()

    def _follow(self, ssp: SystemStreamPartition) -> bool:
        senders, moved = self._senders[ssp], False
        if senders.watermark is not None and ssp not in self._ended:
            moved = self._marks.advance(ssp, senders.watermark)
            self._stages.advance(ssp, senders.watermark)
        if senders.idle:
            moved |= self._marks.set_aside(ssp)
            self._stages.set_aside(ssp)
        return moved

    # The idle rule

    def check_idle(self, now: float, waiting: Collection[SystemStreamPartition] = ()) -> bool:
        """Find the sources that are idle at the monotonic time `now`; returns whether the clock has moved. The first
        look only notes where the partitions stand. `waiting`: the partitions that have, or may have, messages that the
        task has not processed."""
        if self._idle_s <= 0:
            return False
        moved = False
        for ssp, offset in self._offsets.items():
            if (self._seen.get(ssp) != offset or ssp in waiting) and ssp not in self.intermediate:
                self._seen[ssp] = offset
                self._rule.receive(ssp, now)
        if self._rule.check(now):
            for ssp in self._rule.idle:
                moved |= self._marks.set_aside(ssp)
        for ssp, senders in self._senders.items():
            if ssp in waiting:
                senders.put_off(now)
            elif senders.check_idle(now):
                moved |= self._follow(ssp)
        return moved

    def _is_silent(self, ssp: SystemStreamPartition) -> bool:
        return ssp in self._ended or ssp in self._rule.idle or (ssp in self._senders and self._senders[ssp].idle)


#: Timers that are looked up in one go.
_AT_ONCE = 256


class TaskTimers:
    """The timers of one task, in its store. `fired` counts them."""

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
        """A run of messages of one partition comes next."""
        clock = self._event_clock
        self._times.clear()
        self._reach = self._not_before_now(min(clock.reach(ssp), clock.latest(ssp, envelopes)))

    def until_due(self, envelopes: Sequence[IncomingMessageEnvelope], first: int, last: int) -> int:
        """The place in the run up to which messages from `first` on may be processed: behind the first message after
        which an event timer may be due, else `last`. A timer set meanwhile, for a time within these messages,
        interrupts them."""
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
        self.timers.tidy()
        return self.wait_s() <= 0

    def wait_s(self) -> float:
        """Seconds until a timer may be due, if event time does not move; infinity for never."""
        now = self._event_clock.now
        if now is not None and self.timers.earliest(TimerClock.EVENT) <= now:
            return 0.0
        wall = self.timers.earliest(TimerClock.WALL)
        return inf if wall == NEVER else max(0.0, (wall - self._clock.wall_ms()) / 1000)

    def take_due(self) -> Iterator[Timer]:
        """The due timers, in order of time within each clock, a few at a time. Each leaves the store before it is
        yielded. A timer that is cancelled or set again meanwhile is left out."""
        for clock, now in ((TimerClock.EVENT, self._event_clock.now), (TimerClock.WALL, self._clock.wall_ms())):
            if now is not None:
                for timer in self.timers.fire(clock, now, _AT_ONCE):
                    self.fired += 1
                    yield timer

    def metrics(self) -> dict[str, float]:
        values: dict[str, float] = {"timers-fired": self.fired}
        return values if self._event_clock.now is None else values | {"event-clock": self._event_clock.now}
