"""Time: the clock that constructors take, and the progress of event time.

No other code of samzapy reads the time. Event time has a mark per source, the least of them, and the sources that are
idle. Gearpump's rule: a task's clock is the minimum over its inputs, the job's the minimum over its tasks. Three users:
a task's clock (sources are partitions and senders), the windows and joins of a store (partitions), and the coordinator
(tasks).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace
from math import inf
from pathlib import Path
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")

#: A figure that is older than this many of the periods in which it is measured is unknown.
STALE_AFTER = 3


class Clock(Protocol):
    """Two clocks in one: `monotonic` for intervals (seconds), `wall_ms` for time stamps (milliseconds since 1970)."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never jumps."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch; may jump when the machine's clock is set."""


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()
    monotonic = staticmethod(time.monotonic)

    def wall_ms(self) -> int:
        """Milliseconds of `time.time`."""
        return time.time_ns() // 1_000_000


SYSTEM_CLOCK: Clock = SystemClock()


@dataclass(frozen=True)
class Measured(Generic[T]):
    """A measured figure, and its time in seconds of this process's monotonic clock.

    Readers show only a known one. Processes send each other ages, because their clocks differ.
    """

    value: T
    at: float

    def is_known(self, now: float, period_s: float) -> bool:
        """Whether it is young enough at the time `now`. It is measured every `period_s` seconds."""
        return now - self.at <= STALE_AFTER * period_s


def process_start(pid: int) -> int:
    """The start of a process in ticks since the boot; 0 where the kernel does not say, and for no process."""
    try:
        # The name, in parentheses, may have blanks; the start is the 20th field after it.
        return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def boot_id() -> str:
    """The id of this machine's boot, empty where the kernel does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


class Schedule:
    """A period in seconds on the monotonic clock; missed beats are skipped. A period <= 0 is never due."""

    __slots__ = ("_period", "due_at")

    def __init__(self, period_ms: int, now: float) -> None:
        self._period = period_ms / 1000.0
        self.due_at = now + self._period if period_ms > 0 else float("inf")

    def due(self, now: float) -> bool:
        """Whether the time has come; if so, the next time is the next beat, however late this call is."""
        if now < self.due_at:
            return False
        self.due_at = now + self._period - (now - self.due_at) % self._period
        return True


logger = logging.getLogger(__name__)

S = TypeVar("S", bound=Hashable)


class TimeBound:
    """The latest event time by which a message may advance event time: `max_ahead_ms` after the wall clock, <= 0: none.

    A message further ahead would make all others late for as long. The wall clock is read only for a time beyond
    `latest`, the last bound.
    """

    __slots__ = ("_count", "_max_ahead_ms", "_wall_ms", "_warned", "latest")

    def __init__(
        self, max_ahead_ms: int = 0, wall_ms: Callable[[], int] = int, count: Callable[[int], object] = abs
    ) -> None:
        """`count` is called with the number of messages beyond."""
        self._max_ahead_ms = max_ahead_ms
        self._wall_ms = wall_ms
        self._count = count
        self._warned = False
        self.latest: float = -1 if max_ahead_ms > 0 else inf

    def takes(self, time_ms: int) -> bool:
        if time_ms > self.latest:
            self.latest = self._wall_ms() + self._max_ahead_ms
        return time_ms <= self.latest

    def refuse(self, where: object, time_ms: int, messages: int = 1) -> None:
        """Count messages beyond the bound, the latest with this time, and warn of the first."""
        if not self._warned:
            self._warned = True
            logger.warning(
                "%s: event time %d is more than task.event.time.max.ahead.ms (%d) after the wall clock: it advances no "
                "event time, nor do others like it (counted)",
                where,
                time_ms,
                self._max_ahead_ms,
            )
        self._count(messages)


def least(marks: Mapping[S, int | None], aside: Collection[S]) -> int | None:
    """`Watermarks.current` of sources with these marks."""
    counting = [mark for source, mark in marks.items() if source not in aside]
    highest = max((mark for mark in marks.values() if mark is not None), default=None)
    return None if None in counting else min(counting, default=highest)  # type: ignore[type-var]  # without None


class Watermarks(Generic[S]):
    """Marks in milliseconds since 1970: a source with mark T brings nothing older than T on time.

    `current` is the least mark of the sources that count, None while one of them has none yet. A source that is idle or
    has ended does not count; when none is left, `current` is the highest mark. Marks and `current` only grow.
    """

    __slots__ = ("_aside", "_gone", "_highest", "_marks", "_numbers", "_queue", "_unmarked", "current")

    def __init__(self, sources: Iterable[S], marks: Mapping[S, int] | None = None) -> None:
        """`marks`: the marks from before a restart; marks of unknown sources are left out."""
        known = marks or {}
        self._marks: dict[S, int | None] = {source: known.get(source) for source in sources}
        self._numbers = {source: number for number, source in enumerate(self._marks)}
        self._aside: set[S] = set()
        # The sources that count and have no mark: while there is one, nothing has to be compared.
        self._unmarked = {source: None for source, mark in self._marks.items() if mark is None}
        # A heap of the sources with a mark, by a mark that each had at some time: a source at the top with its current
        # mark has the least, so a job with 20,000 tasks compares few of them.
        self._queue = [(mark, self._numbers[source], source) for source, mark in self.marks.items()]
        heapify(self._queue)
        # The sources set aside that came to the top of the heap and were removed.
        self._gone: set[S] = set()
        self._highest = max(self.marks.values(), default=None)
        self.current: int | None = None
        self._settle()

    def of(self, sources: Iterable[S]) -> int | None:
        """Like `current`, of some of the sources."""
        return least({source: self._marks[source] for source in sources}, self._aside)

    @property
    def marks(self) -> dict[S, int]:
        """The mark of every source that has one; to be kept over a restart."""
        return {source: mark for source, mark in self._marks.items() if mark is not None}

    @property
    def holding(self) -> S | None:
        """The source that holds `current` back: a source without a mark, else the one with the least mark; None if none
        counts. Any thread may ask."""
        try:
            unmarked = next(iter(self._unmarked), None)
        except RuntimeError:
            # A source got its first mark between the two calls.
            return self.holding
        if unmarked is not None:
            return unmarked
        first = self._queue[:1]
        return first[0][2] if first else None

    def reach(self, source: S) -> float:
        """The greatest `current` that `source` alone can reach: the least mark of the others that count, -inf while one
        of them has none, inf if there are no others."""
        if len(self._unmarked) > (source in self._unmarked):
            return -inf
        mark = self._least()
        if mark is not None and self._queue[0][2] == source:
            own = heappop(self._queue)
            mark = self._least()
            heappush(self._queue, own)
        return inf if mark is None else mark

    def advance(self, source: S, time_ms: int) -> bool:
        """`source` has come to `time_ms`, and counts (again); returns whether `current` has moved.

        Raises KeyError for a source that was not named.
        """
        before = self._marks[source]
        if source in self._aside:
            self._aside.discard(source)
        elif before is None:
            del self._unmarked[source]
        elif time_ms <= before:
            return False
        if before is None or time_ms > before:
            self._marks[source] = time_ms
            self._highest = time_ms if self._highest is None else max(time_ms, self._highest)
        if before is None or source in self._gone:
            self._gone.discard(source)
            heappush(self._queue, (time_ms if before is None else before, self._numbers[source], source))
        # Only the source that holds the minimum can move it.
        if before is not None and self.current is not None and before > self.current:
            return False
        return self._settle()

    def set_aside(self, source: S) -> bool:
        """`source` is idle or has ended, and does not count until it advances; returns whether `current` has moved."""
        self._unmarked.pop(source, None)
        self._aside.add(source)
        return self._settle()

    def _least(self) -> int | None:
        """Bring the least mark that counts to the top of the heap, and return it; None if there is none."""
        queue, marks = self._queue, self._marks
        while queue:
            mark, number, source = queue[0]
            now = marks[source]
            if source in self._aside:
                heappop(queue)
                self._gone.add(source)
            elif now is None or now == mark:
                return mark
            else:
                heapreplace(queue, (now, number, source))
        return None

    def _settle(self) -> bool:
        """Follow the least mark; returns whether `current` has moved."""
        if self._unmarked:
            return False
        least = self._highest if (first := self._least()) is None else first
        if least is None or (self.current is not None and least <= self.current):
            return False
        self.current = least
        return True


class IdleRule(Generic[S]):
    """A source is idle once it has brought no message for `idle_s` seconds (<= 0: never), until it brings one.

    Each call gets the time of a monotonic clock. `idle` holds the idle sources as of the last `check`.
    """

    __slots__ = ("_idle_s", "_received_at", "idle")

    def __init__(self, sources: Iterable[S], now: float, idle_s: float) -> None:
        self._received_at = dict.fromkeys(sources, now)
        self._idle_s = idle_s
        self.idle: set[S] = set()

    def receive(self, source: S, now: float) -> None:
        self._received_at[source] = now
        self.idle.discard(source)

    def put_off(self, now: float) -> None:
        """Count the silence of the sources that are not idle from `now` on."""
        for source in self._received_at.keys() - self.idle:
            self._received_at[source] = max(now, self._received_at[source])

    def forget(self, source: S) -> None:
        del self._received_at[source]
        self.idle.discard(source)

    def check(self, now: float) -> bool:
        """Find the sources that have fallen silent; returns whether there are any new ones."""
        if self._idle_s <= 0:
            return False
        silent = {source for source, at in self._received_at.items() if now - at >= self._idle_s} - self.idle
        self.idle |= silent
        return bool(silent)

    def all_silent_s(self, now: float) -> float:
        """The seconds since any source has brought a message."""
        return now - max(self._received_at.values())
