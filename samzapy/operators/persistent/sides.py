"""A total in two parts: what is before the last checkpoint time, and what is not, by interval.

    left     the total of the messages of an event time before the cut
    right    those of the cut and after, a total for each interval: {1_700_000_020_000: ...} has the messages of
             1_700_000_010_000 <= time < 1_700_000_020_000, with an interval of ten seconds

Gearpump keeps one `right`, so its next cut has to be past every message it has seen; with the intervals apart any
multiple of the interval may be the next, and a message with a clock that is wrong by a year holds back none but itself.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from samzapy.operators.persistent.monoids import Monoid

P = TypeVar("P")


class Sides(Generic[P]):
    """Both parts. A message is left if its time is before `cut`, which is so for good: late ones, that come after the
    cut was taken, belong to the next one."""

    __slots__ = ("_add", "_interval", "_monoid", "cut", "left", "right")

    def __init__(self, monoid: Monoid[P], interval_ms: int) -> None:
        self._monoid = monoid
        self._add = monoid.add
        self._interval = interval_ms
        self.cut = 0
        self.left: P = monoid.zero()
        self.right: dict[int, P] = {}

    def add(self, event_time: int, item: Any) -> None:
        """One more item, of a message of `event_time` (milliseconds; -1, for none, is before every cut)."""
        if event_time < self.cut:
            self.left = self._add(self.left, item)
            return
        end = event_time - event_time % self._interval + self._interval
        right = self.right
        right[end] = self._add(right[end] if end in right else self._monoid.zero(), item)

    @property
    def total(self) -> P:
        """Everything; not to be changed."""
        if not self.right:
            return self.left
        total = self._monoid.plus(self._monoid.zero(), self.left)
        for end in sorted(self.right):
            total = self._monoid.plus(total, self.right[end])
        return total

    def cut_at(self, time_ms: int) -> None:
        """Move what is before `time_ms`, which is a multiple of the interval and not before the last cut, to the left."""
        for end in sorted(end for end in self.right if end <= time_ms):
            self.left = self._monoid.plus(self.left, self.right.pop(end))
        self.cut = time_ms

    def to_plain(self) -> dict[str, Any]:
        """Both parts, as a checkpoint keeps them."""
        plain = self._monoid.to_plain
        right = [(end, plain(total)) for end, total in sorted(self.right.items())]
        return {"cut": self.cut, "left": plain(self.left), "right": right}

    def restore(self, plain: Any) -> None:
        """The inverse. Raises KeyError, TypeError or ValueError for what is none."""
        found = self._monoid.from_plain
        self.cut = int(plain["cut"])
        self.left = found(plain["left"])
        self.right = {int(end): found(total) for end, total in plain["right"]}
