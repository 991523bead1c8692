"""Converts the metrics of a job's containers to a bounded number of series.

1. A family with more series than `Bounds.family` loses labels, in the order of `DROPPED`; with a *detail* of n it has
   lost the first n. Values that then have equal labels are merged, as their family says.
2. A histogram counts as two series there, its sum and its count. If all histograms of a family have more buckets than
   `Bounds.buckets`, it has none: sums and counts stay.
3. A job with more series than `Bounds.job` leaves out whole families, so that a sum over a family always covers all of
   it. Families are chosen in the order of their ranks, as long as there is room.
4. At most `USER_FAMILIES` families are made from the numbers of the job's own code; the rest are counted, not exported.

The number of series is computed before any of them is made. A *pattern* is a list of names that several groups share:
the tasks of a job have one or two. The patterns of a container are its `Shape`. Which of their values make one series
is determined once for all containers of a shape; then tasks are added up column by column.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from math import isnan
from operator import itemgetter
from typing import Any, NamedTuple

from samzapy.metrics.columns import MetricColumns, Names
from samzapy.metrics.families import BUCKET, Family, Kind, Merge, container_metric, is_of_users, task_metric

Labels = tuple[tuple[str, str], ...]

#: The labels that a family with too many series loses, first to last.
DROPPED = ("task", "partition", "store", "stream")
#: The most families with names that the job's own code has chosen.
USER_FAMILIES = 200
#: Cached shapes. A job has few, unless each container creates its metrics in another order.
_KEPT = 4_096

_Append = Callable[[Any], None]
#: A group's name, or None for a task, and its metrics.
Pattern = tuple[str | None, tuple[str, ...]]
#: Selects the values of one series from a group's.
Pick = Callable[[Sequence[float]], Iterable[float]]

COMBINE: Mapping[Merge, Callable[[Iterable[float]], float]] = {Merge.SUM: sum, Merge.MAX: max, Merge.MIN: min}


class Bounds(NamedTuple):
    """The most series: of a `family` before it loses labels, of a whole `job`, and the most `buckets` of a family."""

    family: int = 500
    job: int = 100_000
    buckets: int = 2_000


class Sample(NamedTuple):
    """One value of a family; `part` is `_sum` or `_count` for a summary, these or `_bucket` for a histogram, else
    empty. `place` has the labels that say where it comes from, `own` the others."""

    part: str
    place: Labels
    own: Labels
    value: float

    @property
    def labels(self) -> Labels:
        """All labels."""
        return self.place + self.own


class Series(NamedTuple):
    """A family with its values."""

    family: Family
    samples: list[Sample]


#: A Sample of a tuple, without the Python frame of its constructor.
_sample = partial(tuple.__new__, Sample)


class Row(NamedTuple):
    """A series of a container, or of each of its tasks: `part` as in a Sample, `labels` without the place, and the
    places of its values in a group, by number of pattern."""

    part: str
    labels: Labels
    places: tuple[tuple[int, tuple[int, ...]], ...]


class _Entry(NamedTuple):
    part: str
    labels: Labels
    pattern: int
    at: int


class Shape:
    """The patterns of a container, and the families of their metrics."""

    def __init__(self, patterns: tuple[Pattern, ...]) -> None:
        self.families: dict[str, Family] = {}
        self._of_tasks = [group is None for group, _ in patterns]
        self._entries: dict[str, list[_Entry]] = {}
        self._rows: dict[tuple[str, int, bool], list[Row]] = {}
        for number, (group, names) in enumerate(patterns):
            find = task_metric if group is None else partial(container_metric, group)
            for index, name in enumerate(names):
                named = find(name)
                if named is not None:
                    family = self.families.setdefault(named.family.name, named.family)
                    entry = _Entry(named.part, named.labels, number, index)
                    self._entries.setdefault(family.name, []).append(entry)

    def count(self, family: str, detail: int, groups: Sequence[int]) -> tuple[int, int]:
        """The number of series of a family in a container, without buckets, and of its buckets; `groups`: the number of
        groups with each pattern."""
        series = buckets = 0
        for of_tasks in (False, True):
            for row in self.rows(family, detail, of_tasks=of_tasks):
                times = groups[row.places[0][0]] if of_tasks else 1
                if row.part == BUCKET:
                    buckets += times
                else:
                    series += times
        return series, buckets

    def rows(self, family: str, detail: int, *, of_tasks: bool) -> list[Row]:
        """The series of a family that each task has (`of_tasks`), or that the container has."""
        key = (family, detail, of_tasks)
        known = self._rows.get(key)
        if known is None:
            known = self._rows[key] = self._made(*key)
        return known

    def _made(self, family: str, detail: int, of_tasks: bool) -> list[Row]:  # the parts of a key
        dropped = DROPPED[:detail]
        found: dict[tuple[Any, ...], dict[int, list[int]]] = {}
        for part, labels, pattern, at in self._entries[family]:
            if (detail == 0 and self._of_tasks[pattern]) == of_tasks:
                left = tuple([pair for pair in labels if pair[0] not in dropped])
                # Tasks with different names have different series.
                key = (part, left, pattern if of_tasks else None)
                found.setdefault(key, {}).setdefault(pattern, []).append(at)
        return [
            Row(part, labels, tuple((pattern, tuple(indices)) for pattern, indices in places.items()))
            for (part, labels, _), places in found.items()
        ]


def _pick(indices: Sequence[int]) -> Pick:
    return itemgetter(*indices) if len(indices) > 1 else itemgetter(slice(indices[0], indices[0] + 1))


shape_of = lru_cache(maxsize=_KEPT)(Shape)


class Layout(NamedTuple):
    """The order of a container's metrics: its shape, and the pattern number of each of its groups."""

    shape: Shape
    numbers: list[int]

    @classmethod
    def of(cls, names: Names, tasks: frozenset[str]) -> Layout:
        """The layout of a container with these names; `tasks` names the groups that belong to tasks."""
        known: dict[tuple[str | None, int], int] = {}
        patterns: list[Pattern] = []
        numbers = []
        for group, metrics in names:
            kind = None if group in tasks else group
            # Equal lists of names are one object (`shared`); comparing two lists would look at each name.
            number = known.setdefault((kind, id(metrics)), len(patterns))
            if number == len(patterns):
                patterns.append((kind, metrics))
            numbers.append(number)
        return Layout(shape_of(tuple(patterns)), numbers)

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of groups with each pattern."""
        counted = Counter(self.numbers)
        return tuple([counted[number] for number in range(len(counted))])


class Blocks:
    """The values of one container by pattern; `groups` has the name of each group and its values."""

    __slots__ = ("_merged", "groups")

    def __init__(self, columns: MetricColumns, layout: Layout) -> None:
        patterns = len(set(layout.numbers))
        self.groups: list[list[tuple[str, array[float]]]] = [[] for _ in range(patterns)]
        for number, (group, _, values) in zip(layout.numbers, columns.blocks(), strict=True):
            self.groups[number].append((group, values))
        self._merged: dict[tuple[int, Merge], Sequence[float]] = {}

    def merged(self, picks: Iterable[tuple[int, Pick]], merge: Merge) -> float:
        """Merge the values that `picks` select."""
        combine = COMBINE[merge]
        return combine([combine(pick(self.columns(each, merge))) for each, pick in picks])

    def columns(self, number: int, merge: Merge) -> Sequence[float]:
        """Each value of a pattern, merged over its groups."""
        known = self._merged.get((number, merge))
        if known is not None:
            return known
        groups = self.groups[number]
        if len(groups) == 1:
            merged: Sequence[float] = groups[0][1]
        else:
            merged = _merged([values for _, values in groups], merge)
        self._merged[number, merge] = merged
        return merged


def _merged(groups: Sequence[array[float]], merge: Merge) -> Sequence[float]:
    # A thousand containers have five million values: numpy makes no object of each.
    import numpy as np  # noqa: PLC0415  # the command line does without

    reduce: Mapping[Merge, np.ufunc] = {Merge.SUM: np.add, Merge.MAX: np.fmax, Merge.MIN: np.fmin}
    merged: list[float] = reduce[merge].reduce([np.frombuffer(values) for values in groups]).tolist()
    return merged


class Registered(NamedTuple):
    """The metrics of one container: the labels that name it, the names of its tasks, the values."""

    place: Labels
    tasks: frozenset[str]
    columns: MetricColumns


class _Chosen(NamedTuple):
    """A family, the number of labels that it loses, whether it keeps its buckets, and the number of series that it then
    has."""

    family: Family
    detail: int
    buckets: bool
    size: int


class BoundedSeries:
    """Collects the series of one scrape. Used by one thread."""

    def __init__(self, place: Labels, bounds: Bounds, ranks: Mapping[str, int], pause: Callable[[], None]) -> None:
        """`place`: the labels of all values that `add` gets. `ranks`: families are chosen in ascending rank, unranked
        ones last. `pause` is called between any two containers or families."""
        self._place, self._bounds, self._ranks, self._pause = place, bounds, ranks, pause
        self._added: dict[str, tuple[Family, dict[Labels, float]]] = {}
        self.left_out = self.names_left_out = 0

    def add(self, family: Family, value: float, labels: Labels = ()) -> None:
        """Add one value; values with equal labels are merged."""
        rows = self._added.setdefault(family.name, (family, {}))[1]
        before = rows.get(labels)
        rows[labels] = value if before is None else COMBINE[family.merge]((before, value))

    def take(self, containers: Sequence[Registered]) -> dict[str, Series]:
        """The series of the added values and of the containers, by name of the family. Afterwards `left_out` is the
        number of series without room, and `names_left_out` the number of such names of the job's own code."""
        layouts = [self._layout(each) for each in containers]
        chosen = self._choose(layouts)
        sizes = {name: each.size for name, each in chosen.items()}
        kept = self._within(sizes | {name: len(rows) for name, (_, rows) in self._added.items()})
        found = {name: Series(each.family, []) for name, each in chosen.items() if name in kept}
        writers: dict[Shape, _Writer] = {}
        for (place, _, columns), layout in zip(containers, layouts, strict=True):
            writer = writers.get(layout.shape)
            if writer is None:
                writer = writers[layout.shape] = _Writer(layout.shape, chosen, found)
            writer.write(place, Blocks(columns, layout))
            self._pause()
        for name, (family, rows) in self._added.items():
            if name in kept:
                samples = [Sample("", self._place, labels, value) for labels, value in rows.items()]
                found[name] = Series(family, samples)
        return found

    def _layout(self, container: Registered) -> Layout:
        self._pause()
        return Layout.of(container.columns.names, container.tasks)

    def _choose(self, layouts: Iterable[Layout]) -> dict[str, _Chosen]:
        """Choose families of the containers."""
        shapes = Counter((each.shape, each.counts) for each in layouts)
        chosen = {}
        for name, family in self._known(shape for shape, _ in shapes).items():
            having = [(shape, groups, times) for (shape, groups), times in shapes.items() if name in shape.families]
            for detail in range(len(DROPPED) + 1):
                counts = [(times, shape.count(name, detail, groups)) for shape, groups, times in having]
                size, buckets = (sum(times * count[part] for times, count in counts) for part in (0, 1))
                with_buckets = buckets <= self._bounds.buckets
                chosen[name] = _Chosen(family, detail, with_buckets, size + buckets * with_buckets)
                if size <= self._bounds.family:
                    break
            self._pause()
        return chosen

    def _known(self, shapes: Iterable[Shape]) -> dict[str, Family]:
        found: dict[str, Family] = {}
        users: set[str] = set()
        for shape in shapes:
            for name, family in shape.families.items():
                of_users = is_of_users(family)
                if of_users:
                    users.add(name)
                if not of_users or name in found or len(users) <= USER_FAMILIES:
                    found[name] = family
        self.names_left_out = max(0, len(users) - USER_FAMILIES)
        for name in [name for name, family in found.items() if family.kind is Kind.HISTOGRAM]:
            for part in ("_sum", "_count", BUCKET):
                # A timer may have the name of a histogram: no line appears twice.
                found.pop(name + part, None)
        return found

    def _within(self, sizes: Mapping[str, int]) -> set[str]:
        """The families that fit; `sizes`: the number of series of each."""
        room, kept = self._bounds.job, set()
        for name in sorted(sizes, key=lambda name: (self._ranks.get(name, len(self._ranks)), name)):
            if sizes[name] <= room:
                kept.add(name)
                room -= sizes[name]
        self.left_out = sum(size for name, size in sizes.items() if name not in kept)
        return kept


class _Writer:
    """Makes the samples of containers of one shape. Most rows have one value in one pattern, and are written in a loop
    of their own: a job of 1,000 containers has sixty thousand."""

    def __init__(self, shape: Shape, chosen: Mapping[str, _Chosen], found: Mapping[str, Series]) -> None:
        self._plain: dict[tuple[int, Merge], list[tuple[_Append, str, Labels, int, float]]] = {}
        self._merged: list[tuple[_Append, Row, Family, list[tuple[int, Pick]]]] = []
        self._of_tasks: list[tuple[_Append, Row, Family, list[tuple[int, Pick]]]] = []
        for name, family in shape.families.items():
            if name not in found:
                continue
            append, how = found[name].samples.append, chosen[name]
            for of_tasks in (False, True):
                for row in shape.rows(name, how.detail, of_tasks=of_tasks):
                    if how.buckets or row.part != BUCKET:
                        self._add(append, family, row, of_tasks=of_tasks)

    def _add(self, append: _Append, family: Family, row: Row, *, of_tasks: bool) -> None:
        (pattern, places), *more = row.places
        if not of_tasks and not more and len(places) == 1:
            rows = self._plain.setdefault((pattern, family.merge), [])
            rows.append((append, row.part, row.labels, places[0], family.scale))
        else:
            picks = [(number, _pick(indices)) for number, indices in row.places]
            (self._of_tasks if of_tasks else self._merged).append((append, row, family, picks))

    def write(self, place: Labels, blocks: Blocks) -> None:
        """Append the samples of one container, without those of an unknown value."""
        for (pattern, merge), rows in self._plain.items():
            values = blocks.columns(pattern, merge)
            for append, part, labels, index, scale in rows:
                if not isnan(value := values[index]):
                    append(_sample((part, place, labels, value * scale)))
        for append, (part, labels, _), family, picks in self._merged:
            if not isnan(value := blocks.merged(picks, family.merge)):
                append(_sample((part, place, labels, value * family.scale)))
        for append, (part, labels, _), family, picks in self._of_tasks:
            combine = COMBINE[family.merge]
            for number, pick in picks:
                for task, values in blocks.groups[number]:
                    if not isnan(value := combine(pick(values))):
                        append(_sample((part, place, (("task", task), *labels), value * family.scale)))
