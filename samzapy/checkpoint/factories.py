"""Makes the checkpoint manager that `task.checkpoint.*` asks for, and keeps checkpoints in files, one for each task."""

from __future__ import annotations

import fcntl
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from samzapy.api.checkpoint import Checkpoint, CheckpointManager, JobRecord, JobRun
from samzapy.api.system import StreamSpec, SystemAdmin, SystemConsumer, SystemProducer
from samzapy.checkpoint import codec
from samzapy.checkpoint.samza import SamzaRecords
from samzapy.checkpoint.topic import TopicCheckpointManager
from samzapy.checkpoint.whole_files import WholeFiles
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.job import JobConfig
from samzapy.config.own_streams import checkpoint_topic
from samzapy.config.tasks.checkpoint import CheckpointConfig
from samzapy.errors import ConfigError, ConfigProblem, EnvironmentFailure, TaskMigrated
from samzapy.plugins import PluginError, load_class

_PARTITIONS = "changelog-partitions.json"
_OWNER = "owner.json"


class FileCheckpointManager(CheckpointManager):
    """For jobs with all containers on one file system. Contents are the checkpoint topic's record values."""

    def __init__(self, folder: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        """`folder` belongs to one job; it is made when the job starts."""
        self._folder = folder
        self._files = WholeFiles(folder, clock)

    def start(self) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as cause:
            raise EnvironmentFailure(f"task.checkpoint.path: cannot make {self._folder} ({cause.strerror})") from cause

    def read(self, task_name: str) -> Checkpoint | None:
        path = self._path(task_name)
        data = self._load(path)
        return None if data is None else codec.decode(data, str(path))

    def write(self, checkpoints: Mapping[str, Checkpoint], producer: SystemProducer | None = None) -> None:
        for task_name, checkpoint in checkpoints.items():
            # Checked last: a process that was suspended in the write must not overwrite its successor's commit.
            check = partial(self._require_owned, task_name, checkpoint.epoch)
            self._store(self._path(task_name), codec.encode(checkpoint), check)

    def _require_owned(self, task_name: str, epoch: int) -> None:
        known = self.read(task_name)
        if known is not None and known.epoch > epoch:
            raise TaskMigrated(
                f"{task_name}: an attempt of epoch {known.epoch} has written its checkpoint, this one has epoch {epoch}"
            )

    def read_changelog_partitions(self) -> dict[str, int]:
        path = self._folder / _PARTITIONS
        data = self._load(path)
        return {} if data is None else codec.decode_partitions(data, str(path))

    def write_changelog_partitions(self, partitions: Mapping[str, int]) -> None:
        self._store(self._folder / _PARTITIONS, codec.encode_partitions(partitions))

    def read_owner(self) -> JobRun | None:
        path = self._folder / _OWNER
        data = self._load(path)
        return None if data is None else codec.decode_owner(data, str(path))

    def write_owner(self, run: JobRun) -> None:
        self._store(self._folder / _OWNER, codec.encode_owner(run))

    def read_record(self, record: JobRecord) -> dict[str, Any] | None:
        path = self._folder / f"{record.value}.json"
        data = self._load(path)
        return None if data is None else codec.decode_record(data, str(path))

    def write_record(self, record: JobRecord, value: Mapping[str, Any], producer: SystemProducer | None = None) -> None:
        self._store(self._folder / f"{record.value}.json", codec.encode_record(value))

    def change_record(
        self, record: JobRecord, change: Callable[[Sequence[Mapping[str, Any]]], Mapping[str, Any]]
    ) -> None:
        with self._alone(record):
            super().change_record(record, change)

    @contextmanager
    def _alone(self, record: JobRecord) -> Iterator[None]:
        """Keep other processes from changing the record, if the file system has locks."""
        path = self._folder / f"{record.value}.lock"
        try:
            lock = path.open("ab")
        except OSError as cause:
            raise EnvironmentFailure(f"{path}: cannot be locked ({cause.strerror})") from cause
        with lock:
            with suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def close(self) -> None:
        """Nothing is held open."""

    def _path(self, task_name: str) -> Path:
        return self._folder / f"task-{quote(task_name, safe='')}.json"

    def _load(self, path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as cause:
            raise EnvironmentFailure(f"{path}: cannot read the checkpoint ({cause.strerror})") from cause

    def _store(self, path: Path, data: bytes, check: Callable[[], None] = lambda: None) -> None:
        try:
            self._files.write(path.name, data, check=check)
        except OSError as cause:
            raise EnvironmentFailure(f"{path}: cannot write the checkpoint ({cause.strerror})") from cause


class NoCheckpointManager(CheckpointManager):
    """Keeps nothing. A job without checkpoints has no owner either: two copies of it run side by side."""

    def start(self) -> None:
        """There is nothing to create."""

    def read(self, task_name: str) -> Checkpoint | None:
        return None

    def write(self, checkpoints: Mapping[str, Checkpoint], producer: SystemProducer | None = None) -> None:
        """Nothing is kept."""

    def read_changelog_partitions(self) -> dict[str, int]:
        return {}

    def write_changelog_partitions(self, partitions: Mapping[str, int]) -> None:
        """Nothing is kept: the planner numbers the tasks of the same inputs in the same way."""

    def read_owner(self) -> JobRun | None:
        return None

    def write_owner(self, run: JobRun) -> None:
        """Nothing is kept."""

    def read_record(self, record: JobRecord) -> None:
        return None

    def write_record(self, record: JobRecord, value: Mapping[str, Any], producer: SystemProducer | None = None) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is held open."""


class Clients(Protocol):
    """The clients of the job's systems that a manager may use; each is made when first asked for."""

    def admin(self, system: str) -> SystemAdmin:
        """The admin of a system."""
        ...

    def consumer(self, system: str) -> SystemConsumer:
        """A new consumer of a system."""
        ...

    def producer(self, system: str) -> SystemProducer:
        """The producer of a system."""
        ...


class CheckpointManagerFactory(ABC):
    """Makes the checkpoint manager of a job; `task.checkpoint.factory` names it."""

    @abstractmethod
    def manager(self, job: JobConfig, checkpoint: CheckpointConfig, clients: Clients) -> CheckpointManager:
        """A manager for the job; connects to nothing yet."""


class TopicCheckpointManagerFactory(CheckpointManagerFactory):
    """A compacted topic on `task.checkpoint.system`."""

    def manager(self, job: JobConfig, checkpoint: CheckpointConfig, clients: Clients) -> CheckpointManager:
        system = checkpoint.system
        if system is None:
            problem = ConfigProblem("task.checkpoint.system", None, "is required (or set job.default.system)")
            raise ConfigError([problem])
        spec = StreamSpec(
            checkpoint_topic(job.name, job.id),
            1,
            {
                "cleanup.policy": "compact",
                "segment.bytes": str(checkpoint.segment_bytes),
                "max.message.bytes": str(checkpoint.max_message_bytes),
            },
            checkpoint.replication_factor,
        )
        return TopicCheckpointManager(
            system,
            spec,
            lambda: clients.admin(system),
            lambda: clients.consumer(system),
            lambda: clients.producer(system),
            samza_records=SamzaRecords(job.grouper, write=checkpoint.samza_records),
        )


class FileCheckpointManagerFactory(CheckpointManagerFactory):
    """Files below `task.checkpoint.path`, in a folder for each job."""

    def manager(self, job: JobConfig, checkpoint: CheckpointConfig, clients: Clients) -> CheckpointManager:
        if checkpoint.path is None:
            raise ConfigError([ConfigProblem("task.checkpoint.path", None, "is required for checkpoints in files")])
        return FileCheckpointManager(Path(checkpoint.path) / job.job_name)


def manager_for(job: JobConfig, clients: Clients) -> CheckpointManager:
    """The manager that the job file asks for; for `none` one that keeps nothing. Raises ConfigError."""
    checkpoint = job.task.checkpoint
    if checkpoint is None:
        return NoCheckpointManager()
    try:
        factory = load_class(checkpoint.factory)()
    except PluginError as cause:
        raise ConfigError([ConfigProblem("task.checkpoint.factory", checkpoint.factory, str(cause))]) from cause
    if not isinstance(factory, CheckpointManagerFactory):
        problem = ConfigProblem("task.checkpoint.factory", checkpoint.factory, "must be a CheckpointManagerFactory")
        raise ConfigError([problem])
    return factory.manager(job, checkpoint, clients)
