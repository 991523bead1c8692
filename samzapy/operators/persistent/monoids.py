"""The monoids that states fold with, and groups: monoids that can subtract.

They follow Twitter's Algebird, which Gearpump uses. `plus` must be associative, with `zero` as its identity. It must
also be commutative, because messages of several partitions come in any order, and a state separates the messages
before a checkpoint time from those after it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import reduce
from operator import add
from typing import Any, Generic, TypeVar

from samzapy.errors import TaskFailed
from samzapy.storage.views.sketches import EMPTY_TEXT, HyperLogLogSerde, library

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
N = TypeVar("N", int, float)


class Monoid(ABC, Generic[T]):
    """An associative and commutative `plus` with an identity `zero`. An `add` that raises leaves `total` unchanged.

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

    def prepared(self, left: T, right: T) -> Callable[[], T]:
        """`plus` in two steps: this call does everything that may fail, and a call of the result changes `left` in
        place. To be overridden if `plus` does so; else a task that finds such totals half changed has to start
        again."""
        total = self.plus(left, right)
        return lambda: total

    def add(self, total: T, item: Any) -> T:
        """`total` with one more item, by the rules of `plus`. An item is a total of its own unless the monoid overrides
        this."""
        return self.plus(total, item)

    def add_all(self, total: T, items: Sequence[Any]) -> T:
        """`total` with the items of a batch, as `add` of each. Overridden where a batch costs less than its items."""
        return reduce(self.add, items, total)

    def to_plain(self, total: T) -> Any:
        """The total as a checkpoint keeps it."""
        return total

    def from_plain(self, plain: Any) -> T:
        """The inverse of `to_plain`."""
        found: T = plain
        return found


#: Types of totals that do not change in place.
_UNCHANGING = (int, float, str, bytes, tuple, frozenset, type(None))


def all_prepared(monoid: Monoid[T], pairs: Sequence[tuple[T, T]]) -> list[Callable[[], T]]:
    """`monoid.prepared` of each pair. If one raises, none is changed; TaskFailed says that some may be."""
    calls: list[Callable[[], T]] = []
    try:
        for left, right in pairs:
            calls.append(monoid.prepared(left, right))
    except Exception as cause:
        at_once = type(monoid).prepared is Monoid.prepared
        changed = [left for (left, _), call in zip(pairs, calls, strict=False) if at_once and call() is left]
        if not all(isinstance(left, _UNCHANGING) for left in changed):
            raise TaskFailed(
                f"the state is half changed, since some of its totals took an update and another refused it ("
                f"{type(cause).__name__}: {cause}): have the task check its items, or give "
                f"{type(monoid).__name__} a `prepared`"
            ) from cause
        raise
    return calls


class Group(Monoid[T]):
    """A monoid that can subtract. The slide of a window then costs as much as the leaving items, not as much as the
    remaining ones."""

    @abstractmethod
    def minus(self, left: T, right: T) -> T:
        """`left` without `right`, which is a part of it. The rules of `plus` hold."""


class Sum(Group[N]):
    """The sum of numbers. The last digits of a sum of floats depend on their order, and in a window on the numbers that
    have left it: for money, use ints of the smallest unit."""

    def zero(self) -> N:
        return 0

    def plus(self, left: N, right: N) -> N:
        return left + right

    def add_all(self, total: N, items: Sequence[Any]) -> N:
        return reduce(add, items, total)

    def minus(self, left: N, right: N) -> N:
        return left - right


class Count(Group[int]):
    """The number of items, whatever they are."""

    def zero(self) -> int:
        return 0

    def plus(self, left: int, right: int) -> int:
        return left + right

    def add(self, total: int, item: object) -> int:
        return total + 1

    def add_all(self, total: int, items: Sequence[Any]) -> int:
        return total + len(items)

    def minus(self, left: int, right: int) -> int:
        return left - right


class Min(Monoid[T | None]):
    """The least item; None for none. Items are ordered among themselves."""

    def zero(self) -> T | None:
        return None

    def plus(self, left: T | None, right: T | None) -> T | None:
        if left is None or right is None:
            return right if left is None else left
        least: T = min(left, right)  # type: ignore[call-overload]
        return least

    def add_all(self, total: T | None, items: Sequence[Any]) -> T | None:
        return self.plus(total, min((item for item in items if item is not None), default=None))


class Max(Monoid[T | None]):
    """The greatest item; None for none. Items are ordered among themselves."""

    def zero(self) -> T | None:
        return None

    def plus(self, left: T | None, right: T | None) -> T | None:
        if left is None or right is None:
            return right if left is None else left
        greatest: T = max(left, right)  # type: ignore[call-overload]
        return greatest

    def add_all(self, total: T | None, items: Sequence[Any]) -> T | None:
        return self.plus(total, max((item for item in items if item is not None), default=None))


class Average(Group[tuple[float, int]]):
    """The sum and count of numbers; an item is a number."""

    def zero(self) -> tuple[float, int]:
        return 0, 0

    def plus(self, left: tuple[float, int], right: tuple[float, int]) -> tuple[float, int]:
        return left[0] + right[0], left[1] + right[1]

    def add(self, total: tuple[float, int], item: float) -> tuple[float, int]:
        return total[0] + item, total[1] + 1

    def add_all(self, total: tuple[float, int], items: Sequence[Any]) -> tuple[float, int]:
        return reduce(add, items, total[0]), total[1] + len(items)

    def minus(self, left: tuple[float, int], right: tuple[float, int]) -> tuple[float, int]:
        return left[0] - right[0], left[1] - right[1]

    @staticmethod
    def mean(total: tuple[float, int]) -> float | None:
        """The average, None of nothing."""
        return total[0] / total[1] if total[1] else None


class Distinct(Monoid[set[Any]]):
    """The set of different items, which are hashable and plain (a tuple, not a list)."""

    def zero(self) -> set[Any]:
        return set()

    def plus(self, left: set[Any], right: set[Any]) -> set[Any]:
        left |= right
        return left

    def prepared(self, left: set[Any], right: set[Any]) -> Callable[[], set[Any]]:
        return lambda: self.plus(left, right)

    def add(self, total: set[Any], item: Any) -> set[Any]:
        total.add(item)
        return total

    def add_all(self, total: set[Any], items: Sequence[Any]) -> set[Any]:
        total.update(items)
        return total

    def to_plain(self, total: set[Any]) -> list[Any]:
        return list(total)

    def from_plain(self, plain: Any) -> set[Any]:
        return set(plain)


def grouped(pairs: Iterable[tuple[Any, Any]]) -> Iterable[tuple[Any, list[Any]]]:
    """Each key of the pairs with its items, in order."""
    found: dict[Any, list[Any]] = {}
    for key, item in pairs:
        if key in found:
            found[key].append(item)
        else:
            found[key] = [item]
    return found.items()


class Keyed(Monoid[dict[Any, T]]):
    """A total of another monoid for each key (plain and hashable); an item is (key, item). A count by key is
    `Keyed(Count())`."""

    def __init__(self, monoid: Monoid[T]) -> None:
        self._monoid = monoid

    def zero(self) -> dict[Any, T]:
        return {}

    def plus(self, left: dict[Any, T], right: dict[Any, T]) -> dict[Any, T]:
        monoid = self._monoid
        for key, total in right.items():
            before = left[key] if key in left else monoid.zero()
            left[key] = monoid.plus(before, total)
        return left

    def prepared(self, left: dict[Any, T], right: dict[Any, T]) -> Callable[[], dict[Any, T]]:
        held = [(key, left[key] if key in left else self._monoid.zero(), total) for key, total in right.items()]
        calls = all_prepared(self._monoid, [(before, total) for _, before, total in held])

        def change() -> dict[Any, T]:
            for (key, _, _), call in zip(held, calls, strict=True):
                left[key] = call()
            return left

        return change

    def add(self, total: dict[Any, T], item: tuple[Any, Any]) -> dict[Any, T]:
        key, inner = item
        before = total[key] if key in total else self._monoid.zero()
        total[key] = self._monoid.add(before, inner)
        return total

    def add_all(self, total: dict[Any, T], items: Sequence[Any]) -> dict[Any, T]:
        monoid = self._monoid
        for key, inner in grouped(items):
            total[key] = monoid.add_all(total[key] if key in total else monoid.zero(), inner)
        return total

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

    def add(self, total: Any, item: str | float) -> Any:
        total.update(EMPTY_TEXT if item == "" else item)
        return total

    def to_plain(self, total: Any) -> bytes:
        return self._serde.to_bytes(total)

    def from_plain(self, plain: Any) -> Any:
        return self._serde.from_bytes(plain)

    @staticmethod
    def estimate(total: Any) -> float:
        """The approximate number of different items."""
        return float(total.get_estimate())
