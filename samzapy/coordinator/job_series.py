"""The driver's metrics: series of the job, of its containers and of its input partitions.

The containers serve all others at their own ports. What is unknown has no series.
"""

from __future__ import annotations

from collections.abc import Iterable

from samzapy.coordinator.status import ContainerStatus, JobStatus
from samzapy.metrics.families import Family, container_metric, counter, gauge
from samzapy.metrics.series import NUMBERS, Labels, Series
from samzapy.version import VERSION

_BUILD = gauge("build_info", "The version of samzapy that the driver has; always 1.")
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
    "lag_age_seconds", "Time since the container's lag was measured; after three periods the lag is unknown."
)
_AGE = gauge("partition_oldest_unread_seconds", "Time for which the oldest unprocessed message has waited.")
_CONTAINER_STALLED = gauge(
    "container_stalled_seconds", "Time for which the container has made no progress; absent unless it is stalled."
)
_RESTORE_READ = gauge("restore_offsets_read", "Changelog offsets read by the restore under way.")
_RESTORE_ALL = gauge("restore_offsets_expected", "Changelog offsets to read by the restore under way.")

_NUMBERS = {
    (group, name): named
    for group, names in NUMBERS.items()
    for name in names
    if (named := container_metric(group, name)) is not None
}
#: The families that the driver exports. Of `errors` it has what was skipped and dead-lettered.
OF_THE_DRIVER = (
    *(_BUILD, _SECONDS, _JOB_PROCESSED, _JOB_COMMITS, _FAILURES, _WEAKENED, _STOPPING),
    *(_CLOCK, _CHECKPOINT_CLOCK, _STALLED, _CHANGELOG, _CONTAINERS, _UP, _RESTARTS),
    *(_POSITION, _END, _LAG, _WORST_LAG, _LAG_AGE, _AGE, _CONTAINER_STALLED, _RESTORE_READ, _RESTORE_ALL),
    *dict.fromkeys(named.family for named in _NUMBERS.values()),
)


def job_series(status: JobStatus) -> Series:
    """The series of a job. The first label is `job`."""
    series, place = Series(), (("job", status.name),)
    clocks = status.clocks
    series.add(_BUILD, 1.0, (*place, ("version", VERSION)))
    for family, value in (
        (_SECONDS, status.seconds),
        (_JOB_PROCESSED, status.processed),
        (_JOB_COMMITS, status.commits),
        (_FAILURES, status.failed),
        (_WEAKENED, len(status.downgrades)),
        (_STOPPING, status.stopping),
        (_STALLED, 0.0 if clocks.stalled is None else clocks.stalled.seconds),
        (_CLOCK, None if clocks.job is None else clocks.job / 1000),
        (_CHECKPOINT_CLOCK, None if clocks.checkpoint is None else clocks.checkpoint / 1000),
    ):
        _add(series, family, value, place)
    for store, size in status.changelogs.items():
        series.add(_CHANGELOG, size.offsets, (*place, ("store", store)))
    for role, containers in (("active", status.containers), ("standby", status.standbys)):
        for each in containers:
            series.add(_CONTAINERS, 1.0, (*place, ("role", role), ("state", each.state), ("phase", each.phase)))
            _add_container(series, each, (*place, ("container", each.id)), status.at)
    return series


def _add_container(series: Series, container: ContainerStatus, place: Labels, now: float) -> None:
    read, expected = container.restoring or (None, None)
    partitions = container.partitions
    for family, value in (
        (_UP, container.state in {"running", "done"}),
        (_RESTARTS, max(0, container.attempts - 1)),
        (_RESTORE_READ, read),
        (_RESTORE_ALL, expected),
        (_CONTAINER_STALLED, None if container.stalled is None else container.stalled.seconds),
        (_LAG_AGE, container.lag_age_s(now)),
        (_WORST_LAG, _largest(at.lag for at in partitions.values())),
    ):
        _add(series, family, value, place)
    for ssp, at in partitions.items():
        stream, _, number = ssp.rpartition("[")
        where = (*place, ("stream", stream), ("partition", number.rstrip("]")))
        for family, value in ((_POSITION, at.position), (_END, at.end), (_LAG, at.lag), (_AGE, at.age_s)):
            _add(series, family, value, where)
    for (group, name), named in _NUMBERS.items():
        _add(series, named.family, container.metrics.get(group, {}).get(name), (*place, *named.labels))


def _add(series: Series, family: Family, value: float | None, labels: Labels) -> None:
    if value is not None:
        series.add(family, float(value), labels)


def _largest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)
