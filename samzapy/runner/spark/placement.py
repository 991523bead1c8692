"""Decides where the next attempt of a container runs, and when to give an attempt up.

`Locality` remembers where the local state of the tasks is; `Places` runs a container there. Spark fixes the preferred
places of a task when its job is submitted, so each attempt is a separate Spark job."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import final

from samzapy.api.checkpoint import JobRecord
from samzapy.config.job import JobConfig
from samzapy.container.supervision.job_records import JobRecords
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.leases import ContainerState
from samzapy.coordinator.status import ContainerStatus
from samzapy.coordinator.wire import Place
from samzapy.errors import SamzapyError
from samzapy.job.planner import ContainerModel
from samzapy.runner.base import Backoff
from samzapy.runner.checks import Checks, Row
from samzapy.runner.spark.application import SparkJob
from samzapy.strict_json import convert, plain

logger = logging.getLogger(__name__)

#: Seconds between two writes of the changes.
_PACE_S = 1.0


def place_records(config: JobConfig) -> JobRecords | None:
    """The records with the places of the job's tasks; None if no later run reads them."""
    records = JobRecords.of(config, "locality")
    return records if config.placement.host_affinity and records.kept else None


@final
class Locality:
    """The place of each task, by name. Safe to use from several threads.

    1. `watch` reads the record next to the checkpoints. From then on a row of the checks writes the changes there, so
       that no container waits for a slow broker.
    2. It is best effort: a failure is logged.
    3. Every run numbers its executors again, so only the hosts of an earlier run count.
    """

    def __init__(self, records: JobRecords | None) -> None:
        """`records`: where to keep the places between runs; None to forget them at the end."""
        self._records = records
        self._places: dict[str, Place] = {}
        self._written: dict[str, str] = {}
        self._lock = threading.Lock()

    def watch(self, checks: Checks) -> None:
        """Read the places of earlier runs, and keep those of this one."""
        if self._records is not None:
            self._read(self._records)

            def write() -> bool:
                return self._write(checks.records)

            checks.add(Row("locality", _PACE_S, write, last=write))

    def note(self, container: ContainerModel, place: Place) -> None:
        """Note that the container's state is at `place` from now on."""
        with self._lock:
            self._places.update({task.name: place for task in container.tasks})

    def of(self, container: ContainerModel) -> Place | None:
        """The place with the state of most of the container's tasks; None if it is not known."""
        with self._lock:
            known = Counter(place for task in container.tasks if (place := self._places.get(task.name)) is not None)
        return known.most_common(1)[0][0] if known else None

    def hosts(self) -> frozenset[str]:
        """The hosts with the state of any task."""
        with self._lock:
            return frozenset(place.host for place in self._places.values())

    def _read(self, records: JobRecords) -> None:
        try:
            with closing(records):
                recorded = records.checkpoints.read_record(JobRecord.LOCALITY).newest or {"tasks": {}}
            tasks = convert(dict[str, Place], recorded.get("tasks"))
        except (SamzapyError, ValueError) as cause:
            logger.warning("The places of the tasks' local state could not be read: %s", cause)
            return
        self._written = {task: place.host for task, place in tasks.items()}
        self._places = {task: Place(host) for task, host in self._written.items()}

    def _write(self, records: JobRecords) -> bool:
        with self._lock:
            places = dict(sorted(self._places.items()))
        hosts = {task: place.host for task, place in places.items()}
        if hosts != self._written:
            # The executors are only informative.
            records.checkpoints.write_record(JobRecord.LOCALITY, {"tasks": plain(places)})
            self._written = hosts
        return True


#: Seconds between two lists of the executors.
_EXECUTORS_PACE_S = 1.0
#: Seconds after the end of its lease in which Spark has to end a container.
SILENT_S = 10.0
#: Seconds that a container waits for room before one of its standbys makes room.
ROOM_S = 15.0
#: Spark's name for the loss of a task's executor. Spark still lists that executor for a moment.
EXECUTOR_LOST = "ExecutorLostFailure"
#: The only reason for giving up that is not a failure.
NO_ROOM = "no room"


@dataclass(eq=False, kw_only=True)
class Slot:
    """A container or a standby, over all its attempts (`samzapy.runner.spark.supervisor`)."""

    id: str
    backoff: Backoff
    attempt: SparkJob | None = None
    """None: WAITING, or DONE."""
    done: bool = False
    given_up: str | None = None
    """CANCELLED: the reason for giving the attempt up."""
    started: float = 0.0
    due: float = 0.0
    """The time before which no further attempt starts."""
    before: int = 0
    """The epoch before this attempt; the attempt itself runs under a later one."""
    silent: float | None = None
    """The time at which its lease expired."""
    moves: bool = False
    """Whether the attempt was asked to stop, to start again elsewhere."""
    avoided: Place | None = None
    """The place of an attempt that stayed silent."""
    released: str | None = None
    """The standby that releases its copies to this container, by `release_due`."""
    release_due: float = 0.0

    @property
    def runs(self) -> bool:
        """Whether Spark works on an attempt."""
        return self.attempt is not None and self.attempt.running

    @property
    def has_ended(self) -> bool:
        """Whether Spark has ended the attempt."""
        return self.attempt is not None and not self.attempt.running

    def error(self) -> str | None:
        """The reason why Spark has ended the attempt, None if it has ended well. Raises EnvironmentFailure."""
        return None if self.attempt is None else self.attempt.error()

    def cancel(self) -> None:
        if self.attempt is not None:
            self.attempt.cancel()

    def begin(self, attempt: SparkJob, now: float, before: int = 0) -> None:
        self.attempt, self.started, self.before = attempt, now, before
        self.silent = self.avoided = None
        self.moves = False


@final
class Places:
    """Runs a container where its state is: in the executor that ran it before, on its host, or at one of its standbys.

    It gives an attempt up in three cases:

    1. Its executor is gone. Spark would wait for room, which a standby may occupy: the loss of a whole host is not a
       failure.
    2. It stays silent, although Spark was asked to kill its worker. Spark notices a host that hangs only after minutes.
    3. It waits for room while a standby of the container occupies some.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        list_executors: Callable[[], Sequence[Place]],
        locality: Locality,
        find_leaving: Callable[[Sequence[Place]], frozenset[Place]] = lambda _: frozenset(),
    ) -> None:
        """`find_leaving`: the decommissioned ones of these executors."""
        self._coordinator = coordinator
        self._model = coordinator.spec.model
        self._containers = {container.id: container for container in self._model.containers}
        self._list_executors = list_executors
        self._locality = locality
        self._noted: dict[str, Place] = {}
        self._find_leaving = find_leaving
        self._leaving: frozenset[Place] = frozenset()
        self._present: tuple[Place, ...] = ()
        self._ever: set[Place] = set()

    def watch(self, checks: Checks) -> None:
        """List the executors now, and by a row of the checks from now on: the supervisor must not wait for a JVM that
        hangs."""
        self.poll()
        checks.add(Row("executors", _EXECUTORS_PACE_S, self.poll), asks=False)

    def poll(self) -> bool:
        """List the executors; returns whether to go on."""
        self._present = tuple(self._list_executors())
        self._leaving = self._find_leaving(self._present)
        self._ever.update(self._present)
        return True

    def note(self, slot: Slot, status: ContainerStatus) -> None:
        """Note the place of a restored container's state: where it runs, or ran, if it ended before this call."""
        if status.phase not in {"running", "done"}:
            return
        place = self.place(slot.id)
        if place is not None and place != self._noted.get(slot.id):
            self._noted[slot.id] = place
            self._locality.note(self._containers[slot.id], place)

    def give_up_reason(self, slot: Slot, status: Mapping[str, ContainerStatus], now: float) -> str | None:
        """The reason to give the slot's attempt up; None to go on."""
        own, place = status[slot.id], self.place(slot.id)
        if (own.epoch or 0) <= slot.before:
            waits = now - slot.started > ROOM_S and self._standbys(slot, status)
            return NO_ROOM if waits else None
        if place is None or own.state == ContainerState.DONE.value:
            return None
        if own.state != ContainerState.LOST.value:
            slot.silent = None
        elif slot.silent is None:
            slot.silent = now
        # An empty list means that all are lost, or that Spark does not answer.
        if self._present and place in self._ever and place not in self._present:
            return f"{EXECUTOR_LOST}: container {slot.id} has lost executor {place.executor} on {place.host}"
        if slot.silent is not None and now - slot.silent > SILENT_S:
            slot.avoided = place
            return f"container {slot.id}: no heartbeat from executor {place.executor} on {place.host}"
        return None

    def leaves(self, slot: Slot, own: ContainerStatus) -> bool:
        """Whether the slot's attempt runs in an executor that is decommissioned, so that it has to move."""
        has_registered = (own.epoch or 0) > slot.before and own.state == ContainerState.RUNNING.value
        return has_registered and self.place(slot.id) in self._leaving

    def standby_to_release(self, slot: Slot, reason: str, status: Mapping[str, ContainerStatus]) -> str | None:
        """The standby that makes room for the slot, after an attempt that ended for `reason`: one that has caught up;
        if the host of the state is gone or has no room, any standby. None if no standby has to."""
        self.poll()
        place, present = self._locality.of(self._containers[slot.id]), self._present
        if slot.given_up is None and EXECUTOR_LOST not in reason and place in present:
            return None
        ids = self._standbys(slot, status)
        caught_up = [i for i in ids if status[i].phase == "running"]
        host_has_room = slot.given_up != NO_ROOM and place is not None and place.host in {at.host for at in present}
        return next(iter(caught_up if host_has_room else caught_up or ids), None)

    def preferred(self, slot: Slot) -> list[str]:
        """The preferred places of the slot, as Spark names hosts and executors: the standby's, if the slot has waited
        for one."""
        place = self._locality.of(self._containers[slot.id])
        if slot.released is not None:
            place, slot.released = self.place(slot.released), None
        if place is not None and (place == slot.avoided or place in self._leaving):
            return [exactly(other) for other in self._present if other not in {place, *self._leaving}]
        return [] if place is None else self._locations([place])

    def standby_locations(self, at: Place) -> list[str]:
        """The preferred places of a standby whose container runs at `at`, empty for nowhere: another host, or else
        another executor."""
        others = [place for place in self._present if place not in {at, *self._leaving}]
        return self._locations([place for place in others if place.host != at.host] or others)

    def place(self, container_id: str) -> Place | None:
        """The place of the newest attempt of a container."""
        process = self._coordinator.process(container_id)
        return None if process is None else process.place

    def _standbys(self, slot: Slot, status: Mapping[str, ContainerStatus]) -> list[str]:
        """The container's standbys that run in an executor that is still there."""
        ids = self._model.standbys_of(slot.id)
        return [i for i in ids if status[i].state == ContainerState.RUNNING.value and self.place(i) in self._present]

    def _locations(self, places: Sequence[Place]) -> list[str]:
        """The present executors, and the hosts: Spark takes the most exact location with room."""
        exact = [exactly(place) for place in places if place in self._present]
        return [*exact, *dict.fromkeys(place.host for place in places)]


def exactly(place: Place) -> str:
    """An executor as Spark names it among the places of a task."""
    return f"executor_{place.host}_{place.executor}"
