"""Converts snapshots of a job, or of one container, to series: family, labels, value.

The number of series is bounded, whatever the size of the job:

1. A family with more series than the limit loses the label `task`, then `partition`, `store` and `stream`. Values that
   coincide are added up, or combined by the `Merge` of their family: a clock becomes the lowest of them.
2. The label `container` stays. All counters of a container start again together, so a sum over its tasks falls only at a
   restart, and `rate()` stays right.
3. The job's own code gets at most `USER_FAMILIES` families; the metrics beyond are counted, not exported.

All functions are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import add
from typing import NamedTuple

from samzapy.metrics.families import (
    PREFIX,
    Family,
    Kind,
    Merge,
    Named,
    container_metric,
    counter,
    gauge,
    task_metric,
)
from samzapy.version import VERSION

#: Most series of a family before it loses labels, unless the job file says otherwise.
SERIES_LIMIT = 500
#: Most families for metrics of the job's own code.
USER_FAMILIES = 200

Groups = Mapping[str, Mapping[str, float]]
Labels = tuple[tuple[str, str], ...]


class PartitionSnapshot(NamedTuple):
    """An input partition: the next offset to process, the offset after its last record, the offsets between the two when the
    end was asked for, and how many seconds the oldest unprocessed record has waited. None: not known."""

    position: int
    end: int | None = None
    lag: int | None = None
    age_s: float | None = None


@dataclass(frozen=True)
class ContainerSnapshot:
    """One container at one moment.

    `metrics` is a registry's snapshot; groups named in `tasks` belong to tasks. Only the driver knows the rest: `state` and
    `phase` of the newest attempt, the number of `attempts`, `partitions` by SSP as text, the seconds since it last made
    progress (`stalled_s`, 0 unless it is stalled), and `restoring`, the (offsets read, offsets to read) of its restores.
    """

    id: str
    tasks: frozenset[str]
    metrics: Groups
    state: str = "running"
    phase: str = "running"
    attempts: int = 1
    partitions: Mapping[str, PartitionSnapshot] = field(default_factory=dict)
    stalled_s: float = 0.0
    restoring: tuple[int, int] | None = None


@dataclass(frozen=True)
class JobSnapshot:
    """A job at one moment, as its driver knows it.

    `processed` and `commits` count all attempts. Clocks are in event time, milliseconds since 1970, None before there is
    one; `stalled_s` is the time for which the job's clock has stood still while a task's advanced, 0 if it does not.
    """

    name: str
    containers: tuple[ContainerSnapshot, ...]
    standbys: tuple[ContainerSnapshot, ...] = ()
    seconds: float = 0.0
    processed: int = 0
    commits: int = 0
    failures: int = 0
    weakened: int = 0
    stopping: bool = False
    clock_ms: int | None = None
    checkpoint_clock_ms: int | None = None
    stalled_s: float = 0.0


class Sample(NamedTuple):
    """One value of a family; `part` is `_sum` or `_count` for a summary, else empty."""

    part: str
    labels: Labels
    value: float


class Series(NamedTuple):
    """A family with its values."""

    family: Family
    samples: list[Sample]


_BUILD = gauge("build_info", "The version of samzapy that the driver has; always 1.", Merge.MAX)
_SECONDS = gauge("job_run_seconds", "Time from the first attempt's start to the newest report.")
_JOB_PROCESSED = counter("job_messages_processed", "Messages processed by all containers and attempts.")
_JOB_COMMITS = counter("job_commits", "Commits made by all containers and attempts.")
_FAILURES = counter("job_failures", "Attempts of containers that have failed.")
_WEAKENED = gauge("job_weakened_promises", "Reasons why the job's guarantee is weakened.")
_STOPPING = gauge("job_stopping", "1 after the job was asked to stop.")
_CLOCK = gauge("job_clock_timestamp_seconds", "Event time that all tasks of the job have reached.")
_CHECKPOINT_CLOCK = gauge(
    "job_checkpoint_timestamp_seconds", "Latest event time for which every task has a checkpoint of its state."
)
_STALLED = gauge("job_clock_stalled_seconds", "Time for which the job's clock has stood still while a task's advanced.")
_CONTAINERS = gauge("containers", "Containers, by the state of their lease and by phase.")
_UP = gauge("container_up", "1 if an attempt of the container holds its lease, or has ended well.")
_RESTARTS = counter("container_restarts", "Attempts of the container after the first.")
_POSITION = gauge("partition_position", "Next offset to process.")
_END = gauge("partition_end_offset", "Offset after the partition's last message, when the container last asked for it.")
_LAG = gauge("partition_lag_messages", "Offsets between position and end when the end was last asked for.")
_WORST_LAG = gauge("container_lag_max_messages", "The largest lag of the container's partitions.")
_AGE = gauge("partition_oldest_unread_seconds", "Time for which the oldest unprocessed message has waited.", Merge.MAX)
_CONTAINER_STALLED = gauge(
    "container_stalled_seconds", "Time for which the container has made no progress; absent unless it is stalled."
)
_RESTORE_READ = gauge("restore_offsets_read", "Changelog offsets read by the restore under way.")
_RESTORE_ALL = gauge("restore_offsets_expected", "Changelog offsets to read by the restore under way.")
_LEFT_OUT = gauge(
    "metrics_left_out", "Metrics of the job's own code that are not exported, because there are too many names."
)

#: The families that only the driver exports.
OF_THE_JOB = (
    *(_BUILD, _SECONDS, _JOB_PROCESSED, _JOB_COMMITS, _FAILURES, _WEAKENED, _STOPPING),
    *(_CLOCK, _CHECKPOINT_CLOCK, _STALLED, _CONTAINERS, _UP, _RESTARTS),
    *(_POSITION, _END, _LAG, _WORST_LAG, _AGE, _CONTAINER_STALLED, _RESTORE_READ, _RESTORE_ALL, _LEFT_OUT),
)


def job_series(job: JobSnapshot, limit: int = SERIES_LIMIT) -> list[Series]:
    """The series of a whole job, in order of name. The first label is `job`."""
    collected = _Collected(job.name)
    collected.add(_BUILD, 1.0, (("version", VERSION),))
    for family, value in (
        (_SECONDS, job.seconds),
        (_JOB_PROCESSED, job.processed),
        (_JOB_COMMITS, job.commits),
        (_FAILURES, job.failures),
        (_WEAKENED, job.weakened),
        (_STOPPING, job.stopping),
        (_STALLED, job.stalled_s),
    ):
        collected.add(family, float(value))
    for family, time_ms in ((_CLOCK, job.clock_ms), (_CHECKPOINT_CLOCK, job.checkpoint_clock_ms)):
        if time_ms is not None:
            collected.add(family, time_ms / 1000)
    for role, containers in (("active", job.containers), ("standby", job.standbys)):
        for container in containers:
            _add_status(collected, container, role)
            collected.add_registry(container)
    return collected.bounded(limit)


def container_series(job_name: str, container: ContainerSnapshot, limit: int = SERIES_LIMIT) -> list[Series]:
    """The series of one container's registry. The first labels are `job` and `container`."""
    collected = _Collected(job_name)
    collected.add_registry(container)
    return collected.bounded(limit)


def _add_status(collected: _Collected, container: ContainerSnapshot, role: str) -> None:
    place = (("container", container.id),)
    collected.add(_CONTAINERS, 1.0, (("role", role), ("state", container.state), ("phase", container.phase)))
    collected.add(_UP, float(container.state in {"running", "done"}), place)
    collected.add(_RESTARTS, float(max(0, container.attempts - 1)), place)
    if container.restoring is not None:
        read, expected = container.restoring
        collected.add(_RESTORE_READ, float(read), place)
        collected.add(_RESTORE_ALL, float(expected), place)
    if container.stalled_s:
        collected.add(_CONTAINER_STALLED, container.stalled_s, place)
    worst = -1
    for ssp, (position, end, lag, age_s) in container.partitions.items():
        stream, _, partition = ssp.rpartition("[")
        where = (*place, ("stream", stream), ("partition", partition.rstrip("]")))
        collected.add(_POSITION, float(position), where)
        if end is not None:
            collected.add(_END, float(end), where)
        if lag is not None:
            worst = max(worst, lag)
            collected.add(_LAG, float(lag), where)
        if age_s is not None:
            collected.add(_AGE, age_s, where)
    if worst >= 0:
        collected.add(_WORST_LAG, float(worst), place)


_Rows = dict[tuple[str, Labels], float]


class _Slot(NamedTuple):
    rows: _Rows
    part: str
    labels: Labels
    scale: float


class _Collected:
    """The rows of each family. A name is looked up once for all tasks."""

    def __init__(self, job_name: str) -> None:
        self._job: Labels = (("job", job_name),)
        self._families: dict[str, tuple[Family, _Rows]] = {}
        self._slots: dict[tuple[str, str], _Slot | None] = {}
        self._users = 0
        self._left_out = 0

    def add(self, family: Family, value: float, labels: Labels = ()) -> None:
        """Add one value, to the sum of those with equal labels."""
        rows, key = self._rows_of(family), ("", self._job + labels)
        rows[key] = rows.get(key, 0.0) + value

    def add_registry(self, container: ContainerSnapshot) -> None:
        """Add the snapshot of a container's registry."""
        place: Labels = (*self._job, ("container", container.id))
        for group, values in container.metrics.items():
            if group in container.tasks:
                self._add_group("", values, (*place, ("task", group)), task_metric)
            else:
                self._add_group(group, values, place, partial(container_metric, group))

    def bounded(self, limit: int) -> list[Series]:
        """All families in order of name. A family with more series than `limit` has lost labels."""
        if self._left_out:
            self.add(_LEFT_OUT, float(self._left_out))
        found = []
        for name in sorted(self._families):
            family, rows = self._families[name]
            for label in ("task", "partition", "store", "stream"):
                if len(rows) <= limit:
                    break
                rows = _without(label, rows, family.merge)
            if rows:
                found.append(Series(family, [Sample(part, labels, value) for (part, labels), value in rows.items()]))
        return found

    def _add_group(
        self, group: str, values: Mapping[str, float], place: Labels, find: Callable[[str], Named | None]
    ) -> None:
        slots = self._slots
        for name, value in values.items():
            try:
                slot = slots[group, name]
            except KeyError:
                slot = slots[group, name] = self._slot(find(name))
            if slot is not None:
                rows, part, labels, scale = slot
                key = (part, place + labels)
                rows[key] = rows.get(key, 0.0) + value * scale

    def _slot(self, named: Named | None) -> _Slot | None:
        if named is None:
            return None
        family = named.family
        if family.kind is Kind.UNTYPED and family.name not in self._families:
            if self._users >= USER_FAMILIES:
                self._left_out += 1
                return None
            self._users += 1
        return _Slot(self._rows_of(family), named.part, named.labels, family.scale)

    def _rows_of(self, family: Family) -> _Rows:
        return self._families.setdefault(family.name, (family, {}))[1]


_MERGES: Mapping[Merge, Callable[[float, float], float]] = {Merge.SUM: add, Merge.MAX: max, Merge.MIN: min}


def _without(label: str, rows: _Rows, merge: Merge) -> _Rows:
    merged: _Rows = {}
    combine = _MERGES[merge]
    for (part, labels), value in rows.items():
        key = (part, tuple([pair for pair in labels if pair[0] != label]))
        merged[key] = combine(merged[key], value) if key in merged else value
    return merged


def family_names(families: Iterable[Family]) -> set[str]:
    """The names of all samples that the families export."""
    return {name for family in families for name in sample_names(family)}


def sample_names(family: Family) -> tuple[str, ...]:
    """The names of the samples that one family exports."""
    full = PREFIX + family.name
    if family.kind is Kind.COUNTER:
        return (f"{full}_total",)
    if family.kind is Kind.SUMMARY:
        return (f"{full}_sum", f"{full}_count")
    return (full,)
