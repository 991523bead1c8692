"""Coordinates one run of a job: leases, progress and clocks, behind one lock."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from samzapy.clock import STALE_AFTER, SYSTEM_CLOCK, Clock
from samzapy.config.guarantee_warnings import GuaranteeWarning
from samzapy.coordinator.clocks import Clocks, KeptClocks
from samzapy.coordinator.leases import ContainerState, Leases
from samzapy.coordinator.overview.history import History
from samzapy.coordinator.progress import Progress, SameFailures
from samzapy.coordinator.status import ContainerFailure, JobStatus
from samzapy.coordinator.wire import AttemptProcess, JobSpec
from samzapy.errors import JobTakenOver, RetriableError, SamzapyError
from samzapy.job.lease import ContainerLease, ContainerReport, Directive, Facts, HttpAddress, UserFailure
from samzapy.job.planner import replica_of

logger = logging.getLogger(__name__)

#: Reports that a coordinator answers a second, and reports of a standby in the time of one of a container.
BEATS, STANDBY_BEATS = 200, 4
#: How many times as often containers report while they should notice a request at once.
HURRY = 10
#: Seconds between two measurements of a container's lag.
LAG_S = 5.0
#: Seconds for which the job's clock may stand still, while a task advances, before a warning.
STALL_S = 120.0
#: Equal failures of the user's code that end the job.
SAME_FAILURES = 4
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
        downgrades: tuple[GuaranteeWarning, ...] = (),
        clocks: KeptClocks | None = None,
        epoch: int | None = None,
        listen: Callable[[str, Facts | UserFailure], None] = lambda *_: None,
    ) -> None:
        """`downgrades`: the reasons why the job's guarantee is weakened, for its status. `clocks`: the clocks of
        earlier runs. `epoch`: the run's recorded epoch, None without a record. `listen` gets the facts of each report,
        and each failure of the user's code that ended an attempt, repeated ones once; from any thread."""
        ids = tuple(container.id for container in spec.model.containers)
        self._name = name
        self.downgrades = [*downgrades]
        """More of them may be found while the job runs."""
        self.spec = spec
        """The job as sent to the containers."""
        self.lease_s = lease_s
        """Seconds for which a lease lasts without a report."""
        self.hurried = False
        """Whether containers report ten times as often, so that they notice a request at once."""
        self.abandoned: str | None = None
        """The reason why this run has lost the job; None while it owns it."""
        self._ids = ids
        self._standbys = tuple(container.id for container in spec.model.standbys)
        self._tasks = {item.id: tuple(task.name for task in item.tasks) for item in spec.model.containers}
        beats = len(ids) + STANDBY_BEATS * len(self._standbys)
        self._pace_s = min(lease_s / 3, max(1.0, beats / BEATS))
        self._leases = Leases((*ids, *self._standbys), lease_s, clock, epoch)
        now, lag_s = clock.monotonic(), max(LAG_S, self._pace_s)
        # A lease has room for three reports, so the figures of a container are known as long as its lease.
        self._progress = Progress((*ids, *self._standbys), now, lag_s, lease_s / STALE_AFTER)
        self._ran: set[str] = set()
        #: The standbys that have failed since they ran.
        self._failing: set[str] = set()
        #: The HTTP ports of the newest attempts, by container, from their first reports on; none of a run that has lost
        #: the job. Any thread may look an entry up.
        self.ports: dict[str, HttpAddress] = {}
        self.history = History()
        """The figures of the run over time, as `sample` has noted them."""
        self.links: dict[str, str] = {}
        """Pages about this run elsewhere: the address by the name."""
        self._clocks = Clocks((task.name for task in spec.model.tasks), clocks or KeptClocks(), STALL_S, clock)
        self._clock = clock
        self._same_failures = SameFailures(SAME_FAILURES, clock)
        self._listen = listen
        self._started: float | None = None
        self._newest = 0.0
        self._processes: dict[str, AttemptProcess | None] = {}
        #: The container that each process registered last.
        self._last_of: dict[tuple[str, int, int], str] = {}
        self._lock = threading.Lock()

    def knows(self, container_id: str) -> bool:
        """Whether the job has a container with that id."""
        return container_id in self._tasks or container_id in self._standbys

    def pace_s(self, container_id: str) -> float:
        """Seconds between two reports of this container or standby.

        Containers of a larger job report less often, so that the coordinator answers at most `BEATS` reports a second;
        more only where a lease would not have room for three. A standby reports more often: a container that has lost
        its executor waits until the standby notices that it has to stop.
        """
        if self.hurried:
            return self._pace_s / HURRY
        return self._pace_s / STANDBY_BEATS if replica_of(container_id) else self._pace_s

    def register(self, container_id: str, process: AttemptProcess | None = None) -> int:
        """Grant the container to a new attempt, which runs in `process`; returns its epoch."""
        with self._lock:
            self._place(container_id, process)
            self.ports.pop(container_id, None)
            epoch = self._leases.grant(container_id)
            if container_id in self._tasks:
                self._clocks.restart(self._tasks[container_id])
            if self._started is None:
                self._started = self._newest = self._clock.monotonic()
            return epoch

    def _place(self, container_id: str, process: AttemptProcess | None) -> None:
        before = self._processes.get(container_id)
        if before is not None and self._last_of.get(before.identity) == container_id:
            del self._last_of[before.identity]
        self._processes[container_id] = process
        if process is not None:
            self._last_of[process.identity] = container_id

    def outgrow(self, container_id: str, epoch: int, newest: int) -> int | None:
        """An epoch greater than `newest` for the attempt with `epoch`; None if another attempt has the container."""
        with self._lock:
            return self._leases.outgrow(container_id, epoch, newest)

    def process(self, container_id: str) -> AttemptProcess | None:
        """The process of the newest attempt; None if it is unknown, or before the first attempt."""
        return self._processes.get(container_id)

    def predecessor(self, container_id: str) -> AttemptProcess | None:
        """The process of the newest attempt, which a new attempt must end first. None if the newest attempt has ended
        normally, or if its process has registered another container since: Spark reuses a process after its attempt."""
        with self._lock:
            process = self._processes.get(container_id)
            ended_well = self._leases.standing(container_id).state in {ContainerState.DONE, ContainerState.WAITING}
            if process is None or ended_well or self._last_of.get(process.identity) != container_id:
                return None
            return process

    def overdue(self) -> Sequence[tuple[str, int, int | None]]:
        """The attempts with expired leases that have not reported their end: container, epoch and Spark's id of the
        task, if known."""
        with self._lock:
            leases = self._leases
            attempts = [(i, leases.standing(i).epoch or 0, self._processes.get(i)) for i in leases.overdue]
        return [(i, epoch, None if process is None else process.spark_task) for i, epoch, process in attempts]

    @property
    def now(self) -> float:
        """The time of its monotonic clock in seconds."""
        return self._clock.monotonic()

    def report(self, report: ContainerReport) -> Directive:
        """Accept a report and return the directive. A report of a superseded attempt is ignored."""
        with self._lock:
            directive = self._leases.renew(report.container_id, report.epoch)
            if directive is not Directive.ABANDON:
                self._newest = self._clock.monotonic()
                if report.phase == "running":
                    self._ran.add(report.container_id)
                    self._failing.discard(report.container_id)
                self._progress.update(report, self._newest)
                self._clocks.update(report.clocks)
                if report.port is not None:
                    self.ports[report.container_id] = report.port
                if report.phase in _ENDS:
                    self._leases.finish(report.container_id, report.epoch, _ENDS[report.phase])
            # Outside the lock: the listener may take its time without delaying other reports.
        self._listen(report.container_id, report.facts)
        return directive

    def directive(self, container_id: str, epoch: int) -> Directive:
        """The current directive for an attempt. Does not renew its lease."""
        with self._lock:
            return self._leases.directive(container_id, epoch)

    def has_run(self, container_id: str) -> bool:
        """Whether an attempt of this run has processed, or waited for, messages."""
        return container_id in self._ran

    def fail(self, failure: ContainerFailure) -> bool:
        """Accept the reason why an attempt ended; returns whether another attempt is useless."""
        with self._lock:
            times = 0 if failure.user is None else self._same_failures.times(failure.user)
            if times >= self._same_failures.most:
                same = f"; failed attempts of this kind: {self._same_failures.most}"
                failure = replace(failure, message=failure.message + same, permanent=True)
            self._leases.finish(failure.container_id, failure.epoch, ContainerState.LOST)
            if failure.container_id not in self._standbys:
                self._progress.fail(replace(failure, time_ms=self._clock.wall_ms()))
            elif failure.container_id not in self._failing:
                # It does not affect the job, which lacks the copies until it runs.
                self._failing.add(failure.container_id)
                logger.warning("standby %s failed, and starts again: %s", failure.container_id, failure.message)
            if failure.error == JobTakenOver.__name__:
                self._abandon(failure.message)
        if failure.user is not None and times == 1:
            self._listen(failure.container_id, failure.user)
        return failure.permanent

    def release(self, container_id: str) -> None:
        """Answer STOP to the reports of this container's attempt from now on."""
        with self._lock:
            self._leases.release(container_id)

    def stop(self) -> None:
        """Answer STOP to every report from now on."""
        with self._lock:
            self._leases.stopping = True

    def drain(self) -> None:
        """Answer DRAIN to every report from now on."""
        with self._lock:
            self._leases.draining = True

    def abandon(self, reason: str) -> None:
        """Answer ABANDON to every report from now on: this run has lost the job, for that reason."""
        with self._lock:
            self._abandon(reason)

    @property
    def stopping(self) -> bool:
        return self._leases.stopping

    @property
    def draining(self) -> bool:
        return self._leases.draining

    def status(self) -> JobStatus:
        with self._lock:
            leases, progress = self._leases, self._progress
            now = self._clock.monotonic()
            containers, standbys = (
                tuple([progress.status(item, leases.standing(item), now) for item in ids])
                for ids in (self._ids, self._standbys)
            )
            return JobStatus(
                name=self._name,
                stopping=leases.stopping,
                draining=leases.draining,
                seconds=0.0 if self._started is None else self._newest - self._started,
                containers=containers,
                standbys=standbys,
                restored=progress.restored,
                failures=progress.failures,
                failed=progress.failed,
                handled=progress.handled(now),
                downgrades=tuple(self.downgrades),
                counts=progress.counts,
                clocks=self._clocks.status(),
                time_ms=self._clock.wall_ms(),
                at=now,
            )

    def sample(self) -> bool:
        """Note the figures of this moment. Returns whether to go on."""
        self.history.note(self.status())
        return True

    @property
    def kept_checkpoint_clock(self) -> int | None:
        """The last written value of the job's checkpoint clock: containers may rely on it."""
        return self._clocks.kept

    def keep_checkpoint_clock(self, time_ms: int) -> None:
        """Note that this checkpoint clock is written; from now on the tasks get this value."""
        with self._lock:
            self._clocks.keep(time_ms)

    def _abandon(self, reason: str) -> None:
        if self.abandoned is None:
            self.abandoned = reason
            self.ports.clear()
            self._leases.abandon()


class LocalLease(ContainerLease):
    """The lease of a container in the coordinator's own process."""

    def __init__(
        self,
        coordinator: Coordinator,
        container_id: str,
        confirm: Callable[[], None] = lambda: None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`confirm` is called after a silence longer than the lease: it raises JobTakenOver if this run has lost the
        job, and another SamzapyError if it cannot tell."""
        self._coordinator, self._container_id = coordinator, container_id
        self.resumes = coordinator.has_run(container_id)
        self.epoch, self.duration_s = coordinator.register(container_id), coordinator.lease_s
        self.pace_s, self.checkpoint_clock = coordinator.pace_s(container_id), coordinator.kept_checkpoint_clock
        self._confirm = confirm
        self._clock = clock
        self._reported_at = clock.monotonic()
        self._one_at_a_time = threading.Lock()

    def outgrow(self, newest: int) -> None:
        grown = self._coordinator.outgrow(self._container_id, self.epoch, newest)
        if grown is None:
            super().outgrow(newest)
        else:
            self.epoch = grown

    def report(self, report: ContainerReport) -> Directive:
        """Pass the report on. Raises RetriableError if it is unknown whether this run still owns the job."""
        with self._one_at_a_time:
            if self._clock.monotonic() - self._reported_at > self.duration_s:
                self._confirm_ownership()
            self._reported_at = self._clock.monotonic()
        coordinator = self._coordinator
        directive = coordinator.report(replace(report, port=self.port))
        self.pace_s, self.checkpoint_clock = coordinator.pace_s(self._container_id), coordinator.kept_checkpoint_clock
        return directive

    def _confirm_ownership(self) -> None:
        try:
            self._confirm()
        except JobTakenOver as taken:
            self._coordinator.abandon(str(taken))
        except SamzapyError as cause:
            text = f"cannot tell whether another run has taken over: {cause}"
            raise RetriableError(text, outage=cause.outage) from cause
