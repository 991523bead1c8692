"""Tumbling and hopping windows: the same stretches of time for every key.

A window of a key is one entry, `w|<end>|<key>`, with the accumulated value. So the windows that end first come first,
and no index is needed.

Hopping windows that overlap much are kept in panes instead, unless the order of their values counts: a value is folded
once, and a window is merged of its panes when it closes. A pane is a stretch of time as long as the advance. The panes
of a key are one entry, `k|<key>`: `[due, [end, first, accumulated], ...]`, in the order of their ends. `due` is the end
of the next window to close, and the key's time in the index. `first` is the end of the first window that takes the
pane: `end` itself, or later for values that were too late for some of their windows. The panes of a window are merged
in this order whenever it closes, so a restart does not change a sum of floats.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import reduce
from math import gcd
from operator import itemgetter
from typing import Any

from samzapy.operators.event_time import Duration, milliseconds
from samzapy.operators.expiry import ExpiryIndex
from samzapy.operators.folds import Aggregation
from samzapy.operators.windows.state import (
    ALL_MS,
    DIGITS,
    Closed,
    Columns,
    Handle,
    KeyedState,
    Store,
    Window,
    WindowDefinition,
    WindowState,
    definition_of,
    known_definitions,
)

#: The end of a pane, the end of the first window that takes it, and its accumulated value.
Pane = list[Any]
_end_and_first = itemgetter(0, 1)

#: The number of windows that are remembered by their stretches of time; then all are forgotten.
_REMEMBERED = 10_000
#: The most windows that a value may be in. Each is an entry of the store, and a result.
MOST_WINDOWS = 10_000
#: The number of windows per value from which windows share panes.
LEAST_PANES = 4


class Hopping(WindowDefinition):
    """Windows of `size`, one beginning every `advance`: a value is in size / advance of them.

    They begin at whole multiples of `advance` since 1970 (UTC), plus `offset`. `grace`: the event time for which a
    window waits after its end for late values. Durations are milliseconds or text such as "5m" (see `Duration`). A
    value is in `MOST_WINDOWS` windows at most.
    """

    def __init__(self, size: Duration, advance: Duration, *, grace: Duration = 0, offset: Duration = 0) -> None:
        """Raises ValueError for an invalid duration, for an advance longer than the size, and for one so short that a
        value would be in more than `MOST_WINDOWS` windows."""
        kind = type(self).__name__
        self.size_ms = milliseconds(size, f"size of {kind}", 1)
        self.advance_ms = milliseconds(advance, f"advance of {kind}", 1)
        self.grace_ms = milliseconds(grace, f"grace of {kind}")
        self.offset_ms = milliseconds(offset, f"offset of {kind}") % self.advance_ms
        if self.advance_ms > self.size_ms:
            raise ValueError(
                f"advance of {kind}: at most its size, got {advance!r} and a size of {size!r}: "
                "values would be in no window"
            )
        if (windows := -(-self.size_ms // self.advance_ms)) > MOST_WINDOWS:
            least_ms = -(-self.size_ms // MOST_WINDOWS)
            raise ValueError(
                f"advance of {kind}: at least {least_ms} ms for a size of {size!r}, got "
                f"{advance!r}: each value would be in "
                f"{windows} windows, and {MOST_WINDOWS} is the most; give a longer advance"
            )

    @property
    def name(self) -> str:
        return f"windows of {self.size_ms} ms every {self.advance_ms} ms from {self.offset_ms} ms"

    def state(self, store: Store, aggregation: Aggregation) -> WindowState:
        overlap, rest = divmod(self.size_ms, self.advance_ms)
        if rest or overlap < LEAST_PANES or not aggregation.in_any_order:
            return AlignedState(store, aggregation, self)
        if definition_of(self, aggregation) in known_definitions(store):
            # The store is from a version without panes, and stays so.
            return AlignedState(store, aggregation, self)
        return PanedState(store, aggregation, self)


class Tumbling(Hopping):
    """Windows of `size`, one after the other: a value is in exactly one of them."""

    def __init__(self, size: Duration, *, grace: Duration = 0, offset: Duration = 0) -> None:
        """Like `Hopping`, with an advance of `size`."""
        super().__init__(size, size, grace=grace, offset=offset)


class AlignedState(WindowState):
    """The open windows of all keys."""

    def __init__(self, store: Store, aggregation: Aggregation, windows: Hopping) -> None:
        super().__init__(store, aggregation, windows.grace_ms)
        self._size = windows.size_ms
        self._advance = windows.advance_ms
        self._offset = windows.offset_ms
        #: All times in a stretch of this length are in the same windows.
        self._stretch = gcd(self._size, self._advance)
        self._windows: dict[int, tuple[tuple[int, str], ...]] = {}
        self._by_end = ExpiryIndex(store, "w|", DIGITS)
        self._get, self._put, self._opens = store.get, store.put, self._by_end.added
        self._init, self._add = aggregation.init, aggregation.add

    def add(self, key: str, value: Any, time: int, horizon: int) -> bool:
        get, put, add = self._get, self._put, self._add
        stretch = (time - self._offset) // self._stretch
        taken = False
        for over_at, prefix in self._windows.get(stretch) or self._windows_of(stretch):
            if over_at > horizon:
                entry = prefix + key
                accumulated = get(entry)
                if accumulated is None:
                    accumulated = self._init()
                    self._opens(entry)
                put(entry, add(accumulated, value))
                taken = True
                if self.touched is not None:
                    self.touched.add((entry,))
        return taken

    def add_all(self, columns: Columns) -> list[int]:
        offset, length, windows = self._offset, self._stretch, self._windows
        taken: dict[str, list[Any]] = {}
        late = []
        for place, (key, value, time, horizon) in enumerate(zip(*columns, strict=True)):
            stretch = (time - offset) // length
            is_late = True
            for over_at, prefix in windows.get(stretch) or self._windows_of(stretch):
                if over_at > horizon:
                    is_late = False
                    entry = prefix + key
                    if entry in taken:
                        taken[entry].append(value)
                    else:
                        taken[entry] = [value]
            if is_late:
                late.append(place)
        self._fold(taken)
        return late

    def _fold(self, taken: dict[str, list[Any]]) -> None:
        """Fold the values of each entry, in order."""
        held = self.store.get_all(taken)
        init, add_all = self._init, self.aggregation.add_all
        for entry, values in taken.items():
            before = held[entry]
            if before is None:
                self._opens(entry)
                before = init()
            held[entry] = add_all(before, values)
        self.store.put_all(held)
        if self.touched is not None:
            self.touched.update((entry,) for entry in taken)

    def _windows_of(self, stretch: int) -> tuple[tuple[int, str], ...]:
        """The time when it is over, and the prefix of its entries, for each window of a stretch of time, in the order
        of their ends."""
        if len(self._windows) * self._size >= _REMEMBERED * self._advance:
            self._windows.clear()
        time = stretch * self._stretch
        first = (time - self._size) // self._advance + 1
        ends = [n * self._advance + self._offset + self._size for n in range(first, time // self._advance + 1)]
        result = self._windows[stretch] = tuple((end + self.grace_ms, f"w|{end:014d}|") for end in ends)
        return result

    def close(self, bound: int, limit: int) -> Closed:
        taken = self._by_end.take(bound + 1, limit)
        windows = [Window(key, end - self._size, end, accumulated) for end, key, accumulated in taken]
        return Closed(windows, len(taken) == limit)

    def read(self, handle: Handle) -> Window | None:
        (entry,) = handle
        accumulated = self._get(entry)
        end = int(entry[2:16])
        return None if accumulated is None else Window(entry[17:], end - self._size, end, accumulated)


class PanedState(KeyedState):
    """The panes of the open windows of all keys."""

    layout = ", in panes"

    def __init__(self, store: Store, aggregation: Aggregation, windows: Hopping) -> None:
        """The size of the windows is a multiple of their advance."""
        super().__init__(store, aggregation, windows.grace_ms)
        self._size, self._advance, self._offset = windows.size_ms, windows.advance_ms, windows.offset_ms
        #: From the end of a pane to the end of its last window.
        self._lives = self._size - self._advance
        self._init, self._add = aggregation.init, aggregation.add

    def add(self, key: str, value: Any, time: int, horizon: int) -> bool:
        end, first = pane = self._pane_of(time, horizon)
        if first > end + self._lives:
            return False
        entry = "k|" + key
        held = self._get(entry)
        if held is not None and held[-1][0] == end == held[-1][1] == first:
            # The usual value: one of the newest pane.
            self._put(entry, [*held[:-1], [end, first, self._add(held[-1][2], value)]])
        else:
            self._put(entry, self._with(key, held, pane, (value,)))
        self._touch(key, pane)
        return True

    def _folded(
        self, key: str, held: list[Any] | None, places: Sequence[int], columns: Columns, late: list[int]
    ) -> list[Any] | None:
        _, values, times, horizons = columns
        by_pane: dict[tuple[int, int], list[Any]] = {}
        for place in places:
            end, first = pane = self._pane_of(times[place], horizons[place])
            if first > end + self._lives:
                late.append(place)
            elif pane in by_pane:
                by_pane[pane].append(values[place])
            else:
                by_pane[pane] = [values[place]]
        for pane, of_pane in by_pane.items():
            held = self._with(key, held, pane, of_pane)
            self._touch(key, pane)
        return held

    def _closed(self, key: str, held: list[Any], bound: int) -> tuple[list[Window], list[Any] | None]:
        due, *panes = held
        windows = self._windows(key, due, bound, panes)
        left = [] if bound == ALL_MS else [pane for pane in panes if pane[0] + self._lives > bound]
        if not left:
            return windows, None
        # The next window after the bound, or the first remaining one.
        upcoming = left[0][0] + (bound - left[0][0]) // self._advance * self._advance + self._advance
        return windows, [min([max(upcoming, first) for _, first, _ in left]), *left]

    def read(self, handle: Handle) -> Window | None:
        end, key = handle
        due, *panes = self._get(f"k|{key}") or [ALL_MS]
        return next(iter(self._windows(key, end, end, panes)), None) if due <= end else None

    def _pane_of(self, time: int, horizon: int) -> tuple[int, int]:
        """The ends of the pane of a time and of the first window that takes it and is not over."""
        advance = self._advance
        end = time - (time - self._offset) % advance + advance
        over = horizon - self.grace_ms
        return end, end if end > over else end + ((over - end) // advance + 1) * advance

    def _with(self, key: str, held: list[Any] | None, pane: tuple[int, int], values: Sequence[Any]) -> list[Any]:
        """The entry of a key with some values in one of its panes; the index follows."""
        end, first = pane
        panes: list[Pane] = [] if held is None else held[1:]
        place = bisect_right(panes, pane, key=_end_and_first)
        if place and panes[place - 1][0] == end and panes[place - 1][1] == first:
            panes[place - 1] = [end, first, self.aggregation.add_all(panes[place - 1][2], values)]
        else:
            panes.insert(place, [end, first, self.aggregation.add_all(self._init(), values)])
        return [self._set_due(key, held, first), *panes]

    def _touch(self, key: str, pane: tuple[int, int]) -> None:
        if self.touched is not None:
            end, first = pane
            self.touched.update((window, key) for window in range(first, end + self._lives + 1, self._advance))

    def _windows(self, key: str, since: int, through: int, panes: Sequence[Pane]) -> list[Window]:
        """The windows with an end from `since` to `through` that have a pane; `since` is the end of a window."""
        ends = [pane[0] for pane in panes]
        windows = []
        end, last = since, min(through, ends[-1] + self._lives) if panes else 0
        while end <= last:
            inside = panes[bisect_right(ends, end - self._size) : bisect_right(ends, end)]
            totals = [total for _, first, total in inside if first <= end]
            if totals:
                windows.append(Window(key, end - self._size, end, reduce(self.aggregation.merge, totals)))
                end += self._advance
            else:
                end = min([first for _, first, _ in panes if first > end], default=last + 1)
        return windows
