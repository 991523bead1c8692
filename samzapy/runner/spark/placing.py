"""Which try of a container is hopeless, and where the next one should run.

A host that is lost as a whole is nobody's failure to Spark: it would wait for room, which a standby may have. And of a
host that hangs Spark knows nothing for minutes. So a try is given up here if its executor has gone, if nothing is heard
of it although its worker was to be killed, and if it waits for room while a standby of the container has some.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, final

from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.leases import ContainerState
from samzapy.coordinator.progress import ContainerStatus
from samzapy.coordinator.wire import Place
from samzapy.runner.spark.locality import Locality

#: Seconds between two looks at the executors for lost ones: a look takes many calls.
EXECUTORS_PACE_S = 1.0
#: Seconds after its lease that a container gets to be ended by Spark.
SILENT_S = 10.0
#: Seconds that a container waits for room before a standby of its own has to make some.
ROOM_S = 15.0
#: What Spark says of a task whose executor is gone; it still counts the executor among its own for a moment.
EXECUTOR_LOST = "ExecutorLostFailure"
#: Why a try was given up that is no failure.
NO_ROOM = "no room"


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
class Unit:
    """One container or standby, over its tries."""

    id: str
    attempt: Try | None = None
    started: float = 0.0
    due: float = 0.0
    failures: int = 0
    done: bool = False
    before: int = 0
    """The epoch of the attempt before this try; a later one runs in it."""
    silent: float | None = None
    """Since when its lease has run out."""
    taken_back: str | None = None
    """Why the try was given up."""
    avoided: Place | None = None
    """Where nothing was heard of it."""
    released: str | None = None
    """For a container: the standby whose copies it waits for."""

    def begin(self, attempt: Try, now: float, before: int = 0) -> None:
        """A new try."""
        self.attempt, self.started, self.before = attempt, now, before
        self.silent = self.avoided = None


@final
class Placing:
    """Knows the executors, who runs where, and where the state is."""

    def __init__(self, coordinator: Coordinator, executors: Callable[[], Sequence[Place]], locality: Locality) -> None:
        self._coordinator = coordinator
        self._model = coordinator.spec.model
        self._executors = executors
        self._locality = locality
        self._seen: Sequence[Place] = ()
        self._seen_at = -math.inf

    def note(self, unit: Unit, status: ContainerStatus) -> None:
        """The state is where the container runs, once it is restored there; or has run, if it was quicker than a look."""
        place = self.place(unit.id)
        if status.phase in ("running", "done") and place is not None:
            self._locality.note(self._model.container(unit.id), place)

    def hopeless(self, unit: Unit, status: Mapping[str, ContainerStatus], now: float) -> str | None:
        """Why nothing will come of the container's try; None as long as something may."""
        own, place = status[unit.id], self.place(unit.id)
        if (own.epoch or 0) <= unit.before:
            waits = now - unit.started > ROOM_S and self._standbys(unit, status)
            return NO_ROOM if waits else None
        if place is None or own.state == ContainerState.DONE.value:
            return None
        if own.state != ContainerState.LOST.value:
            unit.silent = None
        elif unit.silent is None:
            unit.silent = now
        where = f"executor {place.executor} on {place.host}"
        if self._has_gone(place, now):
            return f"{EXECUTOR_LOST}: container {unit.id} has lost {where}"
        if unit.silent is not None and now - unit.silent > SILENT_S:
            unit.avoided = place
            return f"container {unit.id}: nothing is heard of {where}"
        return None

    def successor(self, unit: Unit, reason: str, status: Mapping[str, ContainerStatus]) -> str | None:
        """The standby that has to make room for the container after a try that ended for `reason`, if one has to: one
        that has caught up, else any if the host of the state has gone, or has no room."""
        place, there = self._locality.of(self._model.container(unit.id)), self._executors()
        if unit.taken_back is None and EXECUTOR_LOST not in reason and place in there:
            return None
        ids = self._standbys(unit, status)
        caught_up = [i for i in ids if status[i].phase == "running"]
        host_has_room = unit.taken_back != NO_ROOM and place is not None and place.host in {p.host for p in there}
        return next(iter(caught_up if host_has_room else caught_up or ids), None)

    def wanted(self, unit: Unit) -> list[str]:
        """Where the container should run, as Spark writes it; at the place of the standby that it waited for."""
        place = self._locality.of(self._model.container(unit.id))
        if unit.released is not None:
            place, unit.released = self.place(unit.released), None
        if place is not None and place == unit.avoided:
            return [_exactly(other) for other in self._executors() if other != place]
        return [] if place is None else self._locations([place])

    def beside(self, at: Place) -> list[str]:
        """Where a standby of what runs there should run: on another host, else in another executor; empty: nowhere."""
        others = [place for place in self._executors() if place != at]
        return self._locations([place for place in others if place.host != at.host] or others)

    def place(self, container_id: str) -> Place | None:
        """Where the newest attempt runs, or ran."""
        process = self._coordinator.process(container_id)
        return None if process is None else process.place

    def _standbys(self, unit: Unit, status: Mapping[str, ContainerStatus]) -> list[str]:
        """The container's standbys that run, and that have not been lost with the container's host."""
        ids, there = self._model.standbys_of(unit.id), self._executors()
        return [i for i in ids if status[i].state == ContainerState.RUNNING.value and self.place(i) in there]

    def _has_gone(self, place: Place, now: float) -> bool:
        """Whether Spark has executors, and this is none of them: without any it has lost them all, or does not say."""
        if now - self._seen_at >= EXECUTORS_PACE_S:
            self._seen, self._seen_at = self._executors(), now
        return bool(self._seen) and place not in self._seen

    def _locations(self, places: Sequence[Place]) -> list[str]:
        """The executors that are there, and the hosts: Spark takes the most exact one that has room."""
        there = set(self._executors())
        exact = [_exactly(place) for place in places if place in there]
        return [*exact, *dict.fromkeys(place.host for place in places)]


def _exactly(place: Place) -> str:
    return f"executor_{place.host}_{place.executor}"
