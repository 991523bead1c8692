"""Keeps the metrics of one container in columns: the names by group, and one array of values in their order.

A job of a thousand containers has millions of values. In columns they take eight bytes each, the tasks of a job share
their lists of names, and tasks are added up without reading each name.
"""

from __future__ import annotations

from array import array
from collections.abc import ItemsView, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain
from math import isnan, nan

#: Metric names by group, in the order of the values. A group may come several times, with other names.
Names = tuple[tuple[str, tuple[str, ...]], ...]

#: Ends the name of a counter in the columns: a number of the job's own code has no other sign of its kind.
COUNTED = "\x1fcounter"

#: All lists of names in use. The tasks of a job have few different ones.
_SHARED: dict[tuple[str, ...], tuple[str, ...]] = {}
_MOST_SHARED = 10_000


def shared(names: tuple[str, ...]) -> tuple[str, ...]:
    """The shared object for all equal lists of names. Safe to call from several threads: in a race a list exists twice,
    which only costs memory."""
    known = _SHARED.get(names)
    if known is None:
        if len(_SHARED) >= _MOST_SHARED:
            _SHARED.clear()
        known = _SHARED[names] = names
    return known


#: A double represents every integer up to this one exactly.
_EXACT = 2**53


def plain_number(value: object) -> float:
    """A metric's value as a plain number of Python; NaN if it is not a number, since a task may set a gauge to any
    object."""
    if type(value) is float or (type(value) is int and -_EXACT < value < _EXACT):
        return value
    try:
        return float(value)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001  # the object may raise anything
        return nan


class Snapshot(dict[str, dict[str, float]]):
    """The values of a registry by group and name; `counters` are those that only grow, as pairs of group and name."""

    __slots__ = ("counters",)

    def __init__(self, groups: Mapping[str, dict[str, float]], counters: AbstractSet[tuple[str, str]]) -> None:
        super().__init__(groups)
        self.counters = counters


def counters_of(groups: Mapping[str, Mapping[str, object]]) -> AbstractSet[tuple[str, str]]:
    """The counters of a snapshot; none are known of other mappings."""
    return groups.counters if isinstance(groups, Snapshot) else frozenset()


class MetricColumns(Mapping[str, Mapping[str, float]]):
    """The metrics of one container at one moment, by group and name. The mapping of a group is made on request. A value
    that is unknown is NaN in the columns, and is in no mapping. The name of a counter ends with `COUNTED` in the
    columns."""

    __slots__ = ("_values", "names")

    def __init__(self, names: Names = (), values: array[float] | None = None) -> None:
        """`values`: as many as there are names, in their order."""
        self.names = names
        self._values = array("d") if values is None else values

    @classmethod
    def of(cls, groups: Mapping[str, Mapping[str, float]]) -> MetricColumns:
        """The columns of a registry's snapshot; the same object if they are columns already."""
        if isinstance(groups, MetricColumns):
            return groups
        counters = counters_of(groups)
        names = tuple(
            (group, shared(tuple([f"{name}{COUNTED}" if (group, name) in counters else name for name in values])))
            for group, values in groups.items()
        )
        return MetricColumns(names, array("d", chain.from_iterable(values.values() for values in groups.values())))

    @property
    def size(self) -> int:
        """The number of metrics."""
        return len(self._values)

    def blocks(self) -> Iterator[tuple[str, tuple[str, ...], array[float]]]:
        """Each group with its names and their values, in order."""
        at, values = 0, self._values
        for group, names in self.names:
            yield group, names, values[at : at + len(names)]
            at += len(names)

    def __getitem__(self, group: str) -> Mapping[str, float]:
        found: dict[str, float] = {}
        at, known = 0, False
        for each, names in self.names:
            if each == group:
                known = True
                found.update(_known(names, self._values[at : at + len(names)]))
            at += len(names)
        if not known:
            raise KeyError(group)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(group for group, _ in self.names))

    def __len__(self) -> int:
        return len({group for group, _ in self.names})

    def items(self) -> ItemsView[str, Mapping[str, float]]:
        """All groups by name, in one pass over the values."""
        return self.groups().items()

    def groups(self) -> dict[str, dict[str, float]]:
        """The values of all groups by name, in one pass."""
        found: dict[str, dict[str, float]] = {}
        for group, names, values in self.blocks():
            found.setdefault(group, {}).update(_known(names, values))
        return found


def _known(names: tuple[str, ...], values: array[float]) -> Iterator[tuple[str, float]]:
    return ((name.removesuffix(COUNTED), value) for name, value in zip(names, values, strict=True) if not isnan(value))
