"""A state bounded by a time window that slides with the task's clock."""

from __future__ import annotations

from math import gcd
from typing import Any, TypeVar

from samzapy.operators.persistent.monoids import Group, Keyed, Monoid
from samzapy.operators.persistent.state import MonoidState

T = TypeVar("T")


class WindowState(MonoidState[T, dict[int, T]]):
    """The total of the messages in the window that is open: [start, start + size), start a multiple of `step_ms`, the
    first whose end is past the task's clock.

    Messages past its end wait for the windows they are in; those before its start are late, and counted in `late`. A
    message in the open window was never late, since the window only goes forward: so the value is the total of *every*
    message with a `timestamp` in it, in whatever order they came, and however often the task was started again.
    With a Group a slide costs what leaves the window, with another monoid what stays.

    Totals are kept by interval of gcd(size, step), whichever side of a checkpoint time they are on.
    """

    def __init__(self, monoid: Monoid[T], size_ms: int, step_ms: int | None = None) -> None:
        """`step_ms`: how far the window moves at a time; its size (tumbling) if not given. Raises ValueError."""
        step = size_ms if step_ms is None else step_ms
        if not 0 < step <= size_ms:
            raise ValueError(f"a window needs 0 < step <= size, got size {size_ms} ms and step {step} ms")
        super().__init__(Keyed(monoid))
        self._each = monoid
        self._size, self._step, self._grain = size_ms, step, gcd(size_ms, step)
        self._start: int | None = None
        self._current: T = monoid.zero()
        self.late = 0

    @property
    def window(self) -> tuple[int, int] | None:
        """(start, end) of the open window in milliseconds, the end not in it; None before the clock has a time."""
        return None if self._start is None else (self._start, self._start + self._size)

    def update(self, timestamp: int, item: Any) -> None:
        self._wait((timestamp - timestamp % self._grain, item))

    def settle(self) -> None:
        if self._start is not None:
            within = range(self._start, self._start + self._size)
            for start, item in self._waiting:
                if start in within:
                    self._current = self._each.add(self._current, item)
            before = len(self._waiting)
            self._waiting = [each for each in self._waiting if each[0] >= self._start]
            self.late += before - len(self._waiting)
        super().settle()

    @property
    def value(self) -> T:
        """The total of the open window; `zero` before the clock has a time."""
        if not self._waiting or self._start is None:
            return self._current
        return self._fold(self._total(), range(self._start, self._start + self._size))

    @property
    def cut(self) -> dict[int, T]:
        """The totals of what is before the last checkpoint time, by start of their interval, from the open window on."""
        return self._sides.left

    def advance(self, clock_ms: int) -> None:
        start = ((clock_ms - self._size) // self._step + 1) * self._step
        if self._start is not None and start <= self._start:
            return
        before, self._start = self._start, start
        gone = self._expire(start)
        within = range(start, start + self._size)
        if before is None or start >= before + self._size or not isinstance(self._each, Group):
            self._current = self._fold(self._sides.total, within)
            return
        total = self._sides.total
        for leaving in gone:
            if leaving[0] >= before:
                self._current = self._each.minus(self._current, leaving[1])
        self._current = self._plus_all(self._current, total, range(before + self._size, within.stop))

    def checkpoint(self, time_ms: int) -> Any:
        return {"sides": super().checkpoint(time_ms), "start": self._start, "late": self.late}

    def recover(self, plain: Any) -> None:
        super().recover(plain["sides"])
        self._start, self.late = plain["start"], int(plain["late"])
        if self._start is not None:
            self._current = self._fold(self._sides.total, range(self._start, self._start + self._size))

    def _expire(self, start: int) -> list[tuple[int, T]]:
        """Drop the intervals before `start`, and return them."""
        gone: list[tuple[int, T]] = []
        right = self._sides.right
        for totals in (self._sides.left, *right.values()):
            gone += [(old, totals.pop(old)) for old in [interval for interval in totals if interval < start]]
        for end in [end for end, totals in right.items() if not totals]:
            del right[end]
        return gone

    def _fold(self, totals: dict[int, T], within: range) -> T:
        return self._plus_all(self._each.zero(), totals, within)

    def _plus_all(self, total: T, totals: dict[int, T], within: range) -> T:
        for start, each in totals.items():
            if start in within:
                total = self._each.plus(total, each)
        return total
