"""Windows that begin and end with the values of a key: sessions and sliding windows.

The open sessions of a key are one entry, `k|<key>`: `[due, [first, last, accumulated], ...]`, in the order of time.
`due` is the key's time in the index. It is no later than the end of the first session, and does not change when that
session grows: it moves only when it comes due, not with each value.

The recent values of a key in sliding windows are one entry, too: `[due, done, times, values]`, in the order of time, at
equal times in the order of arrival. `done` is the last time with a closed window. Values stay as long as an open or a
future window needs them. A value that came after its own window was over opens no window. It is in a fifth part of the
entry, which only such an entry has: a list of `[time, first, value]`, in the order of arrival. The windows of values at
`first` or later take it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import reduce
from operator import itemgetter
from typing import Any

from samzapy.operators.event_time import Duration, milliseconds
from samzapy.operators.folds import Aggregation, Fold
from samzapy.operators.windows.state import ALL_MS, Columns, Handle, KeyedState, Store, Window, WindowDefinition

_time_of = itemgetter(0)

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
            others: list[Any] | None = None
            if time - last >= gap:
                # One after all sessions.
                others, first, last, accumulated = held, time, time, self._init()
            elif first - time < gap and (len(held) == 2 or time - held[-2][1] >= gap):
                # The usual value: one of the newest session, and of no other.
                others, first, last = held[:-1], min(first, time), max(last, time)
            if others is not None:
                if self.touched is not None:
                    self.touched.add((key, first))
                return [*others, [first, last, self._add(accumulated, value)]]
        sessions: list[Session] = [] if held is None else held[1:]
        near = [s for s in sessions if s[0] - time < gap and time - s[1] < gap]
        # A late value may still fall into a session that is not over.
        if not in_time and not any(s[0] <= time and s[1] + gap + self.grace_ms > horizon for s in near):
            return held
        if near:
            first, last = min(time, near[0][0]), max(time, near[-1][1])
            accumulated = reduce(self.aggregation.merge, [s[2] for s in near])
        else:
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


class Sliding(WindowDefinition):
    """A window of `size` ending with each value: the window of a value at T has the values with T - size < time <= T,
    and its end is T + 1 (ms). Values of the same time share a window.

    A window that is over takes nothing more. A value whose own window is over still counts in the windows of later
    values that are not over, as in Kafka Streams. It is late once no window can take it: `size` and `grace` after it.

    A window is folded from its values when it closes. The values of a key are one entry of the store: for keys with
    thousands of values in a window, `Hopping` is the better choice.
    """

    def __init__(self, size: Duration, *, grace: Duration = 0) -> None:
        """Raises ValueError for an invalid duration."""
        self.size_ms = milliseconds(size, "size of Sliding", 1)
        self.grace_ms = milliseconds(grace, "grace of Sliding")

    @property
    def name(self) -> str:
        return f"windows of {self.size_ms} ms before each value"

    def state(self, store: Store, aggregation: Aggregation) -> SlidingState:
        return SlidingState(store, aggregation, self)


class SlidingState(KeyedState):
    """The recent values of all keys."""

    def __init__(self, store: Store, aggregation: Aggregation, windows: Sliding) -> None:
        super().__init__(store, aggregation, windows.grace_ms)
        self._size = windows.size_ms

    def add(self, key: str, value: Any, time: int, horizon: int) -> bool:
        entry = "k|" + key
        held = self._get(entry)
        if (
            held is not None
            and self.touched is None
            and time + 1 + self.grace_ms > horizon
            and (times := held[2])
            and times[-1] < time
            and held[0] <= time + 1
        ):
            # The usual value: one after all others.
            self._put(entry, [held[0], held[1], [*times, time], [*held[3], value], *held[4:]])
            return True
        changed = self._folded(key, held, (0,), ((key,), (value,), (time,), (horizon,)), [])
        if changed is held:
            return False
        self._put(entry, changed)
        return True

    def _folded(
        self, key: str, held: list[Any] | None, places: Sequence[int], columns: Columns, late: list[int]
    ) -> list[Any] | None:
        _, values, times, horizons = columns
        kept = _copied(held)
        lives_ms, before = self._size + self.grace_ms, len(late)
        for place in places:
            if times[place] + lives_ms <= horizons[place]:
                late.append(place)
            else:
                self._insert(key, kept, values[place], times[place], horizons[place])
        if len(late) - before == len(places):
            return held
        kept[0] = self._set_due(key, held, kept[0])
        return kept

    def _insert(self, key: str, kept: list[Any], value: Any, time: int, horizon: int) -> None:
        """Put a value into an entry, which nothing else has."""
        times, values = kept[2:4]
        since = time
        if time + 1 + self.grace_ms <= horizon:
            since = horizon - self.grace_ms
            kept[4:] = [[*(kept[4] if len(kept) > 4 else ()), [time, since, value]]]
            kept[0] = min(kept[0], time + self._size)
        else:
            place = bisect_right(times, time)
            times.insert(place, time)
            values.insert(place, value)
            kept[0] = min(kept[0], time + 1)
        if self.touched is not None:
            touched = times[bisect_left(times, since) : bisect_left(times, time + self._size)]
            self.touched.update((key, item) for item in touched)

    def _closed(self, key: str, held: list[Any], bound: int) -> tuple[list[Window], list[Any] | None]:
        _, done, times, values, *rest = held
        last = bisect_left(times, bound)
        windows = self._windows(key, bisect_right(times, done), last, held)
        if bound == ALL_MS:
            return windows, None
        past = bisect_right(times, bound - self._size)
        rest = [left] if rest and (left := [late for late in rest[0] if late[0] + self._size > bound]) else []
        if past == len(times) and not rest:
            return windows, None
        # With no window left to close, the values wait for later ones that may still come in time.
        newest = max(times[-1:] + [late[0] for item in rest for late in item])
        due = times[last] + 1 if last < len(times) else newest + self._size
        done = max(done, times[last - 1] if last else done)
        return windows, [due, done, times[past:], values[past:], *rest]

    def read(self, handle: Handle) -> Window | None:
        key, time = handle
        held = self._get(f"k|{key}")
        if held is None or time <= held[1] or time not in held[2]:
            return None
        last = bisect_right(held[2], time)
        return self._windows(key, last - 1, last, held)[0]

    def _windows(self, key: str, first: int, last: int, held: list[Any]) -> list[Window]:
        """The windows that end with the values of the places from `first` to `last`, one for each time."""
        size, init, add_all = self._size, self.aggregation.init, self.aggregation.add_all
        times, values = held[2:4]
        late = held[4] if len(held) > 4 else ()
        result = []
        start = 0
        for place in range(first, last):
            time = times[place]
            if place + 1 < len(times) and times[place + 1] == time:
                continue
            begin = time - size
            while times[start] <= begin:
                start += 1
            inside = values[start : place + 1]
            if late and (more := [(at, value) for at, since, value in late if begin < at and since <= time]):
                both = sorted([*zip(times[start : place + 1], inside, strict=True), *more], key=_time_of)
                inside = [value for _, value in both]
            result.append(Window(key, begin + 1, time + 1, add_all(init(), inside)))
        return result


def _copied(held: list[Any] | None) -> list[Any]:
    """An entry to change; a new one comes due with its first value."""
    if held is None:
        return [ALL_MS, -1, [], []]
    due, done, times, values, *late = held
    return [due, done, list(times), list(values), *late]
