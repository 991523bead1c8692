"""The states of a PersistentTask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from samzapy.operators.persistent.monoids import Monoid
from samzapy.operators.persistent.sides import Sides

T = TypeVar("T")
P = TypeVar("P")


class PersistentState(ABC, Generic[T]):
    """A total that is folded from messages, and can be had as it was before a checkpoint time.

    The user's part is `update` and `value`; the rest is called by the task. Which side of a cut an update is on is told
    by the time of its *message*, whatever `timestamp` it is given: so it is the same when the message is read again.
    """

    @abstractmethod
    def update(self, timestamp: int, item: Any) -> None:
        """Add an item, whose time is `timestamp` in milliseconds since 1970 (of use to windows). Only in `process_message`,
        as what is not part of a message could not be replayed: RuntimeError elsewhere."""

    @property
    @abstractmethod
    def value(self) -> T:
        """The total of everything so far, updates of the current message included. Not to be changed."""

    @property
    @abstractmethod
    def cut(self) -> Any:
        """The part that is before the last checkpoint time. Not to be changed, and not to be kept."""

    @abstractmethod
    def open(self, interval_ms: int) -> None:
        """Start empty; checkpoint times will be multiples of `interval_ms`."""

    @abstractmethod
    def begin(self, event_time: int) -> None:
        """The updates that follow are those of a message of this time, -1 for none."""

    @abstractmethod
    def settle(self) -> None:
        """The message is processed: its updates count."""

    @abstractmethod
    def roll_back(self) -> None:
        """The message has failed: its updates are forgotten."""

    @abstractmethod
    def advance(self, clock_ms: int) -> None:
        """The task's clock has come to `clock_ms`."""

    @abstractmethod
    def checkpoint(self, time_ms: int) -> Any:
        """Make `time_ms`, not before the last one, the cut; returns the state of this moment, both sides of the cut, in plain values."""

    @abstractmethod
    def recover(self, plain: Any) -> None:
        """Become what `checkpoint` has returned. Raises KeyError, TypeError or ValueError for what is none."""


class MonoidState(PersistentState[T], Generic[T, P]):
    """What states over monoids share: updates wait until their message is done, then are added on its side."""

    def __init__(self, monoid: Monoid[P]) -> None:
        self._monoid = monoid
        self._sides = Sides(monoid, 1)
        self._time: int | None = None
        self._waiting: list[Any] = []

    def open(self, interval_ms: int) -> None:
        self._sides = Sides(self._monoid, interval_ms)

    def begin(self, event_time: int) -> None:
        self._time = event_time

    def settle(self) -> None:
        time = self._time
        assert time is not None
        add = self._sides.add
        for item in self._waiting:
            add(time, item)
        self._waiting.clear()
        self._time = None

    def roll_back(self) -> None:
        self._waiting.clear()
        self._time = None

    def advance(self, clock_ms: int) -> None:
        """Time alone changes nothing here."""

    def checkpoint(self, time_ms: int) -> Any:
        self._sides.cut_at(time_ms)
        return self._sides.to_plain()

    def recover(self, plain: Any) -> None:
        self._sides.restore(plain)

    def _wait(self, item: Any) -> None:
        if self._time is None:
            raise RuntimeError("a persistent state is updated in process_message only: nothing else can be replayed")
        self._waiting.append(item)

    def _total(self) -> P:
        """Everything, the waiting updates included."""
        if not self._waiting:
            return self._sides.total
        total = self._monoid.plus(self._monoid.zero(), self._sides.total)
        for item in self._waiting:
            total = self._monoid.add(total, item)
        return total


class NonWindowState(MonoidState[T, T]):
    """A state with no time or other boundary."""

    def update(self, timestamp: int, item: Any) -> None:
        self._wait(item)

    @property
    def value(self) -> T:
        return self._total()

    @property
    def cut(self) -> T:
        """The total of what is before the last checkpoint time."""
        return self._sides.left
