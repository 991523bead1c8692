"""Converts snapshots of a job, or of one container, to series: family, labels, value.

The number of series is bounded, whatever the size of the job (`samzapy.metrics.bounded`):

1. A family with many series loses the label `task`, then `partition`, `store` and `stream`. The label `container`
   stays: all counters of a container start again together, so a sum over its tasks falls only at a restart, and
   `rate()` stays right.
2. A family of histograms with many buckets has sums and counts only.
3. A job with too many series leaves out whole families: first of clients and of the job's own code, then of stores, of
   tasks and of containers. `metrics_series_left_out` counts their series.

All functions are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from samzapy.metrics.bounded import DROPPED, BoundedSeries, Bounds, Labels, Registered, Sample, Series
from samzapy.metrics.columns import MetricColumns
from samzapy.metrics.families import BUCKET, PREFIX, Family, Kind, Merge, counter, gauge, known_families
from samzapy.version import VERSION

Groups = Mapping[str, Mapping[str, float]]


class PartitionSnapshot(msgspec.Struct, frozen=True, gc=False):
    """An input partition when its end was asked for: the next offset to process, the offset after its last record, the
    offsets between the two, and the seconds for which the oldest unprocessed record has waited. None: not known. The
    garbage collector does not look at it: a driver has twenty thousand, and makes them again all the time."""

    position: int
    end: int | None = None
    lag: int | None = None
    age_s: float | None = None


@dataclass(frozen=True)
class ContainerSnapshot:
    """One container at one moment.

    `metrics` is a registry's snapshot; groups named in `tasks` belong to tasks. Only the driver knows the rest: `state`
    and `phase` of the newest attempt, the number of `attempts`, `partitions` by SSP as text, the seconds since it last
    made progress (`stalled_s`, 0 unless it is stalled), `restoring`, the (offsets read, offsets to read) of its
    restores, and the seconds since its lag was measured (None: it has none).
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
    lag_age_s: float | None = None


@dataclass(frozen=True)
class JobSnapshot:
    """A job at one moment, as its driver knows it.

    `processed` and `commits` count all attempts. Clocks are in event time, milliseconds since 1970, None before the
    first value; `stalled_s` is the time for which the job's clock has stood still while a task's advanced, 0 if it does
    not. `changelog_offsets`: by store, the offsets between beginning and end of its changelog's partitions.
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
    changelog_offsets: Mapping[str, int] = field(default_factory=dict)


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
_CHANGELOG = gauge(
    "job_changelog_offsets",
    "Offsets between beginning and end of a store's changelog: at most so many records, as compaction leaves gaps.",
)
_CONTAINERS = gauge("containers", "Containers, by the state of their lease and by phase.")
_UP = gauge("container_up", "1 if an attempt of the container holds its lease, or has ended well.")
_RESTARTS = counter("container_restarts", "Attempts of the container after the first.")
_POSITION = gauge("partition_position", "Next offset to process, when the end was last asked for.")
_END = gauge(
    "partition_end_offset",
    "Offset after the partition's last message, when last asked for; absent if that was long ago.",
)
_LAG = gauge("partition_lag_messages", "Offsets between position and end; absent if it is unknown.")
_WORST_LAG = gauge(
    "container_lag_max_messages", "The largest lag of the container's partitions; absent if it is unknown."
)
_LAG_AGE = gauge(
    "lag_age_seconds", "Time since the container's lag was measured; after three periods the lag is unknown.", Merge.MAX
)
_AGE = gauge("partition_oldest_unread_seconds", "Time for which the oldest unprocessed message has waited.", Merge.MAX)
_CONTAINER_STALLED = gauge(
    "container_stalled_seconds", "Time for which the container has made no progress; absent unless it is stalled."
)
_RESTORE_READ = gauge("restore_offsets_read", "Changelog offsets read by the restore under way.")
_RESTORE_ALL = gauge("restore_offsets_expected", "Changelog offsets to read by the restore under way.")
_NAMES_LEFT_OUT = gauge(
    "metrics_left_out", "Metrics of the job's own code that are not exported, because there are too many names."
)
_LEFT_OUT = gauge(
    "metrics_series_left_out", "Series of families that are not exported, because the driver serves at most 100,000."
)

#: The families that only the driver exports.
OF_THE_JOB = (
    *(_BUILD, _SECONDS, _JOB_PROCESSED, _JOB_COMMITS, _FAILURES, _WEAKENED, _STOPPING),
    *(_CLOCK, _CHECKPOINT_CLOCK, _STALLED, _CHANGELOG, _CONTAINERS, _UP, _RESTARTS),
    *(_POSITION, _END, _LAG, _WORST_LAG, _LAG_AGE, _AGE, _CONTAINER_STALLED, _RESTORE_READ, _RESTORE_ALL),
    *(_NAMES_LEFT_OUT, _LEFT_OUT),
)


#: Families in the order in which they are chosen while there is room.
_RANKS = {family.name: rank for rank, family in enumerate((*OF_THE_JOB, *known_families()))}
_BOUNDS = Bounds()


def _go_on() -> None:
    """The default of `pause`."""


def job_series(job: JobSnapshot, bounds: Bounds = _BOUNDS, pause: Callable[[], None] = _go_on) -> list[Series]:
    """The series of a whole job, in order of name. The first label is `job`. `pause` is called about once a
    millisecond, and may let other threads run."""
    place = (("job", job.name),)
    collected = BoundedSeries(place, bounds, _RANKS, pause)
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
    for store, offsets in job.changelog_offsets.items():
        collected.add(_CHANGELOG, float(offsets), (("store", store),))
    everyone = (*job.containers, *job.standbys)
    dropped = _dropped_of_partitions(everyone, bounds.family)
    for role, containers in (("active", job.containers), ("standby", job.standbys)):
        for container in containers:
            collected.add(_CONTAINERS, 1.0, (("role", role), ("state", container.state), ("phase", container.phase)))
            _add_status(collected, container, dropped)
            pause()
    found = collected.take([_registered(job.name, container) for container in everyone])
    for family, left_out in ((_LEFT_OUT, collected.left_out), (_NAMES_LEFT_OUT, collected.names_left_out)):
        if left_out or family is _LEFT_OUT:
            found[family.name] = Series(family, [Sample("", place, (), float(left_out))])
    return _in_order(found)


def container_series(job_name: str, container: ContainerSnapshot, bounds: Bounds = _BOUNDS) -> list[Series]:
    """The series of one container's registry. The first labels are `job` and `container`."""
    collected = BoundedSeries((("job", job_name),), bounds, _RANKS, _go_on)
    return _in_order(collected.take((_registered(job_name, container),)))


def _in_order(found: Mapping[str, Series]) -> list[Series]:
    return [found[name] for name in sorted(found) if found[name].samples]


def _registered(job_name: str, container: ContainerSnapshot) -> Registered:
    place = (("job", job_name), ("container", container.id))
    return Registered(place, container.tasks, MetricColumns.of(container.metrics))


def _dropped_of_partitions(containers: Iterable[ContainerSnapshot], limit: int) -> tuple[str, ...]:
    """The labels that the families of partitions lose. All lose the same, because queries combine them."""
    partitions = streams = 0
    for container in containers:
        partitions += len(container.partitions)
        streams += len({ssp.rpartition("[")[0] for ssp in container.partitions})
    return () if partitions <= limit else DROPPED[:2] if streams <= limit else DROPPED


def _add_status(collected: BoundedSeries, container: ContainerSnapshot, dropped: tuple[str, ...]) -> None:
    place = (("container", container.id),)
    collected.add(_UP, float(container.state in {"running", "done"}), place)
    collected.add(_RESTARTS, float(max(0, container.attempts - 1)), place)
    if container.restoring is not None:
        read, expected = container.restoring
        collected.add(_RESTORE_READ, float(read), place)
        collected.add(_RESTORE_ALL, float(expected), place)
    if container.stalled_s:
        collected.add(_CONTAINER_STALLED, container.stalled_s, place)
    if container.lag_age_s is not None:
        collected.add(_LAG_AGE, container.lag_age_s, place)
    _add_partitions(collected, container.partitions, place, dropped)


def _add_partitions(
    collected: BoundedSeries, partitions: Mapping[str, PartitionSnapshot], place: Labels, dropped: tuple[str, ...]
) -> None:
    together: dict[Labels, list[PartitionSnapshot]] = {}
    if partitions and dropped == DROPPED:
        together[()] = list(partitions.values())
        partitions = {}
    for ssp, partition in partitions.items():
        stream, _, number = ssp.rpartition("[")
        labels = (("stream", stream), ("partition", number.rstrip("]")))
        together.setdefault(tuple([pair for pair in labels if pair[0] not in dropped]), []).append(partition)
    worst: list[int] = []
    for own, each in together.items():
        where = place + own
        collected.add(_POSITION, float(sum([at.position for at in each])), where)
        ends = [at.end for at in each if at.end is not None]
        lags = [at.lag for at in each if at.lag is not None]
        ages = [at.age_s for at in each if at.age_s is not None]
        if ends:
            collected.add(_END, float(sum(ends)), where)
        if lags:
            collected.add(_LAG, float(sum(lags)), where)
            worst.append(max(lags))
        if ages:
            collected.add(_AGE, max(ages), where)
    if worst:
        collected.add(_WORST_LAG, float(max(worst)), place)


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
    if family.kind is Kind.HISTOGRAM:
        return (f"{full}{BUCKET}", f"{full}_sum", f"{full}_count")
    return (full,)
