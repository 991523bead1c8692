"""Computes the progress of event time: a mark per source, the least of them, and the sources that are idle.

Gearpump's rule: a task's clock is the minimum over its inputs, the job's the minimum over its tasks. Three users: a
task's clock (sources are partitions and senders), the windows and joins of a store (partitions), and the coordinator
(tasks).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from math import inf
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)


class Watermarks(Generic[S]):
    """Marks in milliseconds since 1970; a mark T says that its source will bring nothing older than T on time.

    `current` is the least mark of the sources that count, None while one of them has none yet. A source that is idle or
    has ended does not count; when none is left, `current` is the highest mark there was. Neither a mark nor `current`
    ever goes back.
    """

    __slots__ = ("_aside", "_marks", "_unmarked", "current")

    def __init__(self, sources: Iterable[S], marks: Mapping[S, int] | None = None) -> None:
        """`marks`: those from before a restart; marks of unknown sources are left out."""
        known = marks or {}
        self._marks: dict[S, int | None] = {source: known.get(source) for source in sources}
        self._aside: set[S] = set()
        # How many that count have no mark: while there is one, nothing has to be compared.
        self._unmarked = sum(mark is None for mark in self._marks.values())
        self.current: int | None = None
        self._recount()

    @property
    def marks(self) -> dict[S, int]:
        """The mark of every source that has one; to be kept over a restart."""
        return {source: mark for source, mark in self._marks.items() if mark is not None}

    @property
    def holding(self) -> S | None:
        """The source that holds `current` back: one without a mark, else the one with the least; None if none
        counts."""
        counting = [(mark is not None, mark or 0, source) for source, mark in self._counting()]
        return min(counting, key=lambda each: each[:2])[2] if counting else None

    def reach(self, source: S) -> float:
        """The greatest `current` that `source` alone can reach: the least mark of the others that count, -inf while one
        of them has none, inf if there are no others."""
        others = [mark for each, mark in self._counting() if each != source]
        marks = [mark for mark in others if mark is not None]
        return min(marks, default=inf) if len(marks) == len(others) else -inf

    def advance(self, source: S, time_ms: int) -> bool:
        """`source` has come to `time_ms`, and counts (again); returns whether `current` has moved.

        Raises KeyError for a source that was not named.
        """
        before = self._marks[source]
        if source in self._aside:
            self._aside.discard(source)
        elif before is None:
            self._unmarked -= 1
        elif time_ms <= before:
            return False
        if before is None or time_ms > before:
            self._marks[source] = time_ms
        # Only the source that holds the minimum can move it.
        if before is not None and self.current is not None and before > self.current:
            return False
        return self._recount()

    def set_aside(self, source: S) -> bool:
        """`source` is idle or has ended, and does not count until it advances; returns whether `current` has moved."""
        if source not in self._aside and self._marks.get(source) is None:
            self._unmarked -= 1
        self._aside.add(source)
        return self._recount()

    def _counting(self) -> list[tuple[S, int | None]]:
        return [(source, mark) for source, mark in self._marks.items() if source not in self._aside]

    def _recount(self) -> bool:
        if self._unmarked:
            return False
        marks = [mark for _, mark in self._counting() if mark is not None]
        known = marks or self.marks.values()
        if not known:
            return False
        least = min(marks) if marks else max(known)
        if self.current is not None and least <= self.current:
            return False
        self.current = least
        return True


class IdleRule(Generic[S]):
    """A source is idle once it has brought no message for `idle_s` seconds, until it brings one.

    Time is monotonic and comes in with each call. With `idle_s` <= 0 no source is ever idle. `idle` holds the idle
    sources as of the last `look`.
    """

    __slots__ = ("_heard_at", "_idle_s", "idle")

    def __init__(self, sources: Iterable[S], now: float, idle_s: float) -> None:
        self._heard_at = dict.fromkeys(sources, now)
        self._idle_s = idle_s
        self.idle: set[S] = set()

    def heard(self, source: S, now: float) -> None:
        """`source` has brought a message."""
        self._heard_at[source] = now
        self.idle.discard(source)

    def forget(self, source: S) -> None:
        """Remove a source."""
        del self._heard_at[source]
        self.idle.discard(source)

    def look(self, now: float) -> bool:
        """Find the sources that have fallen silent; returns whether there are any new ones."""
        if self._idle_s <= 0:
            return False
        silent = {source for source, heard_at in self._heard_at.items() if now - heard_at >= self._idle_s} - self.idle
        self.idle |= silent
        return bool(silent)

    def all_silent_s(self, now: float) -> float:
        """The seconds since any source has brought a message."""
        return now - max(self._heard_at.values())
