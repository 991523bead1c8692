"""Folds the values of a window: counts, sums and so on, and the user's own folds.

1. The store keeps the accumulated value between two messages, so the store's value serde has to write it and read it
   back unchanged (with json and msgpack, lists and not tuples).
2. `add` and `merge` return the new accumulated value. They may change their first argument, unless the job undoes
   failed messages (`task.error.process.policy`): then they return a new object, or the store has
   `object.cache.mode=copy`.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any


class Aggregation(ABC):
    """A fold: `add(add(init(), first), second)` and so on, in the order of arrival.

    Only results of `add` are stored, so `init` may be None. `merge` is for sessions that join, and for hopping windows
    that fold a value once.
    """

    #: Whether the values may be folded in any order and grouping (floats may differ in their last digits), and `merge`
    #: changes none of its arguments. Hopping windows that overlap much then fold a value once, not once for each
    #: window.
    in_any_order = False

    @property
    def name(self) -> str:
        """The aggregation's name in the store. A store is for one aggregation."""
        return type(self).__name__

    @abstractmethod
    def init(self) -> Any:
        """The accumulated value before the first value."""

    @abstractmethod
    def add(self, accumulated: Any, value: Any) -> Any:
        """The accumulated value after one more value; never None."""

    def add_all(self, accumulated: Any, values: Sequence[Any]) -> Any:
        """The accumulated value after some more values: like `add` of each in order. A subclass that overrides `add` of
        a class with an `add_all` of its own overrides both."""
        return reduce(self.add, values, accumulated)

    @abstractmethod
    def merge(self, one: Any, other: Any) -> Any:
        """The accumulated value of the values of `one`, followed by the values of `other`."""

    def result(self, accumulated: Any) -> Any:
        """The result of the window; by default the accumulated value."""
        return accumulated


class Count(Aggregation):
    """The number of values."""

    in_any_order = True

    def init(self) -> int:
        return 0

    def add(self, accumulated: int, value: Any) -> int:
        return accumulated + 1

    def add_all(self, accumulated: int, values: Sequence[Any]) -> int:
        return accumulated + len(values)

    def merge(self, one: int, other: int) -> int:
        return one + other


class Sum(Aggregation):
    """The sum of numbers."""

    in_any_order = True

    def init(self) -> int:
        return 0

    def add(self, accumulated: Any, value: Any) -> Any:
        return accumulated + value

    def add_all(self, accumulated: Any, values: Sequence[Any]) -> Any:
        # Not `sum`, which rounds floats otherwise than one addition after the other.
        return reduce(operator.add, values, accumulated)

    def merge(self, one: Any, other: Any) -> Any:
        return one + other


class Min(Aggregation):
    """The least value; of equal ones the first."""

    in_any_order = True

    def init(self) -> None:
        return None

    def add(self, accumulated: Any, value: Any) -> Any:
        if accumulated is None:
            return _present(value)
        return min(accumulated, value)

    def add_all(self, accumulated: Any, values: Sequence[Any]) -> Any:
        return _present(min(values)) if accumulated is None else min(accumulated, *values)

    def merge(self, one: Any, other: Any) -> Any:
        return min(one, other)


class Max(Aggregation):
    """The greatest value; of equal ones the first."""

    in_any_order = True

    def init(self) -> None:
        return None

    def add(self, accumulated: Any, value: Any) -> Any:
        if accumulated is None:
            return _present(value)
        return max(accumulated, value)

    def add_all(self, accumulated: Any, values: Sequence[Any]) -> Any:
        return _present(max(values)) if accumulated is None else max(accumulated, *values)

    def merge(self, one: Any, other: Any) -> Any:
        return max(one, other)


def _present(value: Any) -> Any:
    """The first value of a Min or Max. Raises TypeError for None, which later values do not compare with either."""
    if value is None:
        raise TypeError("Min and Max need values that compare, got None")
    return value


class Mean(Aggregation):
    """The arithmetic mean of numbers."""

    in_any_order = True

    def init(self) -> list[Any]:
        return [0, 0]

    def add(self, accumulated: list[Any], value: Any) -> list[Any]:
        return [accumulated[0] + value, accumulated[1] + 1]

    def add_all(self, accumulated: list[Any], values: Sequence[Any]) -> list[Any]:
        return [reduce(operator.add, values, accumulated[0]), accumulated[1] + len(values)]

    def merge(self, one: list[Any], other: list[Any]) -> list[Any]:
        return [one[0] + other[0], one[1] + other[1]]

    def result(self, accumulated: list[Any]) -> float:
        return float(accumulated[0] / accumulated[1])


class Collect(Aggregation):
    """All values in a list, in the order of arrival. The list is written at each commit after which it has grown."""

    def init(self) -> list[Any]:
        return []

    def add(self, accumulated: list[Any], value: Any) -> list[Any]:
        return [*accumulated, value]

    def add_all(self, accumulated: list[Any], values: Sequence[Any]) -> list[Any]:
        return [*accumulated, *values]

    def merge(self, one: list[Any], other: list[Any]) -> list[Any]:
        return one + other


class Top(Aggregation):
    """The `count` greatest values, the greatest first: numbers, or lists such as [score, item], which go by their first
    difference."""

    in_any_order = True

    def __init__(self, count: int) -> None:
        """Raises ValueError for a count below one."""
        if type(count) is not int or count < 1:
            raise ValueError(f"Top: an integer >= 1, got {count!r}")
        self._count = count

    @property
    def name(self) -> str:
        return f"Top({self._count})"

    def init(self) -> list[Any]:
        return []

    def add(self, accumulated: list[Any], value: Any) -> list[Any]:
        if isinstance(value, tuple):  # json and msgpack give lists back, and the two do not compare
            value = list(value)
        if len(accumulated) >= self._count and value <= accumulated[-1]:
            return accumulated
        return sorted([*accumulated, value], reverse=True)[: self._count]

    def add_all(self, accumulated: list[Any], values: Sequence[Any]) -> list[Any]:
        added = [list(value) if isinstance(value, tuple) else value for value in values]
        return sorted([*accumulated, *added], reverse=True)[: self._count]

    def merge(self, one: list[Any], other: list[Any]) -> list[Any]:
        return sorted(one + other, reverse=True)[: self._count]


class Fold(Aggregation):
    """A fold with the user's own functions. Without `merge` it cannot be used for sessions.

    A store remembers the fold's `name`, so that no other fold continues with its accumulated values.
    """

    def __init__(
        self,
        init: Callable[[], Any],
        add: Callable[[Any, Any], Any],
        merge: Callable[[Any, Any], Any] | None = None,
        result: Callable[[Any], Any] | None = None,
        name: str = "Fold",
    ) -> None:
        self._init = init
        self._add = add
        self._merge = merge
        self._result = result
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    @property
    def merges(self) -> bool:
        """Whether it has a `merge`."""
        return self._merge is not None

    def init(self) -> Any:
        return self._init()

    def add(self, accumulated: Any, value: Any) -> Any:
        return self._add(accumulated, value)

    def merge(self, one: Any, other: Any) -> Any:
        if self._merge is None:
            raise TypeError(f"{self._name} has no merge, which sessions need")
        return self._merge(one, other)

    def result(self, accumulated: Any) -> Any:
        return accumulated if self._result is None else self._result(accumulated)
