"""All tasks of the job in one container in this process."""

from __future__ import annotations

from samzapy.container.factory import build_container
from samzapy.coordinator.coordinator import Coordinator, LocalLease
from samzapy.coordinator.model import JobSpec
from samzapy.coordinator.progress import JobStatus
from samzapy.job.model import ContainerModel, JobModel
from samzapy.runner.base import JobOutcome, PreparedJob, Runner, RunOptions
from samzapy.runner.feed import StatusFeed
from samzapy.runner.signals import STOPPING, StopSignals

#: Here the coordinator always answers, so the lease only sets the pace of the reports: a third of it.
LEASE_S = 1.5


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
        """Run to the end or to a signal."""
        config = prepared.config
        model = ContainerModel("0", prepared.model.tasks)
        spec = JobSpec(JobModel((model,)), config.raw, prepared.ends)
        coordinator = Coordinator(config.name, spec, LEASE_S, downgrades=prepared.downgrades)
        lease = LocalLease(coordinator, model.id)
        container = build_container(config, model, lease, ends=prepared.ends)
        with StopSignals(container.stop) as signals, StatusFeed(coordinator, _Listener(options, signals)):
            container.run()
        return JobOutcome(coordinator.status(), signals.received)
