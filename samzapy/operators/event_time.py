"""Keeps the progress of event time, by partition, in the store of a window or a join; reads durations.

1. The mark of a partition is its newest event time. Each message reads and writes it in the store. So a commit writes
   the mark together with its message, and the undo of a failed message restores the mark, in any order of the
   partitions.
2. A message is late by the mark of its own partition, or if its window was over before it came. The least of all marks
   decides which windows are over. It is never ahead of the message's own mark, unless an idle partition was left out.
3. The idle rule is the same as for a task's clock, with the idle time of the window or join. When all partitions are
   idle, event time advances with processing time.

These are not the marks of the task's clock: a window may take its times from the message's content, and read only some
of the inputs.

    m|<partition>    time    the newest event time of a partition, `system.stream[3]`
    clock            time    up to where event time has come
    grace            ms      the grace of the windows, or the lateness of the join: ends up to `clock` minus it are past
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, NoReturn

from samzapy.api.context import Context, Counter
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStreamPartition
from samzapy.clock import IdleRule, TimeBound, least
from samzapy.config.job import JobClockConfig
from samzapy.config.reading.keys import Reader, in_ms
from samzapy.config.stores import StoreConfig
from samzapy.config.streams.serdes import parse_serdes, serde_identity
from samzapy.errors import ConfigProblem, raise_if_any

#: Milliseconds, or a number with a unit: `250ms`, `10s`, `5m`, `1h`, `1d`.
Duration = int | str

#: Event times above this are taken for micro- or nanoseconds.
LATEST_MS = 9 * 10**13
#: A hundred years. With the latest event time it stays below 10^14, see `windows.state`.
LONGEST_MS = 36_525 * 86_400_000
#: For messages without a proper key.
KEY_REMEDY = "; task.error.process.policy may skip the message or make it a dead letter"

#: Later than any window or waiting message.
AHEAD_MS = 10**15

_CLOCK = "clock"
_GRACE = "grace"
_WHOLE = frozenset({int})
#: The serdes of single values.
_SINGLE = frozenset({"string", "integer", "long", "double", "bytes", "uuid"})


def milliseconds(duration: Duration, what: str, least: int = 0) -> int:
    """The duration in milliseconds. Raises ValueError, naming `what`, for anything but a duration of at least
    `least`."""
    value: object = duration
    if isinstance(duration, str):
        text = in_ms(".ms", duration.strip())
        value = int(text) if text.isdecimal() else None
    if type(value) is not int or not least <= value <= LONGEST_MS:
        raise ValueError(
            f"{what}: milliseconds from {least} to {LONGEST_MS}, or a number with ms, s, m, h or d, got {duration!r}"
        )
    return value


def check_store(context: Context, name: str, users: str, *, lists: bool) -> None:
    """Check the store of the windows or the join `users`.

    Raises ConfigError for one with entries that expire by processing time: each entry is needed until event time has
    passed it, and without the newest event times closed windows would open again. If the operator keeps `lists`, also
    for a serde of single values, which would refuse the first list at the commit.
    """
    reader, problems = Reader(context.job.config), list[ConfigProblem]()
    ttl_ms = reader.value(StoreConfig, "ttl_ms", store=name)
    if ttl_ms is not None and ttl_ms > 0:
        deleted = "which delete entries by event time (grace, gap, tolerance)"
        allowed = f"must not be set for a store of windows or joins, {deleted}"
        problems.append(ConfigProblem(f"stores.{name}.rocksdb.ttl.ms", str(ttl_ms), allowed))
    serde = reader.value(StoreConfig, "msg_serde", store=name)
    if lists and serde and serde_identity(serde, parse_serdes(reader)) in _SINGLE:
        allowed = f"must be json or msgpack: {users} keep lists in their store"
        problems.append(ConfigProblem(f"stores.{name}.msg.serde", serde, allowed))
    raise_if_any(problems)


class _Source:
    """A partition: the key of its mark, and whether it has brought a message since event time last advanced."""

    __slots__ = ("active", "entry", "ssp")

    def __init__(self, ssp: SystemStreamPartition) -> None:
        self.ssp = ssp
        self.entry = f"m|{ssp}"
        self.active = False


class EventTime:
    """The marks of a task's partitions, and the event time that follows from them.

    1. `over` is the event time as of the last `advance`. A window is over when `over` has reached its end plus the
       grace. `over` never goes back, not even in a restart with the same grace.
    2. If the grace differs from the last run's, `over` starts ahead or back by the difference. So the windows that were
       over stay over, and no other window is over.
    """

    def __init__(
        self,
        context: Context,
        store: KeyValueStore[str, Any],
        ssps: Iterable[SystemStreamPartition],
        users: str,
        *,
        idle: Duration | None,
        grace_ms: int,
        ahead: Counter,
        remedy: str = "",
    ) -> None:
        """`users`: the objects that need event times, in the plural, for errors, with a `remedy`. A partition that is
        silent for `idle` does not hold the others back; None: they always wait for it. `grace_ms`: the time by which
        event time passes an end before the users close it. `ahead` counts the messages that are too far ahead of the
        wall clock. The `watermarked` partitions of the task have their marks from `mark` alone. Raises ValueError for
        an invalid duration."""
        clock = context.container.clock
        max_ahead_ms = Reader(context.job.config).value(JobClockConfig, "max_ahead_ms")
        self._store = store
        self._get, self._put = store.get, store.put
        self._users, self._remedy = users, remedy
        self._bound = TimeBound(max_ahead_ms, clock.wall_ms, ahead.inc)
        self._sources = {ssp: _Source(ssp) for ssp in sorted(ssps)}
        self._watermarked = context.task.watermarked
        #: The newest event time of their messages.
        self._seen = 0
        idle_s = 0.0 if idle is None else milliseconds(idle, "idle", 1) / 1000
        self._rule = IdleRule(self._sources, clock.monotonic(), idle_s)
        self._may_idle = idle_s > 0
        self._known = -1  # `over` after the last `advance`
        self._last = next(iter(self._sources.values()))
        self._marks = self._kept()
        before: int | None = self._get(_GRACE)
        if before != grace_ms:
            over: int | None = self._get(_CLOCK)
            if over and before is not None:
                self._put(_CLOCK, max(0, over + grace_ms - before))
            self._put(_GRACE, grace_ms)
        self.over = 0
        self.reload()

    def reload(self) -> None:
        """Read `over` from the store: the message that advanced it may have failed, and its change was undone."""
        self.over = self._get(_CLOCK) or 0

    def receive(self, envelope: IncomingMessageEnvelope, time: int) -> int:
        """Accept the event time of a message; returns its horizon: windows that were over then are closed to it. The
        horizon of one that is too far ahead is `AHEAD_MS`, so it is late for all of them.

        Raises ValueError for an invalid time, and for an unknown partition.
        """
        ssp, source = envelope.ssp, self._last
        if ssp is not source.ssp:
            source = self._last = self._sources.get(ssp) or self._unknown(envelope)
            source.ssp = ssp
        source.active = True
        if type(time) is not int or not 0 <= time <= LATEST_MS:
            self._refuse(envelope, time)
        mark: int | None = self._get(source.entry)
        if mark is None or time > mark:
            if time > self._bound.latest and not self._bound.takes(time):
                self._bound.refuse(envelope.position, time)
                return AHEAD_MS
            if ssp in self._watermarked:
                self._seen = max(self._seen, time)
                return max(mark or 0, self.over)
            self._put(source.entry, time)
            mark = time
        over = self.over
        return mark if mark > over else over  # noqa: FURB136  # half the time of max

    def receive_all(self, batch: Sequence[IncomingMessageEnvelope], times: Sequence[int]) -> list[int]:
        """Like `receive` of each message of a batch of one partition, in order; returns the horizon of each.

        Raises ValueError for an invalid time, before it accepts any.
        """
        source = self._sources.get(batch[0].ssp) or self._unknown(batch[0])
        self.check_all(batch, times)
        if (newest_time := max(times)) > self._bound.latest and not self._bound.takes(newest_time):
            return [self.receive(envelope, time) for envelope, time in zip(batch, times, strict=True)]
        source.active = True
        if batch[0].ssp in self._watermarked:
            self._seen = max(self._seen, newest_time)
            return [max(self._get(source.entry) or 0, self.over)] * len(times)
        mark: int = self._get(source.entry) or 0
        newest = list(accumulate(times, max, initial=mark))
        if newest[-1] > mark or not mark:
            self._put(source.entry, newest[-1])
        over = self.over
        del newest[0]
        return newest if newest[0] >= over else [max(mark, over) for mark in newest]

    def mark(self, ssp: SystemStreamPartition, time: int) -> None:
        """Accept a watermark of a partition: no older message follows."""
        source = self._sources[ssp]
        source.active = True
        if time > (self._get(source.entry) or 0):
            self._put(source.entry, time)

    def check_all(self, batch: Sequence[IncomingMessageEnvelope], times: Sequence[Any]) -> None:
        """Raise the ValueError for the first of the messages without a proper event time."""
        if not set(map(type, times)) <= _WHOLE or min(times) < 0 or max(times) > LATEST_MS:
            for envelope, time in zip(batch, times, strict=True):
                if type(time) is not int or not 0 <= time <= LATEST_MS:
                    self._refuse(envelope, time)

    def advance(self, now: float) -> bool:
        """Bring `over` up to date; `now` is the monotonic time. Returns whether it has moved, if only after an undo."""
        known = self._known
        self.reload()
        undone = self.over != known
        if not (undone or self._may_idle or any(source.active for source in self._sources.values())):
            return False
        # Read again, since an undo may have restored a mark, and all at once: a partition that is no longer idle must
        # count before any other moves.
        marks = self._marks = self._kept()
        for source in self._sources.values():
            # A partition without a mark has brought one message at most, and that was undone.
            if source.active and marks[source.ssp] is not None:
                source.active = False
                self._rule.receive(source.ssp, now)
        self._rule.check(now)
        if (current := least(marks, self._rule.idle)) is not None:
            all_idle = len(self._rule.idle) == len(self._sources)
            self.end(current + int(self._rule.all_silent_s(now) * 1000) if all_idle else current)
        self._known = self.over
        return undone or self.over != known

    def _kept(self) -> dict[SystemStreamPartition, int | None]:
        """The marks that the store has, None for none."""
        entries = self._store.get_all([source.entry for source in self._sources.values()])
        return {ssp: entries[source.entry] for ssp, source in self._sources.items()}

    def end(self, time: int) -> None:
        """Declare everything that ends by `time` over."""
        if time > self.over:
            self.over = time
            self._put(_CLOCK, time)

    @property
    def newest(self) -> int:
        """The newest event time so far, idle time included."""
        return max(self.over, self._seen, *filter(None, self._marks.values()))

    def _refuse(self, envelope: IncomingMessageEnvelope, time: object) -> NoReturn:
        raise ValueError(
            f"{envelope.position}: event time {time!r}: {self._users} need milliseconds since 1970, 0 to {LATEST_MS}"
            f"{self._remedy}"
        )

    def _unknown(self, envelope: IncomingMessageEnvelope) -> NoReturn:
        known = ", ".join(sorted({str(ssp.system_stream) for ssp in self._sources}))
        raise ValueError(f"{envelope.position}: the {self._users} take messages of {known}")
