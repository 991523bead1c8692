"""Keeps the containers of a job running on Spark until they are done, have stopped, or have failed too often.

Each container, and each of its standbys, is a slot. An attempt of a slot is a Spark job with one task, which Spark
tries once: Spark counts the retries of a task over its whole life, which is too few for one that runs for months, and
retries it anywhere.

    WAITING --_start--> SUBMITTED --_end: it has ended well, or its container has reported that it is done--> DONE
       ^                 |     |
       |               _end    +--_give_up: its executor is gone, it is silent, or it has no room--> CANCELLED
       +--_fail----------+                                                                               |
       +--_fail-----------------------------------------------------------------------------------------+

_fail: the slot waits for its back-off, and for the standby that it takes over: that completes and releases its copies,
which then become the container's stores. After `job.spark.max.resubmits` failures in a row the run fails. `Places`
decides when an attempt is given up, and where the next one runs.

A standby starts as soon as its container runs, in another executor, and stays there; _step_standby.

Spark does not notice a worker that is stopped or hangs, but the lease does: _end_overdue has Spark kill the worker.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from samzapy.clock import Clock
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.leases import ContainerState
from samzapy.coordinator.status import ContainerFailure, ContainerStatus, JobStatus
from samzapy.errors import JobFailed, JobTakenOver
from samzapy.job.planner import active_of
from samzapy.runner.base import Backoff, RunOptions, starts
from samzapy.runner.spark.application import SparkApplication, SparkJob
from samzapy.runner.spark.placement import EXECUTOR_LOST, NO_ROOM, Places, Slot
from samzapy.runner.stopping import STOPPING

#: Seconds between two steps, if nothing ends meanwhile.
PACE_S = 0.25
#: Seconds for a standby to release its copies, and between two attempts to find a separate executor for it.
RELEASE_S, STANDBY_PAUSE_S = 15.0, 5.0

#: Seconds without a container before the first line about it. The time to the next line doubles.
_SILENT_S = 20.0
#: Seconds without an executor after which an application that had some counts as forgotten.
_FORGOTTEN_S = 40.0
#: States of a container that Spark has to start.
_LOST = ContainerState.LOST.value
_WITHOUT_ATTEMPT = (ContainerState.WAITING.value, _LOST)
_ENDED_WELL = (ContainerState.WAITING.value, ContainerState.DONE.value)

#: Starts the Spark job of a container, at one of the places if there is room. Calls the function when Spark has ended
#: it.
Submit = Callable[[str, Sequence[str], Callable[[], None]], SparkJob]


class StoppedUncommitted(JobFailed):
    """Raised after a stop, if a container has ended without a commit: its work since the last one will be repeated."""


class Patience:
    """The times to report a wait: after `_SILENT_S`, and then each time that the wait has doubled."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.over()

    def over(self) -> None:
        """The wait is over: a new one begins now."""
        self._began, self._due = self._clock.monotonic(), _SILENT_S

    @property
    def waited(self) -> float:
        """Seconds since the wait began."""
        return self._clock.monotonic() - self._began

    def is_out(self) -> bool:
        """Whether a line is due; it is due once."""
        if self.waited < self._due:
            return False
        while self._due <= self.waited:
            self._due *= 2
        return True


class Supervisor:
    """Runs the slots of one run, in the main thread. A signal handler may call `stop`."""

    def __init__(
        self,
        coordinator: Coordinator,
        submit: Submit,
        places: Places,
        spark: SparkApplication,
        clock: Clock,
        options: RunOptions,
        *,
        backoff: Callable[[], Backoff],
        shutdown_s: float,
    ) -> None:
        """`backoff` makes the back-off of a slot."""
        self._coordinator = coordinator
        self._submit = submit
        self._places = places
        self._spark = spark
        self._clock = clock
        self._options = options
        self._shutdown_s = shutdown_s
        model = coordinator.spec.model
        self._slots = [Slot(id=container.id, backoff=backoff()) for container in model.containers]
        self._standbys = {standby.id: Slot(id=standby.id, backoff=backoff()) for standby in model.standbys}
        self._stop_asked = False
        self._deadline: float | None = None
        self._wake = threading.Event()
        self._reported = 0
        self._failed_before_stop = 0
        # The containers that had work to commit when the stop came, or later.
        self._to_commit: frozenset[str] = frozenset()
        self._killed_at: dict[tuple[str, int], float] = {}
        self._unclaimed = Patience(clock)

    def stop(self) -> None:
        self._stop_asked = True

    @property
    def stopped(self) -> bool:
        """Whether a stop was asked for, here or at the coordinator."""
        return self._stop_asked or self._coordinator.stopping

    def run(self) -> JobStatus:
        """Run until every container is done, or has stopped after a `stop`. Raises JobFailed, JobTakenOver,
        EnvironmentFailure; StoppedUncommitted if a container that ran at the stop has not committed."""
        try:
            while not self._is_over(self._step()):
                self._pause()
            if not self.stopped:
                self._end_standbys()
            return self._outcome(self._report())
        finally:
            # After a stop the attempts end by themselves.
            for slot in () if self.stopped else (*self._slots, *self._standbys.values()):
                if slot.runs:
                    slot.cancel()

    def _step(self) -> JobStatus:
        """One step of all slots; reports the status, passes a stop on, and checks that Spark is alive."""
        # Before the status: an attempt that has ended by now has reported everything.
        ended = {slot.id for slot in self._slots if slot.has_ended}
        status = self._report()
        if self._coordinator.abandoned is not None:
            raise JobTakenOver(self._coordinator.abandoned)
        self._end_overdue()
        if _permanent(status) is not None:
            self._coordinator.stop()
        self._pass_stop_on(status)
        if not self._spark.alive:
            self._spark.check()
        now, states = self._clock.monotonic(), {item.id: item for item in status.everyone}
        for slot in self._slots:
            self._places.note(slot, states[slot.id])
            if not (self.stopped or slot.done):
                self._step_slot(slot, states, now, has_ended=slot.id in ended)
        for standby in () if self.stopped else self._standbys.values():
            self._step_standby(standby, states, now)
        return status

    def _is_over(self, status: JobStatus) -> bool:
        if self.stopped:
            return not _running(status)
        return all(slot.done for slot in self._slots)

    def _outcome(self, status: JobStatus) -> JobStatus:
        """The status at the end, if every container that ran has committed."""
        permanent = _permanent(status)
        if permanent is not None:
            raise JobFailed(f"container {permanent.container_id}: {permanent.message}", permanent.exit_code)
        if not self.stopped:
            return status
        if status.failed > self._failed_before_stop:
            why = status.failures[-1].message
        else:
            owed = self._to_commit - {item.id for item in status.containers if item.state == ContainerState.DONE.value}
            # If Spark says that an attempt has ended well, its last report was lost on its way.
            owed -= {slot.id for slot in self._slots if slot.done or (slot.has_ended and slot.error() is None)}
            if not owed:
                return status
            self._spark.check()
            why = f"container {', '.join(sorted(owed)[:10])}: lost without a last report"
        raise StoppedUncommitted(f"stopped, but not every container could commit: {why}")

    def _step_slot(self, slot: Slot, states: dict[str, ContainerStatus], now: float, *, has_ended: bool) -> None:
        if has_ended:
            self._end(slot, states, now)
        elif slot.attempt is not None and slot.given_up is None:
            self._move(slot, states[slot.id])
            self._give_up(slot, states, now)
        if slot.attempt is None and not slot.done and self._may_start(slot, now):
            self._start(slot, states, now)

    def _start(self, slot: Slot, states: dict[str, ContainerStatus], now: float) -> None:
        attempt = self._submit(slot.id, self._places.preferred(slot), self._wake.set)
        slot.begin(attempt, now, before=states[slot.id].epoch or 0)

    def _may_start(self, slot: Slot, now: float) -> bool:
        """Whether its back-off is over, and the standby that it takes over has released its copies, or takes too
        long."""
        if now < slot.due:
            return False
        return slot.released is None or not self._standbys[slot.released].runs or now >= slot.release_due

    def _end(self, slot: Slot, states: dict[str, ContainerStatus], now: float) -> None:
        reason, slot.attempt = slot.error(), None
        # A worker may be killed between its last report and the end of its Spark task. Then nothing is left to do.
        own = states[slot.id]
        if reason is None or (own.state in _ENDED_WELL and (own.epoch or 0) > slot.before):
            slot.done = not slot.moves
            if slot.moves:
                self._take_over(slot, EXECUTOR_LOST, states, now)
            return
        self._spark.check()
        self._fail(slot, reason, states, now)

    def _fail(self, slot: Slot, reason: str, states: dict[str, ContainerStatus], now: float) -> None:
        """Raises JobFailed after too many failures in a row. A lack of room is none."""
        if slot.given_up != NO_ROOM:
            failures = [item for item in self._coordinator.status().failures if item.container_id == slot.id]
            unreported = (
                "" if failures and failures[-1].epoch > slot.before else f"Spark gave up ({slot.given_up or reason}); "
            )
            delay = slot.backoff.after(now - slot.started)
            if delay is None:
                why, code = (failures[-1].message, failures[-1].exit_code) if failures else (slot.given_up or reason, 1)
                count = slot.backoff.failures + 1
                raise JobFailed(f"gave up container {slot.id} after {count} failures in a row: {why}", code)
            self._options.on_event(
                f"container {slot.id}: {unreported}starting again {starts(delay)} "
                f"({slot.backoff.failures} of {slot.backoff.limit})"
            )
            slot.due = now + delay
        self._take_over(slot, reason, states, now)

    def _take_over(self, slot: Slot, reason: str, states: dict[str, ContainerStatus], now: float) -> None:
        """Make a standby release its copies to the slot, if one has to."""
        slot.released = self._places.standby_to_release(slot, reason, states)
        slot.given_up = None
        slot.release_due = now + RELEASE_S
        if slot.released is not None:
            self._coordinator.release(slot.released)

    def _move(self, slot: Slot, own: ContainerStatus) -> None:
        """Make an attempt in a decommissioned executor commit and stop, so that the next one starts elsewhere."""
        if not slot.moves and self._places.leaves(slot, own):
            slot.moves = True
            self._options.on_event(f"container {slot.id}: its executor is decommissioned; it moves to another one")
            self._coordinator.release(slot.id)

    def _give_up(self, slot: Slot, states: dict[str, ContainerStatus], now: float) -> None:
        slot.given_up = self._places.give_up_reason(slot, states, now)
        if slot.given_up is not None:
            slot.cancel()

    def _step_standby(self, standby: Slot, states: dict[str, ContainerStatus], now: float) -> None:
        """Keep a standby in an executor that does not run its container."""
        active = active_of(standby.id)
        at = self._places.place(active)
        if standby.has_ended:
            standby.attempt = None
            standby.due = now + STANDBY_PAUSE_S
        if at is None or states[active].state != ContainerState.RUNNING.value:
            return
        if standby.attempt is None:
            locations = self._places.standby_locations(at) if now >= standby.due else []
            if locations:
                standby.begin(self._submit(standby.id, locations, self._wake.set), now)
        elif states[standby.id].state == ContainerState.RUNNING.value and at == self._places.place(standby.id):
            self._coordinator.release(standby.id)

    def _end_standbys(self) -> None:
        for standby in self._standbys:
            self._coordinator.release(standby)
        until = self._clock.monotonic() + RELEASE_S
        while any(slot.runs for slot in self._standbys.values()) and self._clock.monotonic() < until:
            self._pause()

    def _pass_stop_on(self, status: JobStatus) -> None:
        """Make the containers stop, if that was asked for. Raises JobFailed if they take too long."""
        if not self.stopped:
            self._failed_before_stop, self._to_commit = status.failed, _running(status)
            self._check_unclaimed(status.containers)
            return
        self._to_commit |= _running(status)
        if not self._coordinator.stopping:
            self._options.on_event(STOPPING)
            self._coordinator.stop()
        now = self._clock.monotonic()
        if self._deadline is None:
            self._deadline = now + self._shutdown_s
        elif now > self._deadline:
            raise JobFailed(f"task.shutdown.ms: containers did not stop within {self._shutdown_s:g} s")

    def _check_unclaimed(self, containers: Sequence[ContainerStatus]) -> None:
        """Report the containers that Spark has been asked to start for a long time, and its resources for them. Raises
        EnvironmentFailure if they wait for an application that its master has forgotten."""
        submitted = {slot.id for slot in self._slots if slot.runs}
        waiting = [item.id for item in containers if item.state in _WITHOUT_ATTEMPT and item.id in submitted]
        if not waiting:
            self._unclaimed.over()
        elif self._unclaimed.is_out():
            waited = self._unclaimed.waited
            if waited >= _FORGOTTEN_S:
                self._spark.check_executors(had_some=any(item.state == _LOST for item in containers))
            noun = "container" if len(waiting) == 1 else "containers"
            few = ", ".join(waiting[:5]) + (f" and {len(waiting) - 5} more" if len(waiting) > 5 else "")
            self._options.on_event(
                f"{noun} {few}: not started by Spark after {waited:.0f} s; it has {self._spark.resources()}"
            )

    def _end_overdue(self) -> None:
        """Make Spark kill the worker of each expired lease, and again after each further lease without effect."""
        lease_s, now = self._coordinator.lease_s, self._clock.monotonic()
        for container_id, epoch, task in self._coordinator.overdue():
            before = self._killed_at.get((container_id, epoch))
            if task is None or (before is not None and now - before < lease_s):
                continue
            reason = f"container {container_id}: no heartbeat for {lease_s:g} s; its worker is killed"
            if before is None:
                self._options.on_event(reason)
            self._killed_at[container_id, epoch] = now
            self._spark.end_task(task, reason)

    def _report(self) -> JobStatus:
        """The status, reported with the new failures."""
        status = self._coordinator.status()
        self._options.on_status(status)
        new = status.failed - self._reported
        for failure in status.failures[-new:] if new else ():
            self._options.on_event(f"container {failure.container_id} failed: {failure.message}")
        self._reported = status.failed
        return status

    def _pause(self) -> None:
        self._wake.wait(PACE_S)
        self._wake.clear()


def _running(status: JobStatus) -> frozenset[str]:
    return frozenset(item.id for item in status.containers if item.state == ContainerState.RUNNING.value)


def _permanent(status: JobStatus) -> ContainerFailure | None:
    return next((failure for failure in status.failures if failure.permanent), None)
