"""Hopping windows that overlap much, by panes: a value is folded once, and a window is merged of its panes when it
closes.

A pane is a stretch of time as long as the advance. The panes of a key are one entry, `k|<key>`: `[due, [end, first,
accumulated], ...]`, in the order of their ends. `due` is the end of the next window to close, and the key's time in the
index. `first` is the end of the first window that takes the pane: `end` itself, or later for values that were too late
for some of their windows.

A window is merged in the same order whenever it closes, so a restart does not change a sum of floats: the panes up to
the last multiple of the size from right to left, the later ones from left to right, then the panes of late values.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from samzapy.operators.folds import Aggregation
from samzapy.operators.windows.state import (
    ALL_MS,
    Handle,
    KeyedState,
    Store,
    Window,
    places_by_key,
)

#: The end of a pane, the end of the first window that takes it, and its accumulated value.
Pane = list[Any]

_end_and_first = itemgetter(0, 1)


class PanedState(KeyedState):
    """The panes of the open windows of all keys."""

    layout = ", in panes"

    def __init__(
        self, store: Store, aggregation: Aggregation, grace_ms: int, size_ms: int, advance_ms: int, offset_ms: int
    ) -> None:
        """The size is a multiple of the advance."""
        super().__init__(store, aggregation, grace_ms)
        self._size, self._advance, self._offset = size_ms, advance_ms, offset_ms
        #: From the end of a pane to the end of its last window.
        self._lives = size_ms - advance_ms
        self._init, self._add = aggregation.init, aggregation.add

    def add(self, key: str, value: Any, time: int, horizon: int) -> bool:
        end, first = self._pane_of(time, horizon)
        if first > end + self._lives:
            return False
        entry = "k|" + key
        held = self._get(entry)
        if held is not None and held[-1][0] == end == held[-1][1] == first:
            # The usual value: one of the newest pane.
            self._put(entry, [*held[:-1], [end, first, self._add(held[-1][2], value)]])
        else:
            self._put(entry, self._with(key, held, (end, first), (value,)))
        self._touch(key, end, first)
        return True

    def add_all(
        self, keys: Sequence[str], values: Sequence[Any], times: Sequence[int], horizons: Sequence[int]
    ) -> list[int]:
        by_key = places_by_key(keys)
        found = self.store.get_all(["k|" + key for key in by_key])
        lives = self._lives
        late: list[int] = []
        changed: dict[str, list[Any]] = {}
        for (key, places), (entry, held) in zip(by_key.items(), found.items(), strict=True):
            taken: dict[tuple[int, int], list[Any]] = {}
            for place in places:
                end, first = self._pane_of(times[place], horizons[place])
                if first > end + lives:
                    late.append(place)
                elif (end, first) in taken:
                    taken[end, first].append(values[place])
                else:
                    taken[end, first] = [values[place]]
            after = held
            for pane, each in taken.items():
                after = self._with(key, after, pane, each)
                self._touch(key, *pane)
            if after is not None and taken:
                changed[entry] = after
        self.store.put_all(changed)
        return sorted(late)

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
        add_all = self.aggregation.add_all
        if held is None:
            self.opened += 1
            self._due.add(first, key)
            return [first, [end, first, add_all(self._init(), values)]]
        panes: list[Pane] = held[1:]
        place = bisect_right(panes, pane, key=_end_and_first)
        if place and panes[place - 1][0] == end and panes[place - 1][1] == first:
            panes[place - 1] = [end, first, add_all(panes[place - 1][2], values)]
        else:
            self.opened += 1
            panes.insert(place, [end, first, add_all(self._init(), values)])
        due = min(held[0], first)
        if due < held[0]:
            self._due.move(key, held[0], due)
        return [due, *panes]

    def _touch(self, key: str, end: int, first: int) -> None:
        if self.touched is not None:
            self.touched.update((each, key) for each in range(first, end + self._lives + 1, self._advance))

    def _windows(self, key: str, since: int, through: int, panes: Sequence[Pane]) -> list[Window]:
        """The windows with an end from `since` to `through` that have a pane; `since` is the end of a window."""
        late = [pane for pane in panes if pane[0] != pane[1]]
        merged = MergedPanes([pane for pane in panes if pane[0] == pane[1]], self.aggregation.merge)
        found = []
        end, last = since, min(through, panes[-1][0] + self._lives) if panes else 0
        while end <= last:
            middle = end - (end - self._offset) % self._size
            accumulated = merged.of(end - self._size, middle, end)
            for at, first, held in late:
                if first <= end < at + self._size:
                    accumulated = held if accumulated is None else self.aggregation.merge(accumulated, held)
            if accumulated is None:
                # Nothing before the next pane.
                end = min([first for _, first, _ in panes if first > end], default=last + 1)
                continue
            found.append(Window(key, end - self._size, end, accumulated))
            end += self._advance
        return found


class MergedPanes:
    """Merges stretches of panes, each with a middle. Stretches with the same middle share their parts, and each part is
    merged in the same order wherever its stretch begins or ends."""

    __slots__ = ("_ends", "_heads", "_merge", "_panes", "_tails")

    def __init__(self, panes: Sequence[Pane], merge: Callable[[Any, Any], Any]) -> None:
        """`panes`: in the order of their ends."""
        self._ends = [pane[0] for pane in panes]
        self._panes = panes
        self._merge = merge
        #: From a pane to the next middle, and from the last middle to a pane.
        self._tails: dict[int, Any] = {}
        self._heads: dict[int, Any] = {}

    def of(self, after: int, middle: int, through: int) -> Any:
        """The panes with ends from `after`, exclusive, to `through`; None if there are none."""
        first, half, last = (bisect_right(self._ends, end) for end in (after, middle, through))
        if first == half:
            return None if half == last else self._head(half, last - 1)
        tail = self._tail(first, half - 1)
        return tail if half == last else self._merge(tail, self._head(half, last - 1))

    def _tail(self, first: int, last: int) -> Any:
        """Panes merged from right to left."""
        tails = self._tails
        if first not in tails:
            tails[last] = self._panes[last][2]
            for place in range(last - 1, first - 1, -1):
                tails[place] = self._merge(self._panes[place][2], tails[place + 1])
        return tails[first]

    def _head(self, first: int, last: int) -> Any:
        """Panes merged from left to right."""
        heads = self._heads
        if last not in heads:
            heads[first] = self._panes[first][2]
            for place in range(first + 1, last + 1):
                if place not in heads:
                    heads[place] = self._merge(heads[place - 1], self._panes[place][2])
        return heads[last]
