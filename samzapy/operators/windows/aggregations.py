"""What a window makes of its values: a fold, as the user writes it or ready.

What a fold has gathered is kept in the store between two messages, so it must be something that the store's value serde
writes and gives back as it was (with json and msgpack, lists and not tuples). `add` and `merge` return what is to be
kept; they may change their first argument, unless the job undoes failed messages (`task.error.process.policy`): then they
return a new object, or the store has `object.cache.mode=copy`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any


class Aggregation(ABC):
    """A fold: `add(add(init(), first), second)` and so on, in the order of arrival.

    Only what `add` returns is ever stored, so `init` may be None. `merge` is for sessions that grow together.
    """

    @property
    def name(self) -> str:
        """What it is called in the store; a store keeps what one aggregation has gathered."""
        return type(self).__name__

    @abstractmethod
    def init(self) -> Any:
        """What there is before the first value."""

    @abstractmethod
    def add(self, gathered: Any, value: Any) -> Any:
        """What there is after one more value; never None."""

    @abstractmethod
    def merge(self, one: Any, other: Any) -> Any:
        """What there is when the values of `other` come after those of `one`."""

    def result(self, gathered: Any) -> Any:
        """The window's value; by default what was gathered."""
        return gathered


class Count(Aggregation):
    """How many values."""

    def init(self) -> int:
        return 0

    def add(self, gathered: int, value: Any) -> int:
        return gathered + 1

    def merge(self, one: int, other: int) -> int:
        return one + other


class Sum(Aggregation):
    """The sum of numbers."""

    def init(self) -> int:
        return 0

    def add(self, gathered: Any, value: Any) -> Any:
        return gathered + value

    def merge(self, one: Any, other: Any) -> Any:
        return one + other


class Min(Aggregation):
    """The least value; of equal ones the first."""

    def init(self) -> None:
        return None

    def add(self, gathered: Any, value: Any) -> Any:
        return value if gathered is None or value < gathered else gathered

    def merge(self, one: Any, other: Any) -> Any:
        return min(one, other)


class Max(Aggregation):
    """The greatest value; of equal ones the first."""

    def init(self) -> None:
        return None

    def add(self, gathered: Any, value: Any) -> Any:
        return value if gathered is None or value > gathered else gathered

    def merge(self, one: Any, other: Any) -> Any:
        return max(one, other)


class Mean(Aggregation):
    """The arithmetic mean of numbers."""

    def init(self) -> list[Any]:
        return [0, 0]

    def add(self, gathered: list[Any], value: Any) -> list[Any]:
        return [gathered[0] + value, gathered[1] + 1]

    def merge(self, one: list[Any], other: list[Any]) -> list[Any]:
        return [one[0] + other[0], one[1] + other[1]]

    def result(self, gathered: list[Any]) -> float:
        return float(gathered[0] / gathered[1])


class Collect(Aggregation):
    """All values in a list, in the order of arrival. The list is written at each commit after which it has grown."""

    def init(self) -> list[Any]:
        return []

    def add(self, gathered: list[Any], value: Any) -> list[Any]:
        return [*gathered, value]

    def merge(self, one: list[Any], other: list[Any]) -> list[Any]:
        return one + other


class Top(Aggregation):
    """The `count` greatest values, the greatest first: numbers, or lists such as [score, item], which go by their first
    difference."""

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

    def add(self, gathered: list[Any], value: Any) -> list[Any]:
        if isinstance(value, tuple):  # json and msgpack give lists back, and the two do not compare
            value = list(value)
        if len(gathered) >= self._count and value <= gathered[-1]:
            return gathered
        return sorted([*gathered, value], reverse=True)[: self._count]

    def merge(self, one: list[Any], other: list[Any]) -> list[Any]:
        return sorted(one + other, reverse=True)[: self._count]


class Fold(Aggregation):
    """The user's own functions. Without `merge` it cannot be used for sessions.

    A store remembers it as `name`, so that another fold does not go on with what this one has gathered.
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

    def add(self, gathered: Any, value: Any) -> Any:
        return self._add(gathered, value)

    def merge(self, one: Any, other: Any) -> Any:
        if self._merge is None:
            raise TypeError(f"{self._name} has no merge, which sessions need")
        return self._merge(one, other)

    def result(self, gathered: Any) -> Any:
        return gathered if self._result is None else self._result(gathered)
