"""Containers that run where their state is: each is a Spark job of its own, and so is each standby.

Spark fixes the preferred places of a task when its job is submitted, and tries a lost one again wherever there is room. So
where the place matters Spark gets one try, and the next one is submitted here: to the executor that ran the container
before, whose host has its stores; if that is gone, to the one that has a standby of it. A standby lets go first, with
complete copies, and its copies become the stores. To whoever watches, all this together is one submission: it fails
when a container has failed as often as Spark would let it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from samzapy.clock import Clock
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.leases import ContainerState
from samzapy.coordinator.progress import ContainerStatus
from samzapy.coordinator.wire import Place
from samzapy.errors import SamzapyError
from samzapy.job.model import active_of
from samzapy.runner.spark.locality import Locality
from samzapy.runner.spark.placing import NO_ROOM, Placing, Try, Unit

#: Seconds between two looks, if nothing ends meanwhile.
PACE_S = 0.25
#: A container that has run for so many seconds has not failed in a row.
SOUND_S = 300.0
#: Seconds a standby gets to let go of its copies, and between two tries to find it an executor of its own.
RELEASE_S, STANDBY_PAUSE_S = 15.0, 5.0


class PlacedRun:
    """Starts at once, in a thread of its own; `ended` is called when it is over."""

    def __init__(
        self,
        container_ids: Sequence[str],
        coordinator: Coordinator,
        submit: Callable[[str, Sequence[str], Callable[[], None]], Try],
        executors: Callable[[], Sequence[Place]],
        locality: Locality,
        clock: Clock,
        ended: Callable[[], None],
        *,
        tries: int = 4,
    ) -> None:
        """`submit` starts a container's Spark job, at one of the places named if there is room; `executors` are those
        that Spark has now. `tries`: failures in a row before it gives up."""
        model = coordinator.spec.model
        self._coordinator = coordinator
        self._submit = submit
        self._placing = Placing(coordinator, executors, locality)
        self._clock = clock
        self._over = ended
        self._tries = tries
        self._containers = [Unit(i) for i in container_ids]
        self._standbys = {i: Unit(i) for c in container_ids for i in model.standbys_of(c)}
        self._failure: SamzapyError | None = None
        self._reason: str | None = None
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="placed-run", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether any container is still to be run."""
        return self._thread.is_alive()

    def error(self) -> str | None:
        """Why it was given up; None if every container ended. Raises EnvironmentFailure."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self._reason

    def _run(self) -> None:
        try:
            while self._reason is None and not all(unit.done for unit in self._containers):
                self._look()
                self._wake.wait(PACE_S)
                self._wake.clear()
            self._end_standbys()
        except SamzapyError as failure:
            self._failure = failure
        except Exception as cause:  # noqa: BLE001  # the driver's JVM may be gone: the supervisor finds out
            self._reason = f"{type(cause).__name__}: {cause}"
        finally:
            for unit in (*self._containers, *self._standbys.values()):
                if unit.attempt is not None and unit.attempt.running:
                    unit.attempt.cancel()
            self._over()

    def _look(self) -> None:
        now = self._clock.monotonic()
        # In this order: what has ended has told everything by now.
        over = [unit.attempt for unit in self._containers if unit.attempt is not None and not unit.attempt.running]
        status = {told.id: told for told in self._coordinator.status().everyone}
        for unit in self._containers:
            self._placing.note(unit, status[unit.id])
            if unit.attempt is not None and unit.attempt in over:
                self._ended(unit, unit.attempt, status, now)
            elif unit.attempt is not None and unit.taken_back is None:
                unit.taken_back = self._placing.hopeless(unit, status, now)
                if unit.taken_back is not None:
                    unit.attempt.cancel()
            if unit.attempt is None and not unit.done and self._may_start(unit, now):
                attempt = self._submit(unit.id, self._placing.wanted(unit), self._wake.set)
                unit.begin(attempt, now, before=status[unit.id].epoch or 0)
        if not self._coordinator.stopping:
            for standby in self._standbys.values():
                self._tend(standby, status, now)

    def _ended(self, unit: Unit, attempt: Try, status: dict[str, ContainerStatus], now: float) -> None:
        reason, unit.attempt = attempt.error(), None
        if reason is None:
            unit.done = True
            return
        if unit.taken_back != NO_ROOM:
            unit.failures = 1 if now - unit.started > SOUND_S else unit.failures + 1
        if unit.failures >= self._tries:
            self._reason = unit.taken_back or reason
            return
        unit.released = self._placing.successor(unit, reason, status)
        unit.taken_back = None
        unit.due = now + RELEASE_S
        if unit.released is not None:
            self._coordinator.release(unit.released)

    def _may_start(self, unit: Unit, now: float) -> bool:
        """Whether the standby that the container waits for has let go, or takes too long."""
        if unit.released is None:
            return True
        attempt = self._standbys[unit.released].attempt
        return attempt is None or not attempt.running or now >= unit.due

    def _tend(self, standby: Unit, status: dict[str, ContainerStatus], now: float) -> None:
        """Keep a standby in an executor that does not run its container."""
        active = active_of(standby.id)
        at = self._placing.place(active)
        if standby.attempt is not None and not standby.attempt.running:
            standby.attempt = None
            standby.due = now + STANDBY_PAUSE_S
        if at is None or status[active].state != ContainerState.RUNNING.value:
            return
        if standby.attempt is None:
            locations = self._placing.beside(at) if now >= standby.due else []
            if locations:
                standby.begin(self._submit(standby.id, locations, self._wake.set), now)
        elif status[standby.id].state == ContainerState.RUNNING.value and at == self._placing.place(standby.id):
            self._coordinator.release(standby.id)

    def _end_standbys(self) -> None:
        """Let them complete their copies."""
        for unit in self._standbys.values():
            self._coordinator.release(unit.id)
        until = self._clock.monotonic() + RELEASE_S
        while any(unit.attempt and unit.attempt.running for unit in self._standbys.values()):
            if self._reason is not None or self._clock.monotonic() > until:
                break
            self._wake.wait(PACE_S)
            self._wake.clear()
