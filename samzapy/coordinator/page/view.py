"""Converts a job's status and history to the figures and rows of the page."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import nsmallest

from samzapy.coordinator.page.history import History
from samzapy.coordinator.status import ContainerStatus, JobStatus, PartitionStatus

#: Rows of a table. A search finds the others.
ROWS = 50
#: Cells of the strip. With more partitions, each cell stands for several.
CELLS = 500
#: Partitions that a search looks at between two pauses.
_LOOKED_AT = 500
#: The lags from which a cell of the strip has the next warmer colour.
_HEAT = (1, 100, 1_000, 10_000, 100_000, 1_000_000)


@dataclass(frozen=True)
class Graph:
    """A line over time, for SVG: `points` in a box of 300 by 40, and its highest value, `peak`."""

    points: str
    peak: float


@dataclass(frozen=True)
class PartitionRow:
    """A partition of an input. `end` and `lag` are None if unknown, and `lag_age_s` is then the time since they were
    known, else None; `rate` is in offsets a second; `task` reads the partition, empty if unknown; `age_s` is the time
    that the oldest unread message has waited, None if unknown."""

    name: str
    container: str
    task: str
    position: int
    end: int | None
    lag: int | None
    rate: float
    age_s: float | None
    heat: int
    lag_age_s: float | None


@dataclass(frozen=True)
class Cell:
    """A cell of the strip: `heat` from 0 (no lag) to 6, or -1 if unknown; `label` names its partitions and their
    lag."""

    heat: int
    label: str


@dataclass(frozen=True)
class StoreRow:
    """A store with a changelog: its tasks, and the offsets between beginning and end of the changelog."""

    name: str
    tasks: int
    changelog: int


@dataclass(frozen=True)
class ContainerRow:
    """A container. `lag_age_s` is the time since an unknown lag was known, None for a known one; `trouble` says why it
    is stalled, empty if it is not; `stack` is the stack of the stalled thread; `restoring` is (records read, records to
    read)."""

    id: str
    state: str
    phase: str
    trouble: str
    stack: str
    attempts: int
    processed: int
    commits: int
    lag: int | None
    lag_age_s: float | None
    host: str
    memory_bytes: int | None
    restoring: tuple[int, int] | None


@dataclass(frozen=True)
class Tables:
    """The partitions to show, the number of all that match, and the strip of all partitions."""

    partitions: Sequence[PartitionRow]
    partition_count: int
    cells: Sequence[Cell]


def _go_on() -> None:
    """The default of `pause`, which may let other threads run: it is called about once a millisecond."""


def graph(values: Sequence[float]) -> Graph:
    """A line through `values`, from left to right; flat at the bottom if there are less than two."""
    peak = max(values, default=0.0)
    if len(values) < 2:
        return Graph("0,39 300,39", peak)
    step, scale = 300 / (len(values) - 1), 38 / (peak or 1)
    return Graph(" ".join(f"{index * step:.1f},{39 - value * scale:.1f}" for index, value in enumerate(values)), peak)


def container_rows(
    containers: Iterable[ContainerStatus],
    host_of: Callable[[str], str],
    now: float,
    pause: Callable[[], None] = _go_on,
) -> Sequence[ContainerRow]:
    """Stalled, lost and waiting containers first, then in order of id. `host_of`: the host of the container with that
    id; `now`: the time of the status."""
    rows = []
    for each in containers:
        pause()
        rows.append(_container(each, host_of(each.id), now))
    return sorted(rows, key=lambda row: (not row.trouble and row.state in {"running", "done"}, _natural(row.id)))


def _unknown_for_s(container: ContainerStatus, now: float) -> float | None:
    return container.lag_age_s(now) if container.lags is None else None


def _container(container: ContainerStatus, host: str, now: float) -> ContainerRow:
    stalled = container.stalled
    memory_bytes = container.metrics.get("container", {}).get("resident-bytes")
    return ContainerRow(
        container.id,
        container.state,
        container.phase,
        "" if stalled is None else str(stalled),
        "" if stalled is None else stalled.stack,
        container.attempts,
        container.processed,
        container.commits,
        container.lag,
        _unknown_for_s(container, now),
        host,
        None if memory_bytes is None else int(memory_bytes),
        container.restoring,
    )


def catch_up_s(history: History) -> float | None:
    """Seconds until the lag is 0, if it goes on shrinking as in the last samples; None if it does not shrink."""
    lags = history.lags
    if len(lags) < 2 or not history.lag or history.seconds <= 0:
        return None
    recent = lags[-min(len(lags), 15) :]
    seconds = history.seconds * (len(recent) - 1) / max(1, len(lags) - 1)
    shrinking = (recent[0] - recent[-1]) / seconds if seconds else 0.0
    return recent[-1] / shrinking if shrinking > 0 else None


def tables(
    status: JobStatus,
    history: History,
    readers: Mapping[str, str],
    search: str,
    pause: Callable[[], None] = _go_on,
) -> Tables:
    """The tables of the page. `readers`: the task that reads each partition, where it is known. `search` is a part of
    the name of a partition, a container or a task; empty for all."""
    known = _Known()
    for container in sorted(status.containers, key=_id):
        pause()
        known.add(container, status.at)
    every = range(len(known.names))
    found = _matching(known, readers, search.lower(), pause) if search else every
    # Partitions with equal lags stay in order.
    rows = [_row(known, each, history, readers) for each in nsmallest(ROWS, found, key=known.keys.__getitem__)]
    pause()
    return Tables(rows, len(found), _strip(known, pause))


class _Known:
    """The partitions of a job, in order of container and name. They are columns: twenty thousand tuples would be work
    for the garbage collector at each drawing. `keys` sort the largest lag first."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.containers: list[str] = []
        self.partitions: list[PartitionStatus] = []
        self.keys: list[int] = []
        self.unknown_for_s: dict[str, float | None] = {}

    def add(self, container: ContainerStatus, now: float) -> None:
        """Add the partitions of one container."""
        self.unknown_for_s[container.id] = _unknown_for_s(container, now)
        partitions = container.partitions
        names = _sorted(tuple(partitions))
        found = [partitions[name] for name in names]
        self.names += names
        self.containers += [container.id] * len(names)
        self.partitions += found
        self.keys += [-(each.lag or 0) for each in found]


def _id(container: ContainerStatus) -> str:
    return container.id


def _matching(known: _Known, readers: Mapping[str, str], wanted: str, pause: Callable[[], None]) -> list[int]:
    """The indices of the partitions with `wanted` in the name of partition, task or container."""
    found: list[int] = []
    for start in range(0, len(known.names), _LOOKED_AT):
        pause()
        part = range(start, min(start + _LOOKED_AT, len(known.names)))
        found += [each for each in part if wanted in _searched(known.names[each], known.containers[each], readers)]
    return found


def _searched(name: str, container_id: str, readers: Mapping[str, str]) -> str:
    return f"{name} {readers.get(name, '')} container {container_id}".lower()


def _row(known: _Known, index: int, history: History, readers: Mapping[str, str]) -> PartitionRow:
    name, at = known.names[index], known.partitions[index]
    task, rate = readers.get(name, ""), history.rate_of(name)
    container = known.containers[index]
    unknown_for_s = known.unknown_for_s[container]
    return PartitionRow(
        name, container, task, at.position, at.end, at.lag, rate, at.age_s, _heat(at.lag), unknown_for_s
    )


def _heat(lag: int | None) -> int:
    return -1 if lag is None else bisect_right(_HEAT, lag)


def _strip(known: _Known, pause: Callable[[], None]) -> Sequence[Cell]:
    lags: dict[str, int | None] = {}
    for name, partition in zip(known.names, known.partitions, strict=True):
        # A partition may be an input of several containers.
        lags[name] = partition.lag if lags.get(name) is None else max(lags[name] or 0, partition.lag or 0)
    names = _sorted(tuple(lags))
    width = -(-len(names) // CELLS) or 1
    cells = []
    for start in range(0, len(names), width):
        pause()
        group = names[start : start + width]
        cells.append(_cell(group, [lag for name in group if (lag := lags[name]) is not None]))
    return cells


def _cell(names: Sequence[str], lags: Sequence[int]) -> Cell:
    those = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
    label = f"{those}: lag {sum(lags):,}" if lags else f"{those}: end not known"
    return Cell(_heat(max(lags, default=None)), label)


@lru_cache(maxsize=100_000)
def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """A sort key that puts `in[10]` after `in[9]`."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name))


@lru_cache(maxsize=4_096)
def _sorted(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names in natural order. Cached, because the partitions of a job or a container are the same in the next
    rendering."""
    return tuple(sorted(names, key=_natural))


def store_rows(status: JobStatus) -> Sequence[StoreRow]:
    """The stores in order of name."""
    return [StoreRow(name, size.partitions, size.offsets) for name, size in sorted(status.changelogs.items())]
