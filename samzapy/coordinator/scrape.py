"""Turns a job's status into the snapshots that metrics and probes are made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from samzapy.coordinator.progress import ContainerStatus, JobStatus
from samzapy.metrics.series import ContainerSnapshot, JobSnapshot, PartitionSnapshot


def job_snapshot(
    status: JobStatus, tasks: frozenset[str], ended: str = "", pause: Callable[[], None] = lambda: None
) -> JobSnapshot:
    """The snapshot for `samzapy.metrics.prometheus.render`.

    `tasks` are the names of the job's tasks; `ended` says why the run is over, empty while it goes on. `pause` is called
    between two containers.
    """

    def snapshot(container: ContainerStatus) -> ContainerSnapshot:
        pause()
        return _container(container, tasks, container.metrics, _partitions(container))

    return _job(status, ended, snapshot)


def health_snapshot(status: JobStatus, ended: str = "") -> JobSnapshot:
    """The snapshot for `samzapy.metrics.health`: without metrics and partitions, which a probe does not look at."""
    return _job(status, ended, lambda container: _container(container, frozenset(), {}, {}))


def _job(status: JobStatus, ended: str, snapshot: Callable[[ContainerStatus], ContainerSnapshot]) -> JobSnapshot:
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
        ended,
    )


def _container(
    status: ContainerStatus,
    tasks: frozenset[str],
    metrics: Mapping[str, Mapping[str, float]],
    partitions: Mapping[str, PartitionSnapshot],
) -> ContainerSnapshot:
    return ContainerSnapshot(
        status.id,
        tasks,
        metrics,
        status.state,
        status.phase,
        status.attempts,
        partitions,
        0.0 if status.stalled is None else status.stalled.seconds,
        status.restoring,
    )


def _partitions(status: ContainerStatus) -> Mapping[str, PartitionSnapshot]:
    found = {ssp: PartitionSnapshot(at, status.ends.get(ssp)) for ssp, at in status.positions.items()}
    for ssp, lag in status.lags.items():
        # The position of the newest report is newer than the one beside the end.
        position = found[ssp].position if ssp in found else lag.position
        found[ssp] = PartitionSnapshot(position, lag.end, None if lag.age_ms is None else lag.age_ms / 1000)
    return found
