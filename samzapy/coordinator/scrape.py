"""Converts a job's status to the snapshot of which its metrics are made."""

from __future__ import annotations

from collections.abc import Callable

from samzapy.coordinator.progress import ContainerStatus, JobStatus
from samzapy.metrics.series import ContainerSnapshot, JobSnapshot


def job_snapshot(status: JobStatus, tasks: frozenset[str], pause: Callable[[], None] = lambda: None) -> JobSnapshot:
    """The snapshot for `samzapy.metrics.prometheus.render`; `tasks` are the names of the job's tasks. `pause` is called between
    two containers."""

    def snapshot(container: ContainerStatus) -> ContainerSnapshot:
        pause()
        return _container(container, tasks)

    clocks = status.clocks
    return JobSnapshot(
        status.name,
        tuple(map(snapshot, status.containers)),
        tuple(map(snapshot, status.standbys)),
        status.seconds,
        status.processed,
        status.commits,
        status.failed,
        len(status.downgrades),
        status.stopping,
        clocks.job,
        clocks.checkpoint,
        0.0 if clocks.stalled is None else clocks.stalled.seconds,
    )


def _container(status: ContainerStatus, tasks: frozenset[str]) -> ContainerSnapshot:
    return ContainerSnapshot(
        status.id,
        tasks,
        status.metrics,
        status.state,
        status.phase,
        status.attempts,
        status.partitions,
        0.0 if status.stalled is None else status.stalled.seconds,
        status.restoring,
    )
