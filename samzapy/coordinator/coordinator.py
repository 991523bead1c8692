"""The coordinator of one run of a job: leases and progress behind one lock, whoever asks."""

from __future__ import annotations

import threading

from samzapy.api.lease import ContainerLease, ContainerReport, Directive
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.promises import Downgrade
from samzapy.coordinator.leases import ContainerState, Leases
from samzapy.coordinator.model import JobSpec
from samzapy.coordinator.progress import ContainerFailure, JobStatus, Progress

#: Phases after which no more reports come.
_ENDS = {"done": ContainerState.DONE, "failed": ContainerState.LOST}


class Coordinator:
    """Answers the containers of one job. Safe to call from several threads.

    Unknown container ids raise KeyError everywhere.
    """

    def __init__(
        self,
        name: str,
        spec: JobSpec,
        lease_s: float,
        clock: Clock = SYSTEM_CLOCK,
        *,
        downgrades: tuple[Downgrade, ...] = (),
    ) -> None:
        """`downgrades`: what makes the job's guarantee mean less than it says, for those who look at its status."""
        ids = tuple(container.id for container in spec.model.containers)
        self._name = name
        self._downgrades = downgrades
        self._spec = spec
        self._ids = ids
        self._leases = Leases(ids, lease_s, clock)
        self._progress = Progress(ids)
        self._clock = clock
        self._started: float | None = None
        self._newest = 0.0
        self._changed = threading.Condition()

    @property
    def spec(self) -> JobSpec:
        """What a container is handed."""
        return self._spec

    @property
    def lease_s(self) -> float:
        """How long a lease lasts without a report."""
        return self._leases.duration_s

    def knows(self, container_id: str) -> bool:
        """Whether the job has a container of that id."""
        return container_id in self._ids

    def register(self, container_id: str) -> int:
        """Grant the container to a new attempt; returns its epoch."""
        with self._changed:
            epoch = self._leases.grant(container_id)
            if self._started is None:
                self._started = self._newest = self._clock.monotonic()
            self._changed.notify_all()
            return epoch

    def report(self, report: ContainerReport) -> Directive:
        """Take a report and say what to do; what a superseded attempt reports is not counted."""
        with self._changed:
            directive = self._leases.renew(report.container_id, report.epoch)
            if directive is not Directive.ABANDON:
                self._newest = self._clock.monotonic()
                self._progress.update(report)
                if report.phase in _ENDS:
                    self._leases.finish(report.container_id, report.epoch, _ENDS[report.phase])
                self._changed.notify_all()
            return directive

    def fail(self, failure: ContainerFailure) -> None:
        """Take the reason an attempt ended."""
        with self._changed:
            self._leases.finish(failure.container_id, failure.epoch, ContainerState.LOST)
            self._progress.fail(failure)
            self._changed.notify_all()

    def stop(self) -> None:
        """Answer STOP to every report from now on."""
        with self._changed:
            self._leases.stop()
            self._changed.notify_all()

    @property
    def stopping(self) -> bool:
        """Whether a stop was asked for."""
        with self._changed:
            return self._leases.stopping

    def status(self) -> JobStatus:
        """Everything known now."""
        with self._changed:
            leases = self._leases
            containers = tuple(
                self._progress.status(i, leases.state(i).value, leases.attempts(i), leases.epoch(i)) for i in self._ids
            )
            seconds = 0.0 if self._started is None else self._newest - self._started
            told = self._progress
            return JobStatus(
                self._name,
                leases.stopping,
                seconds,
                containers,
                told.restored,
                told.failures,
                told.failed,
                self._downgrades,
                told.counts,
            )

    def wait(self, timeout_s: float) -> None:
        """Return at the next change, or after `timeout_s` seconds."""
        with self._changed:
            self._changed.wait(timeout_s)


class LocalLease(ContainerLease):
    """The lease of a container that runs in the coordinator's own process."""

    def __init__(self, coordinator: Coordinator, container_id: str) -> None:
        self._coordinator = coordinator
        self._epoch = coordinator.register(container_id)

    @property
    def epoch(self) -> int:
        """The attempt's number."""
        return self._epoch

    @property
    def duration_s(self) -> float:
        """The coordinator's lease."""
        return self._coordinator.lease_s

    def report(self, report: ContainerReport) -> Directive:
        """Tell the coordinator; it always answers."""
        return self._coordinator.report(report)
