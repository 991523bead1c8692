"""Folds of values: the aggregations of windows, and the monoids of persistent states, which follow Twitter's Algebird.

`add` and `merge` return the new accumulated value. They may change their first argument in place. In a job that undoes
failed messages (`task.error.process.policy`) an aggregation of windows returns a new object instead, or its store has
`object.cache.mode=copy`. Every ready fold of windows returns a new object.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import reduce
from typing import Any, ClassVar, Generic, TypeVar

from samzapy.errors import TaskFailed
from samzapy.storage.views.sketches import EMPTY_TEXT, HyperLogLogSerde, library

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
N = TypeVar("N", int, float)


class Aggregation(ABC):
    """A fold: `add(add(init(), first), second)` and so on, in the order of arrival.

    A store keeps the accumulated value, so its serde has to write it and read it back unchanged (with json and msgpack,
    lists and not tuples). Only results of `add` are stored, so `init` may be None. `merge` is for sessions that join,
    and for hopping windows that fold a value once.
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
        """The accumulated value after some more values, at least one: like `add` of each in order. A subclass that
        overrides `add` of a class with an `add_all` of its own overrides both."""
        return reduce(self.add, values, accumulated)

    @abstractmethod
    def merge(self, one: Any, other: Any) -> Any:
        """The accumulated value of the values of `one`, followed by the values of `other`."""

    def result(self, accumulated: Any) -> Any:
        """The result of the window; by default the accumulated value."""
        return accumulated


class Monoid(Aggregation, Generic[T]):
    """An associative and commutative `plus` with an identity `zero`: messages of several partitions come in any order,
    and a state separates the messages before a checkpoint time from those after it. An `add` that raises leaves its
    total unchanged.

    A checkpoint holds only plain values: None, bool, int, float, str, bytes, and tuples, lists and dicts of these;
    lists come back as tuples. A monoid with any other totals overrides `to_plain` and `from_plain`.
    """

    @abstractmethod
    def zero(self) -> T:
        """The identity; a new one for each call, where totals are changed in place."""

    @abstractmethod
    def plus(self, left: T, right: T) -> T:
        """The total of both. It may change `left` and return it; it does not change `right`, and keeps no mutable part
        of it."""

    def init(self) -> T:
        return self.zero()

    def merge(self, one: T, other: T) -> T:
        return self.plus(one, other)

    def add(self, accumulated: T, value: Any) -> T:
        """The total with one more item, by the rules of `plus`. An item is a total of its own unless the monoid
        overrides this."""
        return self.plus(accumulated, value)

    def to_plain(self, total: T) -> Any:
        """The total as a checkpoint keeps it."""
        return total

    def from_plain(self, plain: Any) -> T:
        """The inverse of `to_plain`."""
        total: T = plain
        return total


class Count(Monoid[int]):
    """The number of values."""

    in_any_order = True

    def zero(self) -> int:
        return 0

    def plus(self, left: int, right: int) -> int:
        return left + right

    def add(self, accumulated: int, value: object) -> int:
        return accumulated + 1

    def add_all(self, accumulated: int, values: Sequence[Any]) -> int:
        return accumulated + len(values)


class Sum(Monoid[N]):
    """The sum of numbers. The last digits of a sum of floats depend on their order: for money, use ints of the smallest
    unit."""

    in_any_order = True

    def zero(self) -> N:
        return 0

    def plus(self, left: N, right: N) -> N:
        return left + right

    def add_all(self, accumulated: N, values: Sequence[Any]) -> N:
        # Not `sum`, which rounds floats otherwise than one addition after the other.
        return reduce(operator.add, values, accumulated)


class _Extreme(Monoid[T | None]):
    """One of the values, which are ordered among themselves; of equal ones the first. None for none."""

    in_any_order = True
    _chosen: ClassVar[Callable[..., Any]]

    def zero(self) -> T | None:
        return None

    def plus(self, left: T | None, right: T | None) -> T | None:
        if left is None or right is None:
            return right if left is None else left
        total: T = self._chosen(left, right, key=as_tuples if isinstance(left, (list, tuple)) else None)
        return total

    def add(self, accumulated: T | None, value: Any) -> T | None:
        return self.plus(accumulated, _present(value))

    def add_all(self, accumulated: T | None, values: Sequence[Any]) -> T | None:
        return self.plus(accumulated, _present(self._chosen(values)))


def _present(value: T | None) -> T:
    """The value. Raises TypeError for None, which later values do not compare with either."""
    if value is None:
        raise TypeError("Min, Max and Top need values that compare, got None")
    return value


def as_tuples(value: Any) -> Any:
    """The value with its lists as tuples, at any depth: a store gives tuples back as lists."""
    return tuple(map(as_tuples, value)) if isinstance(value, (list, tuple)) else value


class Min(_Extreme[T]):
    """The least value; of equal ones the first. None for none."""

    _chosen = staticmethod(min)


class Max(_Extreme[T]):
    """The greatest value; of equal ones the first. None for none."""

    _chosen = staticmethod(max)


class Mean(Monoid[Sequence[Any]]):
    """The arithmetic mean of numbers, from their sum and count."""

    in_any_order = True

    def zero(self) -> Sequence[Any]:
        return [0, 0]

    def plus(self, left: Sequence[Any], right: Sequence[Any]) -> Sequence[Any]:
        return [left[0] + right[0], left[1] + right[1]]

    def add(self, accumulated: Sequence[Any], value: Any) -> Sequence[Any]:
        return [accumulated[0] + value, accumulated[1] + 1]

    def add_all(self, accumulated: Sequence[Any], values: Sequence[Any]) -> Sequence[Any]:
        return [reduce(operator.add, values, accumulated[0]), accumulated[1] + len(values)]

    def result(self, accumulated: Sequence[Any]) -> float | None:
        return self.mean(accumulated)

    @staticmethod
    def mean(total: Sequence[Any]) -> float | None:
        """The mean, None of nothing."""
        return float(total[0] / total[1]) if total[1] else None


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
        return self.add_all(accumulated, (value,))

    def add_all(self, accumulated: list[Any], values: Sequence[Any]) -> list[Any]:
        if not accumulated:
            _present(values[0])
        # json and msgpack give lists back.
        return self.merge(accumulated, [list(value) if isinstance(value, tuple) else value for value in values])

    def merge(self, one: list[Any], other: list[Any]) -> list[Any]:
        key = as_tuples if other and isinstance(other[0], list) else None
        return sorted(one + other, key=key, reverse=True)[: self._count]


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
        assert self._merge is not None
        return self._merge(one, other)

    def result(self, accumulated: Any) -> Any:
        return accumulated if self._result is None else self._result(accumulated)


class OfValues(Fold):
    """A fold of `value(item)` of each item."""

    def __init__(self, fold: Aggregation, value: Callable[[Any], Any]) -> None:
        super().__init__(fold.init, lambda total, item: fold.add(total, value(item)), None, fold.result, fold.name)
        self._add_all, self._value = fold.add_all, value

    def add_all(self, accumulated: Any, values: Sequence[Any]) -> Any:
        return self._add_all(accumulated, list(map(self._value, values)))


class Distinct(Monoid[set[Any]]):
    """The set of different items, which are hashable and plain (a tuple, not a list)."""

    def zero(self) -> set[Any]:
        return set()

    def plus(self, left: set[Any], right: set[Any]) -> set[Any]:
        left |= right
        return left

    def add(self, accumulated: set[Any], value: Any) -> set[Any]:
        accumulated.add(value)
        return accumulated

    def to_plain(self, total: set[Any]) -> list[Any]:
        return list(total)

    def from_plain(self, plain: Any) -> set[Any]:
        return set(plain)


def grouped(pairs: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """Each key of the pairs with its items, in order."""
    groups: dict[K, list[T]] = {}
    for key, item in pairs:
        if key in groups:
            groups[key].append(item)
        else:
            groups[key] = [item]
    return groups


class Keyed(Monoid[dict[Any, T]]):
    """A total of another monoid for each key (plain and hashable); an item is (key, item). A count by key is
    `Keyed(Count())`."""

    def __init__(self, monoid: Monoid[T]) -> None:
        self._monoid = monoid

    def zero(self) -> dict[Any, T]:
        return {}

    def plus(self, left: dict[Any, T], right: dict[Any, T]) -> dict[Any, T]:
        totals = plus_each(self._monoid, [(self._of(left, key), total) for key, total in right.items()])
        left.update(zip(right, totals, strict=True))
        return left

    def add(self, accumulated: dict[Any, T], value: tuple[Any, Any]) -> dict[Any, T]:
        key, item = value
        total = accumulated[key] if key in accumulated else self._monoid.zero()
        accumulated[key] = self._monoid.add(total, item)
        return accumulated

    def add_all(self, accumulated: dict[Any, T], values: Sequence[Any]) -> dict[Any, T]:
        for key, items in grouped(values).items():
            accumulated[key] = self._monoid.add_all(self._of(accumulated, key), items)
        return accumulated

    def _of(self, totals: dict[Any, T], key: Any) -> T:
        return totals[key] if key in totals else self._monoid.zero()

    def to_plain(self, total: dict[Any, T]) -> list[Any]:
        return [(key, self._monoid.to_plain(inner)) for key, inner in total.items()]

    def from_plain(self, plain: Any) -> dict[Any, T]:
        return {key: self._monoid.from_plain(inner) for key, inner in plain}


class HyperLogLog(Monoid[Any]):
    """A sketch of the different items (str, int of 64 bits, float) seen; `estimate(total)` is about their number.

    Its error is about 1.04 / sqrt(2 ** lg_k) of the number, 1.6 % with the default of 12, for 2 KiB. Merged in another
    order, as after a crash, the estimate may differ within that error. Needs `samzapy[sketches]`: EnvironmentFailure.
    """

    def __init__(self, lg_k: int = 12) -> None:
        """`lg_k`: from 4 to 21."""
        if not 4 <= lg_k <= 21:
            raise ValueError(f"lg_k must be from 4 to 21, got {lg_k}")
        self._lg_k = lg_k
        self._library: Any = library("datasketches")
        self._serde = HyperLogLogSerde()

    def zero(self) -> Any:
        return self._library.hll_sketch(self._lg_k, self._library.HLL_8)

    def plus(self, left: Any, right: Any) -> Any:
        union = self._library.hll_union(self._lg_k)
        union.update(left)
        union.update(right)
        return union.get_result(self._library.HLL_8)

    def add(self, accumulated: Any, value: str | float) -> Any:
        accumulated.update(EMPTY_TEXT if value == "" else value)
        return accumulated

    def to_plain(self, total: Any) -> bytes:
        return self._serde.to_bytes(total)

    def from_plain(self, plain: Any) -> Any:
        return self._serde.from_bytes(plain)

    @staticmethod
    def estimate(total: Any) -> float:
        """The approximate number of different items."""
        return float(total.get_estimate())


#: Types of totals that do not change in place.
_UNCHANGING = (int, float, str, bytes, tuple, frozenset, type(None))


def plus_each(monoid: Monoid[T], pairs: Sequence[tuple[T, T]]) -> list[T]:
    """`monoid.plus` of each pair. Raises TaskFailed if one raises after another has changed its left total in place."""
    totals: list[T] = []
    try:
        for left, right in pairs:
            totals.append(monoid.plus(left, right))
    except Exception as cause:
        changed = [left for (left, _), total in zip(pairs, totals, strict=False) if total is left]
        if all(isinstance(left, _UNCHANGING) for left in changed):
            raise
        raise TaskFailed(
            f"the state is half changed, since some of its totals took an update and another refused it "
            f"({type(cause).__name__}: {cause}): have the task check its items"
        ) from cause
    return totals
