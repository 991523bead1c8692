"""The states of a PersistentTask: a fold of its messages, in two parts around the last checkpoint time.

    left     the total of the messages of an event time before the cut
    right    the messages at the cut and after, a total for each interval: {1_700_000_020_000: ...} has the messages of
             1_700_000_010_000 <= time < 1_700_000_020_000, with an interval of ten seconds

Gearpump keeps one `right`, so its next cut has to be past every message it has seen. With separate intervals any
multiple of the interval may be the next cut, and a message with a time that is wrong by a year delays no other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from math import gcd
from typing import Any, Generic, TypeVar

from samzapy.operators.columns import Column, Messages, columns, runs_of_partitions, times_of
from samzapy.operators.folds import Keyed, Monoid, grouped, plus_each

T = TypeVar("T")
P = TypeVar("P")


class Sides(Generic[P]):
    """Both parts. A message is on the left if its time is before `cut`. That never changes: a late message, which comes
    after the cut was taken, belongs to the next cut."""

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

    def parts_of(self, updates: Sequence[tuple[int, Any]]) -> Iterable[tuple[int | None, P]]:
        """The sums of some updates (event time, item) among themselves: on the left (None), and by interval on the
        right."""
        cut, interval, monoid = self.cut, self._interval, self._monoid
        ends = [None if time < cut else time - time % interval + interval for time, _ in updates]
        by_end = grouped(zip(ends, [item for _, item in updates], strict=True))
        return [(end, monoid.add_all(monoid.zero(), items)) for end, items in by_end.items()]

    def add_parts(self, parts: Iterable[tuple[int | None, P]]) -> None:
        """Add the result of `parts_of`, completely or not at all. Raises TaskFailed for totals that are half
        changed."""
        changed: dict[int | None, P] = dict(parts)
        held = [end for end in changed if end is None or end in self.right]
        pairs = [(self.left if end is None else self.right[end], changed[end]) for end in held]
        changed.update(zip(held, plus_each(self._monoid, pairs), strict=True))
        self.left = changed.pop(None, self.left)
        self.right.update(changed)  # type: ignore[arg-type]  # without None

    @property
    def total(self) -> P:
        """The total of both parts. Do not change it."""
        if not self.right:
            return self.left
        total = self._monoid.plus(self._monoid.zero(), self.left)
        for end in sorted(self.right):
            total = self._monoid.plus(total, self.right[end])
        return total

    def cut_at(self, time_ms: int) -> None:
        """Move everything before `time_ms` to the left. It is a multiple of the interval, and not before the last
        cut."""
        for end in sorted(end for end in self.right if end <= time_ms):
            self.left = self._monoid.plus(self.left, self.right.pop(end))
        self.cut = time_ms

    def to_plain(self) -> dict[str, Any]:
        """Both parts, in the form of a checkpoint."""
        plain = self._monoid.to_plain
        right = [(end, plain(total)) for end, total in sorted(self.right.items())]
        return {"cut": self.cut, "left": plain(self.left), "right": right}

    def restore(self, plain: Any) -> None:
        """The inverse of `to_plain`. Raises KeyError, TypeError or ValueError for any other value."""
        from_plain = self._monoid.from_plain
        self.cut = int(plain["cut"])
        self.left = from_plain(plain["left"])
        self.right = {int(end): from_plain(total) for end, total in plain["right"]}


class PersistentState(ABC, Generic[T]):
    """A total that is folded from messages, and that keeps the part before a checkpoint time apart.

    The user calls `update`, `add_all` and `value`; the task calls the rest. Updates wait until their message is done.
    The time of the *message* decides on which side of a cut an update is, whatever `timestamp` it is given. So the side
    is the same when the message is read again.
    """

    def __init__(self, monoid: Monoid[Any]) -> None:
        self._monoid = monoid
        self._sides: Sides[Any] = Sides(monoid, 1)
        self._time: int | None = None
        self._in_batch = False
        #: (event time, item) of each waiting update.
        self._waiting: list[tuple[int, Any]] = []

    def update(self, timestamp: int, item: Any) -> None:
        """Add an item with the time `timestamp`, in milliseconds since 1970 (of use to windows). Only in
        `process_message`: an update outside of a message could not be replayed, and raises RuntimeError."""
        if self._time is None:
            raise RuntimeError("a persistent state is updated in process_message only: nothing else can be replayed")
        self._waiting.append((self._time, item))

    def add_all(self, batch: Messages, value: Column = None, time: Column = None) -> None:
        """Like `update` with an item of each message of a batch; in `process_messages` only, else RuntimeError.

        `value`: the items, a function of a message's content or a column; by default its content. `time`: the
        timestamps likewise; by default the event times. The total of floats may differ in the last digits from the
        total of `update`s.
        """
        if not self._in_batch:
            raise RuntimeError("add_all is for process_messages of a PersistentBatchTask: use update for one message")
        for run, first in runs_of_partitions(batch):
            _, items, times = columns(run, first, len(batch), (None, value, time))
            self._waiting += zip(times_of(run), self._items(times, items), strict=True)

    @property
    @abstractmethod
    def value(self) -> T:
        """The total so far, including the updates of the current message. Do not change it."""

    @property
    def cut(self) -> Any:
        """The part before the last checkpoint time. Neither change nor keep it."""
        return self._sides.left

    def open(self, interval_ms: int) -> None:
        """Start empty; checkpoint times will be multiples of `interval_ms`."""
        self._sides = Sides(self._monoid, interval_ms)

    def begin(self, event_time: int) -> None:
        """Begin a message of this time, -1 for none: the updates that follow belong to it."""
        self._time = event_time

    def begin_batch(self) -> None:
        """Begin a batch, which gets all updates of `add_all` until `settle`."""
        self._in_batch = True

    def settle(self) -> None:
        """The message is processed: its updates count. Updates that cannot be added to each other raise before anything
        has changed."""
        if len(self._waiting) == 1:
            time, item = self._waiting[0]
            self._sides.add(time, item)  # a call with a star costs twice as much
        else:
            self._sides.add_parts(self._sides.parts_of(self._waiting))
        self.roll_back()

    def roll_back(self) -> None:
        """Forget the waiting updates: the message has failed, or they count."""
        self._waiting = []
        self._time = None
        self._in_batch = False

    def advance(self, clock_ms: int) -> None:
        """The task's clock has come to `clock_ms`."""

    def checkpoint(self, time_ms: int) -> Any:
        """Make `time_ms`, which is not before the last cut, the cut; returns the state of this moment, both sides of
        the cut, in plain values."""
        self._sides.cut_at(time_ms)
        return self._sides.to_plain()

    def recover(self, plain: Any) -> None:
        """Take over a state that `checkpoint` has returned. Raises KeyError, TypeError or ValueError for any other
        value."""
        self._sides.restore(plain)

    def _items(self, times: Sequence[int], items: Sequence[Any]) -> Iterable[Any]:
        """The items of the monoid that a batch adds."""
        return items

    def _total(self) -> Any:
        """The total, including the waiting updates."""
        if not self._waiting:
            return self._sides.total
        total = self._monoid.plus(self._monoid.zero(), self._sides.total)
        return self._monoid.add_all(total, [item for _, item in self._waiting])


class NonWindowState(PersistentState[T]):
    """A state with no time or other boundary."""

    @property
    def value(self) -> T:
        total: T = self._total()
        return total


class WindowState(PersistentState[T]):
    """The total of the messages in the open time window, which slides with the task's clock: [start, start + size). Its
    start is the first multiple of `step_ms` with an end after the clock.

    1. Messages past its end wait for their windows. Messages before its start are late, and counted in `late`.
    2. The window only moves forward, so a message in the open window was never late. The value is the total of *every*
       message with a `timestamp` in the window, independent of their order and of restarts.
    3. Totals are kept by interval of gcd(size, step), on either side of a checkpoint time: `cut` has them by the start
       of their interval. So a checkpoint of windows with another size or step is refused.
    """

    def __init__(self, monoid: Monoid[T], size_ms: int, step_ms: int | None = None) -> None:
        """`step_ms`: the distance by which the window moves at a time; its size (tumbling) if not given. Raises
        ValueError."""
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
        super().update(timestamp, (timestamp - timestamp % self._grain, item))

    def settle(self) -> None:
        start, waiting = self._start, self._waiting
        if start is None or not waiting:
            super().settle()
            return
        self._waiting = [update for update in waiting if update[1][0] >= start]
        current = [item for _, (interval, item) in self._waiting if interval < start + self._size]
        late = len(waiting) - len(self._waiting)
        try:
            if current:
                self._current = self._each.add_all(self._current, current)
            super().settle()
        except Exception:
            # The sides are as they were, or the task has failed.
            self._current = self._open_total(self._sides.total)
            raise
        self.late += late

    def _items(self, times: Sequence[int], items: Sequence[Any]) -> Iterable[Any]:
        grain = self._grain
        return zip([time - time % grain for time in times], items, strict=True)

    @property
    def value(self) -> T:
        """The total of the open window; `zero` before the clock has a time."""
        return self._current if self._start is None or not self._waiting else self._open_total(self._total())

    def advance(self, clock_ms: int) -> None:
        start = ((clock_ms - self._size) // self._step + 1) * self._step
        if self._start is not None and start <= self._start:
            return
        self._start = start
        right = self._sides.right
        for totals in (self._sides.left, *right.values()):
            for interval in [interval for interval in totals if interval < start]:
                del totals[interval]
        for end in [end for end, totals in right.items() if not totals]:
            del right[end]
        self._current = self._open_total(self._sides.total)

    def checkpoint(self, time_ms: int) -> Any:
        lengths = [self._size, self._step]
        return {"sides": super().checkpoint(time_ms), "start": self._start, "late": self.late, "lengths": lengths}

    def recover(self, plain: Any) -> None:
        sides = plain["sides"]
        # A checkpoint of an earlier version has no lengths.
        size, step = plain.get("lengths", (self._size, self._step))
        if (size, step) != (self._size, self._step):
            raise ValueError(
                f"totals of windows of {size} ms every {step} ms, the task wants {self._size} ms every {self._step} ms"
            )
        super().recover(sides)
        self._start, self.late = plain["start"], int(plain["late"])
        if self._start is not None:
            self._current = self._open_total(self._sides.total)

    def _open_total(self, totals: dict[int, T]) -> T:
        """The total of the intervals of the open window."""
        assert self._start is not None
        total, end = self._each.zero(), self._start + self._size
        for start, part in totals.items():
            if self._start <= start < end:
                total = self._each.plus(total, part)
        return total
