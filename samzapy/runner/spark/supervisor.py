"""Keeps a job's containers running on a Spark until they are done, asked to stop, or given up.

Spark retries a lost task up to `spark.task.maxFailures` times, counted over the task's whole life; for a task that runs
for months that limit means nothing. So when Spark gives up, the supervisor submits the rest again.

Spark does not notice a worker that is stopped, or hangs. The lease does: when it has run out while Spark still waits for
the task, the supervisor has Spark kill the worker and try the task again.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

from samzapy.clock import Clock
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.leases import ContainerState
from samzapy.coordinator.progress import ContainerFailure, JobStatus
from samzapy.errors import JobTakenOver
from samzapy.runner.base import JobFailed, RunOptions
from samzapy.runner.driver import STOPPING
from samzapy.runner.restarts import Backoff
from samzapy.runner.spark.slots import SlotRun

#: Seconds between two looks at the job.
PACE_S = 0.25


class Supervisor:
    """Watches one run from the main thread. `stop` may be called from a signal handler."""

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
        """`submit` starts a Spark job for the containers of these ids; `spark.check` raises when
        Spark takes no more of them, `spark.end_task` has a task's worker killed."""
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
        self._failures_told = 0
        self._failed_before_stop = 0
        self._ended: dict[tuple[str, int], float] = {}

    def stop(self) -> None:
        """Ask for a commit and a graceful stop."""
        self._stop_asked = True

    @property
    def stopped(self) -> bool:
        """Whether a stop was asked for, here or at the coordinator."""
        return self._stop_asked or self._coordinator.stopping

    def run(self) -> JobStatus:
        """Until every container is done, or has let go after a stop. Raises JobFailed, JobTakenOver,
        EnvironmentFailure."""
        while not self.stopped:
            started = self._clock.monotonic()
            submission = self._submit(self._open(), self._wake.set)
            status = self._watch(submission)
            permanent = self._permanent(status)
            if permanent is not None:
                raise JobFailed(f"container {permanent.container_id}: {permanent.message}", permanent.exit_code)
            if self.stopped and not self._any_running(status):
                return self._stopped(status)
            reason = submission.error()
            if reason is None:
                return status
            self._spark.check()
            self._wait(status, reason, started)
        return self._tell()

    def _watch(self, submission: SlotRun) -> JobStatus:
        """Until Spark has ended the submission, or a stop has left no container running."""
        status = self._look()
        while submission.running and not (self.stopped and not self._any_running(status)):
            status = self._look()
        return self._tell()

    def _stopped(self, status: JobStatus) -> JobStatus:
        if status.failed > self._failed_before_stop:
            raise JobFailed(f"stopped, but not every container could commit: {self._newest(status)}")
        return status

    def _open(self) -> tuple[str, ...]:
        """The containers that are not done."""
        return tuple(c.id for c in self._coordinator.status().containers if c.state != ContainerState.DONE.value)

    def _look(self) -> JobStatus:
        """Sleep a moment, then tell, pass on a stop, and see whether everything is still there."""
        self._wake.wait(PACE_S)
        status = self._tell()
        if self._coordinator.abandoned is not None:
            raise JobTakenOver(self._coordinator.abandoned)
        self._end_overdue()
        if self._permanent(status) is not None:
            self._coordinator.stop()
        if not self.stopped:
            self._failed_before_stop = status.failed
        elif not self._coordinator.stopping:
            self._options.on_event(STOPPING)
            self._coordinator.stop()
        if not self._spark.alive:
            self._spark.check()
        if self._coordinator.stopping:
            self._hurry()
        return status

    def _end_overdue(self) -> None:
        """Once for each lease that has run out, and again for as long as nothing comes of it."""
        lease_s = self._coordinator.lease_s
        for overdue in self._coordinator.overdue():
            now, attempt = self._clock.monotonic(), (overdue.container_id, overdue.epoch)
            if overdue.spark_task is None or now - self._ended.get(attempt, -math.inf) < lease_s:
                continue
            reason = f"container {overdue.container_id}: no sign of life for {lease_s:g} s, its worker is killed"
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

    def _wait(self, status: JobStatus, reason: str, started: float) -> None:
        """Wait before the submission after the one of `started`. Raises JobFailed when it is time to give up."""
        why = self._newest(status) or reason
        delay = self._backoff.after(self._clock.monotonic() - started)
        if delay is None:
            code = status.failures[-1].exit_code if status.failures else 1
            raise JobFailed(f"gave up after {self._backoff.failures + 1} failed runs in a row: {why}", code)
        count = f"{self._backoff.failures} of {self._backoff.limit}"
        self._options.on_event(f"Spark gave up; submitting again in {delay:g} s ({count})")
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
    def _any_running(status: JobStatus) -> bool:
        return any(container.state == ContainerState.RUNNING.value for container in status.containers)

    @staticmethod
    def _newest(status: JobStatus) -> str | None:
        return status.failures[-1].message if status.failures else None

    @staticmethod
    def _permanent(status: JobStatus) -> ContainerFailure | None:
        return next((failure for failure in status.failures if failure.permanent), None)
