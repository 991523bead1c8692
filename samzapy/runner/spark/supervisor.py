"""Keeps the containers of a job running on Spark until they are done, are asked to stop, or are given up.

Spark retries a lost task up to `spark.task.maxFailures` times, counted over the whole life of the task, which is too few for
a task that runs for months. So when Spark gives up, the supervisor resubmits the containers that are not done.

Spark does not notice a worker that is stopped or hangs, but the lease does. If it expires while Spark still waits for the
task, the supervisor has Spark kill the worker and retry the task.

`SlotRun` is one submission. A slot is one Spark job. If Spark chooses the places, one slot has all containers, and Spark
retries a lost one. If the place matters, each container and each standby is a slot:

1. Spark tries a slot once. `SlotRun` submits the next attempt, to the place that the policy chooses.
2. If a container takes over the copies of a standby, the standby first completes and releases them; the copies then become
   the container's stores.
3. A standby stays in an executor that does not run its container.

To the supervisor, all slots together are one submission. It fails when one slot has failed too often.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

from samzapy.clock import Clock
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.leases import ContainerState
from samzapy.coordinator.status import ContainerFailure, ContainerStatus, JobStatus
from samzapy.errors import JobFailed, JobTakenOver, SamzapyError
from samzapy.job.model import active_of
from samzapy.runner.base import RunOptions
from samzapy.runner.restarts import Backoff, starts
from samzapy.runner.spark.placement import NO_ROOM, ContainerSlot, PlacementPolicy, SparkAttempt
from samzapy.runner.spark.starting import Unclaimed
from samzapy.runner.stopping import STOPPING

#: Seconds between two checks of the job, if nothing ends meanwhile.
PACE_S = 0.25
#: Containers that are looked at in a second, which takes some 4 ms of CPU.
_LOOKED_AT_S = 1_000.0


def pace_of(containers: int) -> float:
    """Seconds between two looks at this number of containers: a look costs some microseconds for each, and signals may
    wait a second."""
    return max(PACE_S, containers / _LOOKED_AT_S)


#: Seconds of a run after which the failures of a slot are counted from the start again.
SOUND_S = 300.0
#: Seconds for a standby to release its copies, and between two attempts to find a separate executor for it.
RELEASE_S, STANDBY_PAUSE_S = 15.0, 5.0

#: Starts the Spark job of some containers, at one of the places if there is room (None: Spark chooses).
Submit = Callable[[Sequence[str], Sequence[str] | None, Callable[[], None]], SparkAttempt]


class SlotRun:
    """Runs the slots of one submission. Starts at once, in a separate thread, which calls `ended` at its end."""

    def __init__(
        self,
        containers: Sequence[ContainerSlot],
        standbys: Sequence[ContainerSlot],
        coordinator: Coordinator,
        submit: Submit,
        policy: PlacementPolicy,
        clock: Clock,
        ended: Callable[[], None],
        *,
        tries: int = 4,
    ) -> None:
        """`tries`: failures in a row of one slot, after which the run gives up."""
        self._containers = containers
        self._standbys = {slot.id: slot for slot in standbys}
        self._coordinator = coordinator
        self._submit = submit
        self._policy = policy
        self._clock = clock
        self._over = ended
        self._tries = tries
        self._failure: SamzapyError | None = None
        self._reason: str | None = None
        self._wake = threading.Event()
        self._pace_s = pace_of(sum(len(slot.ids) for slot in containers))
        self._thread = threading.Thread(target=self._run, name="slots", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether the run goes on."""
        return self._thread.is_alive()

    def error(self) -> str | None:
        """Wait for the end; return the reason for giving up, None if every container ended. Raises EnvironmentFailure."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self._reason

    def _run(self) -> None:
        try:
            while self._reason is None and not all(slot.done for slot in self._containers):
                self._look()
                self._wake.wait(self._pace_s)
                self._wake.clear()
            self._end_standbys()
        except SamzapyError as failure:
            self._failure = failure
        except Exception as cause:  # noqa: BLE001  # if the driver's JVM has ended, the supervisor reports it
            self._reason = f"{type(cause).__name__}: {cause}"
        finally:
            for slot in (*self._containers, *self._standbys.values()):
                if slot.attempt is not None and slot.attempt.running:
                    slot.attempt.cancel()
            self._over()

    def _look(self) -> None:
        now = self._clock.monotonic()
        # Before the status: an attempt that has ended by now has reported everything.
        over = {id(slot) for slot in self._containers if slot.attempt is not None and not slot.attempt.running}
        status = {each.id: each for each in self._coordinator.status().everyone}
        for slot in self._containers:
            self._policy.note(slot, status[slot.id])
            if slot.attempt is not None and id(slot) in over:
                self._ended(slot, slot.attempt, status, now)
            elif slot.attempt is not None and slot.taken_back is None:
                slot.taken_back = self._policy.hopeless(slot, status, now)
                if slot.taken_back is not None:
                    slot.attempt.cancel()
            if self._reason is not None:
                return
            if slot.attempt is None and not slot.done and self._may_start(slot, now):
                attempt = self._submit(slot.ids, self._policy.wanted(slot), self._wake.set)
                slot.begin(attempt, now, before=status[slot.id].epoch or 0)
        if not self._coordinator.stopping:
            for standby in self._standbys.values():
                self._tend(standby, status, now)

    def _ended(
        self, slot: ContainerSlot, attempt: SparkAttempt, status: dict[str, ContainerStatus], now: float
    ) -> None:
        reason, slot.attempt = attempt.error(), None
        # A worker may be killed between its last report and the end of its Spark task. Then nothing is left to do.
        if reason is None or all(status[each].state == ContainerState.DONE.value for each in slot.ids):
            slot.done = True
            return
        if slot.taken_back != NO_ROOM:
            slot.failures = 1 if now - slot.started > SOUND_S else slot.failures + 1
        if slot.failures >= self._tries:
            self._reason = slot.taken_back or reason
            return
        slot.released = self._policy.successor(slot, reason, status)
        slot.taken_back = None
        slot.due = now + RELEASE_S
        if slot.released is not None:
            self._coordinator.release(slot.released)

    def _may_start(self, slot: ContainerSlot, now: float) -> bool:
        """Whether the standby that the container waits for has released its copies, or takes too long."""
        if slot.released is None:
            return True
        attempt = self._standbys[slot.released].attempt
        return attempt is None or not attempt.running or now >= slot.due

    def _tend(self, standby: ContainerSlot, status: dict[str, ContainerStatus], now: float) -> None:
        """Keep a standby in an executor that does not run its container."""
        active = active_of(standby.id)
        at = self._policy.place(active)
        if standby.attempt is not None and not standby.attempt.running:
            standby.attempt = None
            standby.due = now + STANDBY_PAUSE_S
        if at is None or status[active].state != ContainerState.RUNNING.value:
            return
        if standby.attempt is None:
            locations = self._policy.beside(at) if now >= standby.due else []
            if locations:
                standby.begin(self._submit(standby.ids, locations, self._wake.set), now)
        elif status[standby.id].state == ContainerState.RUNNING.value and at == self._policy.place(standby.id):
            self._coordinator.release(standby.id)

    def _end_standbys(self) -> None:
        """Make the standbys complete and release their copies."""
        for slot in self._standbys.values():
            self._coordinator.release(slot.id)
        until = self._clock.monotonic() + RELEASE_S
        while any(slot.attempt and slot.attempt.running for slot in self._standbys.values()):
            if self._reason is not None or self._clock.monotonic() > until:
                break
            self._wake.wait(PACE_S)
            self._wake.clear()


class StoppedUncommitted(JobFailed):
    """Raised after a stop, if a container has ended without a commit: its work since the last one will be repeated."""


class Supervisor:
    """Watches one run, in the main thread. A signal handler may call `stop`."""

    def __init__(
        self,
        coordinator: Coordinator,
        submit: Callable[[tuple[str, ...], Callable[[], None]], SlotRun],
        spark: Any,
        backoff: Backoff,
        clock: Clock,
        options: RunOptions,
        shutdown_s: float,
    ) -> None:
        """`submit` starts a submission for containers by id. `spark.check` raises if Spark has ended; `spark.end_task` has
        Spark kill the worker of a task; `spark` also has the `Resources` for waiting containers."""
        self._coordinator = coordinator
        self._submit = submit
        self._spark = spark
        self._backoff = backoff
        self._clock = clock
        self._options = options
        self._shutdown_s = shutdown_s
        self._stop_asked = False
        self._deadline: float | None = None
        self._wake = threading.Event()
        self._pace_s = pace_of(len(coordinator.spec.model.containers))
        self._failures_told = 0
        self._failed_before_stop = 0
        # The containers that had work to commit when the stop came, or later.
        self._to_commit: frozenset[str] = frozenset()
        self._ended: dict[tuple[str, int], float] = {}
        self._unclaimed = Unclaimed(clock, spark, options.on_event)

    def stop(self) -> None:
        """Make the containers commit and stop."""
        self._stop_asked = True

    @property
    def stopped(self) -> bool:
        """Whether a stop was asked for, here or at the coordinator."""
        return self._stop_asked or self._coordinator.stopping

    def run(self) -> JobStatus:
        """Run until every container is done, or has stopped after a `stop`. Raises JobFailed, JobTakenOver,
        EnvironmentFailure; StoppedUncommitted if a container that ran at the stop has not committed."""
        while not self.stopped:
            started, failed = self._clock.monotonic(), self._failures_told
            submission = self._submit(self._open(), self._wake.set)
            status = self._watch(submission)
            permanent = self._permanent(status)
            if permanent is not None:
                raise JobFailed(f"container {permanent.container_id}: {permanent.message}", permanent.exit_code)
            if self.stopped:
                return self._stopped(status, submission)
            reason = submission.error()
            if reason is None or not self._open():
                return self._tell()
            self._spark.check()
            self._wait(status, reason, started, failed)
        # The stop has come before the first submission, or between two of them: no container runs.
        self._pass_on_stop()
        return self._tell()

    def _watch(self, submission: SlotRun) -> JobStatus:
        """Wait until Spark has ended the submission, or, after a stop, until no container runs."""
        status = self._look()
        while submission.running and not (self.stopped and not self._running(status)):
            status = self._look()
        return self._tell()

    def _stopped(self, status: JobStatus, submission: SlotRun) -> JobStatus:
        """The status after a stop, if every container that ran has committed. Raises StoppedUncommitted."""
        why = self._newest(status) if status.failed > self._failed_before_stop else None
        if why is None:
            owed = self._to_commit | self._running(status)
            left = [
                each.id for each in status.containers if each.id in owed and each.state != ContainerState.DONE.value
            ]
            # If Spark says that all have ended well, a last report was lost on its way.
            reason = submission.error() if left and not submission.running else ""
            if not left or reason is None:
                return status
            if reason:
                self._spark.check()
            why = f"container {', '.join(left[:10])}: {reason or 'lost without a last report'}"
        raise StoppedUncommitted(f"stopped, but not every container could commit: {why}")

    def _open(self) -> tuple[str, ...]:
        """The containers that are not done."""
        return tuple(c.id for c in self._coordinator.status().containers if c.state != ContainerState.DONE.value)

    def _look(self) -> JobStatus:
        """Wait a moment, report the status, pass on a stop, and check that Spark and the containers are alive."""
        self._wake.wait(self._pace_s)
        status = self._tell()
        if self._coordinator.abandoned is not None:
            raise JobTakenOver(self._coordinator.abandoned)
        self._end_overdue()
        if self._permanent(status) is not None:
            self._coordinator.stop()
        if not self.stopped:
            self._failed_before_stop, self._to_commit = status.failed, self._running(status)
            self._unclaimed.check(status.containers)
        else:
            self._to_commit |= self._running(status)
            self._pass_on_stop()
        if not self._spark.alive:
            self._spark.check()
        if self._coordinator.stopping:
            self._hurry()
        return status

    def _pass_on_stop(self) -> None:
        if not self._coordinator.stopping:
            self._options.on_event(STOPPING)
            self._coordinator.stop()

    def _end_overdue(self) -> None:
        """Make Spark kill the worker of each expired lease, and again after each further lease without effect."""
        lease_s = self._coordinator.lease_s
        for overdue in self._coordinator.overdue():
            now, attempt = self._clock.monotonic(), (overdue.container_id, overdue.epoch)
            if overdue.spark_task is None or now - self._ended.get(attempt, -math.inf) < lease_s:
                continue
            reason = f"container {overdue.container_id}: no heartbeat for {lease_s:g} s; its worker is killed"
            if attempt not in self._ended:
                self._options.on_event(reason)
            self._ended[attempt] = now
            self._spark.end_task(overdue.spark_task, reason)

    def _hurry(self) -> None:
        now = self._clock.monotonic()
        if self._deadline is None:
            self._deadline = now + self._shutdown_s
        elif now > self._deadline:
            raise JobFailed(f"task.shutdown.ms: containers did not stop within {self._shutdown_s:g} s")

    def _wait(self, status: JobStatus, reason: str, started: float, failed: int) -> None:
        """Wait before the next submission; the last one began at `started`, after `failed` failures of containers. Raises
        JobFailed after too many of them."""
        why = self._newest(status) or reason
        unreported = "" if status.failed > failed else f" ({reason})"
        delay = self._backoff.after(self._clock.monotonic() - started)
        if delay is None:
            code = status.failures[-1].exit_code if status.failures else 1
            raise JobFailed(f"gave up after {self._backoff.failures + 1} failed runs in a row: {why}", code)
        if self.stopped:
            return
        count = f"{self._backoff.failures} of {self._backoff.limit}"
        self._options.on_event(f"Spark gave up{unreported}; submitting again {starts(delay)} ({count})")
        until = self._clock.monotonic() + delay
        while not self.stopped and self._clock.monotonic() < until:
            self._wake.clear()
            self._wake.wait(min(PACE_S, delay))
        self._wake.clear()

    def _tell(self) -> JobStatus:
        status = self._coordinator.status()
        self._options.on_status(status)
        new = status.failed - self._failures_told
        for failure in status.failures[-new:] if new else ():
            self._options.on_event(f"container {failure.container_id} failed: {failure.message}")
        self._failures_told = status.failed
        return status

    @staticmethod
    def _running(status: JobStatus) -> frozenset[str]:
        return frozenset(each.id for each in status.containers if each.state == ContainerState.RUNNING.value)

    @staticmethod
    def _newest(status: JobStatus) -> str | None:
        return status.failures[-1].message if status.failures else None

    @staticmethod
    def _permanent(status: JobStatus) -> ContainerFailure | None:
        return next((failure for failure in status.failures if failure.permanent), None)
