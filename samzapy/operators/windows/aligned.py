"""Tumbling and hopping windows: the same stretches of time for every key.

A window of a key is one entry, `w|<end>|<key>`, with the accumulated value. So the windows that end first come first,
and no index is needed. Hopping windows that overlap much are kept in panes instead (see `panes`), unless the order of
their values counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any

from samzapy.operators.event_time import Duration, milliseconds
from samzapy.operators.folds import Aggregation
from samzapy.operators.windows.panes import PanedState
from samzapy.operators.windows.state import (
    Closed,
    Handle,
    Store,
    TimeOrdered,
    Window,
    WindowDefinition,
    WindowState,
    definition_of,
    known_definitions,
)

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
        return PanedState(store, aggregation, self.grace_ms, self.size_ms, self.advance_ms, self.offset_ms)


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
        self._by_end = TimeOrdered(store, "w")
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
                    self.opened += 1
                    self._opens(entry)
                put(entry, add(accumulated, value))
                taken = True
                if self.touched is not None:
                    self.touched.add((entry,))
        return taken

    def add_all(
        self, keys: Sequence[str], values: Sequence[Any], times: Sequence[int], horizons: Sequence[int]
    ) -> list[int]:
        offset, length, windows = self._offset, self._stretch, self._windows
        taken: dict[str, list[Any]] = {}
        late = []
        for place, (key, value, time, horizon) in enumerate(zip(keys, values, times, horizons, strict=True)):
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
                self.opened += 1
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
        found = self._windows[stretch] = tuple((end + self.grace_ms, f"w|{end:014d}|") for end in ends)
        return found

    def close(self, bound: int, limit: int) -> Closed:
        taken = self._by_end.take(bound, limit)
        windows = [Window(key, end - self._size, end, accumulated) for end, key, accumulated in taken]
        return Closed(windows, len(taken) == limit)

    def read(self, handle: Handle) -> Window | None:
        (entry,) = handle
        accumulated = self._get(entry)
        end = int(entry[2:16])
        return None if accumulated is None else Window(entry[17:], end - self._size, end, accumulated)
