"""Session windows: values of a key that follow one another closely.

The open sessions of a key are one entry, `k|<key>`: `[due, [first, last, accumulated], ...]`, in the order of time.
`due` is the key's time in the index. It is no later than the end of the first session, and does not change when that
session grows: it moves only when it comes due, not with each value.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import itemgetter
from typing import Any

from samzapy.operators.event_time import Duration, milliseconds
from samzapy.operators.folds import Aggregation, Fold
from samzapy.operators.windows.state import Columns, Handle, KeyedState, Store, Window, WindowDefinition

#: The first and the last time of a session, and its accumulated value.
Session = list[Any]


class Sessions(WindowDefinition):
    """A session ends where no value of its key comes for `gap`: values less than `gap` apart are in the same one. It
    begins with its first value and ends `gap` after its last.

    A value that is up to `grace` older than the newest of its partition is in time, and may join two sessions. An older
    one is late unless it falls into a session that is not over.
    """

    def __init__(self, gap: Duration, *, grace: Duration = 0) -> None:
        """Raises ValueError for an invalid duration."""
        self.gap_ms = milliseconds(gap, "gap of Sessions", 1)
        self.grace_ms = milliseconds(grace, "grace of Sessions")

    @property
    def name(self) -> str:
        return f"sessions with gaps of {self.gap_ms} ms"

    def state(self, store: Store, aggregation: Aggregation) -> SessionState:
        if isinstance(aggregation, Fold) and not aggregation.merges:
            raise ValueError(f"{aggregation.name}: sessions grow together and need a fold with a merge")
        return SessionState(store, aggregation, self)


class SessionState(KeyedState):
    """The open sessions of all keys."""

    def __init__(self, store: Store, aggregation: Aggregation, windows: Sessions) -> None:
        super().__init__(store, aggregation, windows.grace_ms)
        self._gap = windows.gap_ms
        self._init, self._add = aggregation.init, aggregation.add

    def add(self, key: str, value: Any, time: int, horizon: int) -> bool:
        entry = "k|" + key
        held = self._get(entry)
        changed = self._added(key, held, value, time, horizon)
        if changed is held:
            return False
        self._put(entry, changed)
        return True

    def _folded(
        self, key: str, held: list[Any] | None, places: Sequence[int], columns: Columns, late: list[int]
    ) -> list[Any] | None:
        _, values, times, horizons = columns
        for place in places:
            after = self._added(key, held, values[place], times[place], horizons[place])
            if after is held:
                late.append(place)
            held = after
        return held

    def _added(self, key: str, held: list[Any] | None, value: Any, time: int, horizon: int) -> list[Any] | None:
        """The entry of a key with one more value; `held` itself if the value is late."""
        gap, in_time = self._gap, time + self.grace_ms >= horizon
        if held is not None and in_time:
            first, last, accumulated = held[-1]
            if time - last < gap and first - time < gap and (len(held) == 2 or time - held[-2][1] >= gap):
                # The usual value: one of the newest session, and of no other.
                if time < first:
                    first = time
                elif time > last:
                    last = time
                if self.touched is not None:
                    self.touched.add((key, first))
                return [*held[:-1], [first, last, self._add(accumulated, value)]]
        sessions: list[Session] = [] if held is None else held[1:]
        near = [s for s in sessions if s[0] - time < gap and time - s[1] < gap]
        # A late value may still fall into a session that is not over.
        if not in_time and not any(s[0] <= time and s[1] + gap + self.grace_ms > horizon for s in near):
            return held
        if near:
            first, last = min(time, near[0][0]), max(time, near[-1][1])
            accumulated = reduce(self.aggregation.merge, [s[2] for s in near])
        else:
            self.opened += 1
            first, last, accumulated = time, time, self._init()
        grown = [first, last, self._add(accumulated, value)]
        sessions = sorted([*(s for s in sessions if s not in near), grown], key=itemgetter(0))
        if self.touched is not None:
            self.touched.add((key, first))
        return [self._set_due(key, held, sessions[0][1] + gap), *sessions]

    def _closed(self, key: str, held: list[Any], bound: int) -> tuple[list[Window], list[Any] | None]:
        gap = self._gap
        _, *sessions = held
        left = [s for s in sessions if s[1] + gap > bound]
        windows = [Window(key, s[0], s[1] + gap, s[2]) for s in sessions[: len(sessions) - len(left)]]
        return windows, [left[0][1] + gap, *left] if left else None

    def read(self, handle: Handle) -> Window | None:
        key, time = handle
        for first, last, accumulated in (self._get(f"k|{key}") or [0])[1:]:
            if first <= time <= last:
                return Window(key, first, last + self._gap, accumulated)
        return None
