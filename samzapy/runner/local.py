"""All tasks of the job in one container in this process."""

from __future__ import annotations

from contextlib import closing

from samzapy.config.placement import COPIES
from samzapy.container.factory import build_container
from samzapy.container.ownership import Ownership
from samzapy.coordinator.coordinator import Coordinator, LocalLease
from samzapy.coordinator.model import JobSpec
from samzapy.coordinator.progress import JobStatus
from samzapy.errors import JobTakenOver, TaskMigrated
from samzapy.job.model import ContainerModel, JobModel
from samzapy.runner.base import JobOutcome, PreparedJob, Runner, RunOptions
from samzapy.runner.clock_keeper import ClockKeeper
from samzapy.runner.feed import StatusFeed
from samzapy.runner.ownership_watch import OwnershipWatch
from samzapy.runner.signals import STOPPING, StopSignals


class _Listener:
    """Passes the status on, and says once that a signal was heard."""

    def __init__(self, options: RunOptions, signals: StopSignals) -> None:
        self._options = options
        self._signals = signals
        self._told = False

    def __call__(self, status: JobStatus) -> None:
        if self._signals.received and not self._told:
            self._told = True
            self._options.on_event(STOPPING)
        self._options.on_status(status)


class LocalRunner(Runner):
    """Runs the job here, whatever `job.container.count` says: one process has one core's worth of Python anyway.

    Nothing is retried: the first failure is raised, and a restart begins at the last commit.
    """

    def run(self, prepared: PreparedJob, options: RunOptions) -> JobOutcome:
        """Run to the end or to a signal. Raises what the container does; JobTakenOver, whoever hears of it first."""
        config = prepared.config
        if prepared.model.standbys:
            options.on_event(f"{COPIES.name}: this process runs every task, so there are no standbys")
        model = ContainerModel("0", prepared.model.tasks)
        spec = JobSpec(
            JobModel((model,)),
            config.raw,
            prepared.ends,
            run_id=prepared.run_id,
            transactions=prepared.transactions,
        )
        coordinator = Coordinator(
            config.name,
            spec,
            config.spark.lease_ms / 1000,
            downgrades=prepared.downgrades,
            clocks=prepared.clocks,
            stall_s=config.clock.stall_ms / 1000,
            epoch=prepared.epoch,
        )
        ownership = Ownership(config, prepared.run_id)
        lease = LocalLease(coordinator, model.id, ownership.look)
        container = build_container(
            config, model, lease, ends=prepared.ends, run_id=prepared.run_id, transactions=prepared.transactions
        )
        with (
            StopSignals(container.stop) as signals,
            StatusFeed(coordinator, _Listener(options, signals)),
            closing(ownership),
            OwnershipWatch(config, prepared.run_id, coordinator, notes_end=prepared.lease_ms > 0),
            ClockKeeper(config, coordinator),
        ):
            try:
                container.run()
            except TaskMigrated as cause:
                if coordinator.abandoned is None or isinstance(cause, JobTakenOver):
                    raise
                raise JobTakenOver(coordinator.abandoned) from cause
        return JobOutcome(coordinator.status(), signals.received)
