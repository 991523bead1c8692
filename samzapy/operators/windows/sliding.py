"""Sliding windows: for every value, the values of its key in the time before it.

The recent values of a key are one entry, `k|<key>`: `[due, done, times, values]`, in the order of time, those of one time
in the order of arrival. `due` is the key's time in the index, `done` the last time with a closed window. Values stay as
long as a window needs them that is not closed, or may still come.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

from samzapy.operators.event_time import Duration, milliseconds
from samzapy.operators.windows.aggregations import Aggregation
from samzapy.operators.windows.state import (
    ALL_MS,
    Closed,
    DueIndex,
    Handle,
    Store,
    Window,
    WindowDefinition,
    WindowState,
)


class Sliding(WindowDefinition):
    """A window of `size` ending with each value: of a value at T those with T - size < time <= T, so the window's end is
    T + 1 (ms). Values of the same time share a window.

    A window is folded anew when it closes, from the values themselves, which are one entry of the store a key: for keys
    with thousands of values in a window, `Hopping` is the better choice.
    """

    def __init__(self, size: Duration, *, grace: Duration = 0) -> None:
        """Raises ValueError for anything that is no duration."""
        self.size_ms = milliseconds(size, "size of Sliding", 1)
        self.grace_ms = milliseconds(grace, "grace of Sliding")

    @property
    def name(self) -> str:
        return f"windows of {self.size_ms} ms before each value"

    def state(self, store: Store, aggregation: Aggregation) -> SlidingState:
        return SlidingState(store, aggregation, self)


class SlidingState(WindowState):
    """The recent values of all keys."""

    def __init__(self, store: Store, aggregation: Aggregation, windows: Sliding) -> None:
        super().__init__(store, aggregation, windows.grace_ms)
        self._size = windows.size_ms
        self._due = DueIndex(store)

    def add(self, key: str, value: Any, time: int, horizon: int) -> bool:
        if time + 1 + self.grace_ms <= horizon:
            return False
        entry = "k|" + key
        due, done, times, values = self.store.get(entry) or (None, -1, [], [])
        place = bisect_right(times, time)
        if not place or times[place - 1] != time:
            self.opened += 1
        times = [*times[:place], time, *times[place:]]
        values = [*values[:place], value, *values[place:]]
        if due is None:
            due = time + 1
            self._due.add(due, key)
        elif time + 1 < due:
            self._due.move(key, due, time + 1)
            due = time + 1
        self.store.put(entry, [due, done, times, values])
        if self.touched is not None:
            self.touched.update((key, each) for each in times[place : bisect_left(times, time + self._size)])
        return True

    def close(self, bound: int, limit: int) -> Closed:
        keys = self._due.take(bound, limit)
        held = self.store.get_all([f"k|{key}" for key in keys])
        windows: list[Window] = []
        for key in keys:
            _, done, times, values = held[f"k|{key}"] or (0, -1, [], [])
            first, last = bisect_right(times, done), bisect_left(times, bound)
            windows += [self._window(key, time, times, values) for time in dict.fromkeys(times[first:last])]
            gone = len(times) if bound == ALL_MS else bisect_right(times, bound - self._size)
            if gone == len(times):
                self.store.delete(f"k|{key}")
                continue
            # With no window left to close, the values wait for later ones that may still come in time.
            due = times[last] + 1 if last < len(times) else times[-1] + self._size
            self._due.add(due, key)
            done = max(done, times[last - 1] if last else done)
            self.store.put(f"k|{key}", [due, done, times[gone:], values[gone:]])
        windows.sort(key=lambda window: (window.end, window.key))
        return Closed(windows, len(keys) == limit)

    def read(self, handle: Handle) -> Window | None:
        key, time = handle
        _, done, times, values = self.store.get(f"k|{key}") or (0, -1, [], [])
        return self._window(key, time, times, values) if time > done and time in times else None

    def _window(self, key: str, time: int, times: list[int], values: list[Any]) -> Window:
        accumulated = self.aggregation.init()
        for value in values[bisect_right(times, time - self._size) : bisect_right(times, time)]:
            accumulated = self.aggregation.add(accumulated, value)
        return Window(key, time + 1 - self._size, time + 1, accumulated)
