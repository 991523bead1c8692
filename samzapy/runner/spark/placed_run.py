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
from dataclasses import dataclass
from typing import Protocol

from samzapy.clock import Clock
from samzapy.coordinator.attempt import Place
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.leases import ContainerState
from samzapy.coordinator.progress import ContainerStatus
from samzapy.errors import SamzapyError
from samzapy.job.model import active_of
from samzapy.runner.spark.locality import Locality

#: Seconds between two looks, if nothing ends meanwhile.
PACE_S = 0.25
#: A container that has run for so many seconds has not failed in a row.
SOUND_S = 300.0
#: Seconds a standby gets to let go of its copies, and between two tries to find it an executor of its own.
RELEASE_S, STANDBY_PAUSE_S = 15.0, 5.0
#: What Spark says of a task whose executor is gone; it still counts the executor among its own for a moment.
_EXECUTOR_LOST = "ExecutorLostFailure"


class Try(Protocol):
    """One container as one Spark job."""

    @property
    def running(self) -> bool:
        """Whether Spark still works on it."""
        ...

    def error(self) -> str | None:
        """Why Spark gave up, None if it did not. Raises EnvironmentFailure for what no retry mends."""
        ...

    def cancel(self) -> None:
        """Have Spark end it."""
        ...


@dataclass
class _Unit:
    """One container or standby, over its tries."""

    id: str
    attempt: Try | None = None
    started: float = 0.0
    due: float = 0.0
    failures: int = 0
    done: bool = False
    released: str | None = None
    """For a container: the standby whose copies it waits for."""


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
        self._model = coordinator.spec.model
        self._coordinator = coordinator
        self._submit = submit
        self._executors = executors
        self._locality = locality
        self._clock = clock
        self._over = ended
        self._tries = tries
        self._containers = [_Unit(i) for i in container_ids]
        self._standbys = {i: _Unit(i) for c in container_ids for i in self._model.standbys_of(c)}
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
            for unit in self._units:
                if unit.attempt is not None and unit.attempt.running:
                    unit.attempt.cancel()
            self._over()

    @property
    def _units(self) -> list[_Unit]:
        return [*self._containers, *self._standbys.values()]

    def _look(self) -> None:
        now = self._clock.monotonic()
        status = {told.id: told for told in self._coordinator.status().everyone}
        for unit in self._containers:
            self._note(unit.id, status[unit.id])
            if unit.attempt is not None and not unit.attempt.running:
                self._ended(unit, unit.attempt, status, now)
            if unit.attempt is None and not unit.done and self._may_start(unit, now):
                self._start(unit, self._wanted(unit), now)
        if not self._coordinator.stopping:
            for standby in self._standbys.values():
                self._tend(standby, status, now)

    def _note(self, container_id: str, status: ContainerStatus) -> None:
        """The state is where the container runs, once it is restored there."""
        process = self._coordinator.process(container_id)
        if status.phase == "running" and process is not None and process.place is not None:
            self._locality.note(self._model.container(container_id), process.place)

    def _ended(self, unit: _Unit, attempt: Try, status: dict[str, ContainerStatus], now: float) -> None:
        reason = attempt.error()
        unit.attempt = None
        if reason is None:
            unit.done = True
            return
        unit.failures = 1 if now - unit.started > SOUND_S else unit.failures + 1
        if unit.failures >= self._tries:
            self._reason = reason
        elif _EXECUTOR_LOST in reason or not self._is_there(self._locality.of(self._model.container(unit.id))):
            unit.released = next((i for i in self._ready(unit.id, status)), None)
            unit.due = now + RELEASE_S
            if unit.released is not None:
                self._coordinator.release(unit.released)

    def _ready(self, container_id: str, status: dict[str, ContainerStatus]) -> list[str]:
        """The container's standbys that have caught up, and that have not been lost with the container's host."""
        ids = self._model.standbys_of(container_id)
        caught_up = [i for i in ids if status[i].state == ContainerState.RUNNING.value and status[i].phase == "running"]
        return [i for i in caught_up if self._is_there(self._place(i))]

    def _may_start(self, unit: _Unit, now: float) -> bool:
        """Whether the standby that the container waits for has let go, or takes too long."""
        if unit.released is None:
            return True
        attempt = self._standbys[unit.released].attempt
        return attempt is None or not attempt.running or now >= unit.due

    def _wanted(self, unit: _Unit) -> list[str]:
        """Where the container should run, as Spark writes it."""
        place = self._locality.of(self._model.container(unit.id))
        if unit.released is not None:
            place, unit.released = self._place(unit.released), None
        return [] if place is None else self._locations([place])

    def _start(self, unit: _Unit, locations: Sequence[str], now: float) -> None:
        unit.started = now
        unit.attempt = self._submit(unit.id, locations, self._wake.set)

    def _tend(self, standby: _Unit, status: dict[str, ContainerStatus], now: float) -> None:
        """Keep a standby in an executor that does not run its container."""
        active = active_of(standby.id)
        at, beside = self._place(active), self._place(standby.id)
        runs = status[active].state == ContainerState.RUNNING.value and at is not None
        if standby.attempt is not None and not standby.attempt.running:
            standby.attempt = None
            standby.due = now + STANDBY_PAUSE_S
        if standby.attempt is None and runs and now >= standby.due:
            others = [place for place in self._executors() if place != at]
            apart = [place for place in others if at is not None and place.host != at.host]
            if others:
                self._start(standby, self._locations(apart or others), now)
        elif standby.attempt is not None and runs and status[standby.id].state == "running" and at == beside:
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

    def _place(self, container_id: str) -> Place | None:
        process = self._coordinator.process(container_id)
        return None if process is None else process.place

    def _is_there(self, place: Place | None) -> bool:
        return place is not None and place in self._executors()

    def _locations(self, places: Sequence[Place]) -> list[str]:
        """The executors that are there, and the hosts: Spark takes the most exact one that has room."""
        there = set(self._executors())
        exact = [f"executor_{place.host}_{place.executor}" for place in places if place in there]
        return [*exact, *dict.fromkeys(place.host for place in places)]
