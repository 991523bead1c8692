"""Remembers where the local state of the tasks lies: learns it from running attempts, and keeps it with the job."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from types import TracebackType
from typing import Any, final

from samzapy.api.checkpoint import JobRecord
from samzapy.config.job import JobConfig
from samzapy.container.supervision.job_records import JobRecords
from samzapy.coordinator.wire import Place
from samzapy.errors import RestoreError, SamzapyError
from samzapy.job.model import ContainerModel
from samzapy.runner.periodic import Periodic

logger = logging.getLogger(__name__)

#: Seconds between two looks at whether there is something to write down, and those that the end of a run waits.
_PACE_S, _PATIENCE_S = 1.0, 5.0


def place_records(config: JobConfig) -> JobRecords | None:
    """The records in which the job keeps the places of its tasks; None if no later run asks for them."""
    records = JobRecords.of(config, "locality")
    return records if config.placement.host_affinity and records.kept else None


@final
class Locality:
    """The place of each task, by name. Safe to use from several threads.

    1. On entering it reads the record beside the checkpoints. While entered, a thread of its own writes changes there: a
       broker that is slow must not keep a container waiting.
    2. It does its best: a failure is logged.
    3. Executors have new numbers in every run, so of an earlier run it believes only the host.
    """

    def __init__(self, records: JobRecords | None) -> None:
        """`records`: where the places are kept from run to run; None to forget them at the end."""
        self._records = records
        self._places: dict[str, Place] = {}
        self._written: dict[str, str] = {}
        self._lock = threading.Lock()
        self._looks = Periodic("locality", _PACE_S, self._write, last=self._write)

    def __enter__(self) -> Locality:
        if self._records is not None:
            self._read(self._records)
            self._looks.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._looks.end(_PATIENCE_S)

    def note(self, container: ContainerModel, place: Place) -> None:
        """The container's state is at `place`, from now on."""
        with self._lock:
            self._places.update({task.name: place for task in container.tasks})

    def of(self, container: ContainerModel) -> Place | None:
        """Where most of the container's tasks have their state; None if that is not known."""
        with self._lock:
            known = Counter(place for task in container.tasks if (place := self._places.get(task.name)) is not None)
        return known.most_common(1)[0][0] if known else None

    def hosts(self) -> frozenset[str]:
        """Every host that has the state of some task."""
        with self._lock:
            return frozenset(place.host for place in self._places.values())

    def _read(self, records: JobRecords) -> None:
        try:
            with closing(records):
                self._places = from_json(records.checkpoints.read_record(JobRecord.LOCALITY))
        except SamzapyError as cause:
            logger.warning("Where the tasks' local state lies is not known: %s", cause)
        self._written = {task: place.host for task, place in self._places.items()}

    def _write(self) -> bool:
        with self._lock:
            places = dict(self._places)
        hosts = {task: place.host for task, place in places.items()}
        if self._records is None or hosts == self._written:
            return True
        try:
            with closing(self._records):
                self._records.checkpoints.write_record(JobRecord.LOCALITY, to_json(places))
            self._written = hosts
        except SamzapyError as cause:
            logger.warning("Where the tasks' local state lies was not written down: %s", cause)
        return True


def to_json(places: Mapping[str, Place]) -> dict[str, Any]:
    """As a record beside the checkpoints; the executors are for people."""
    return {"tasks": {task: {"host": at.host, "executor": at.executor} for task, at in sorted(places.items())}}


def from_json(data: Mapping[str, Any] | None) -> dict[str, Place]:
    """The hosts of such a record; none for None. Raises RestoreError."""
    try:
        tasks = {} if data is None else data["tasks"]
        return {task: Place(str(place["host"])) for task, place in tasks.items()}
    except (KeyError, TypeError, AttributeError) as cause:
        raise RestoreError(f"the job's record of its tasks' hosts cannot be read ({type(cause).__name__})") from cause
