"""Keeps the checkpoints of a job, in a topic or in files: makes the manager that `task.checkpoint.*` asks for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from samzapy.api.checkpoint import Checkpoint, CheckpointManager, JobRecord, RecordHistory
from samzapy.api.system import StreamSpec, SystemProducer
from samzapy.checkpoint.managers import Clients, FileCheckpointManager, TopicCheckpointManager
from samzapy.config.checkpoint import CheckpointConfig
from samzapy.config.job import JobConfig, checkpoint_topic
from samzapy.errors import ConfigError
from samzapy.plugins import PluginError, load_class


class NoCheckpointManager(CheckpointManager):
    """Keeps nothing. A job without checkpoints has no owner either: two copies of it run side by side."""

    def start(self) -> None:
        """There is nothing to create."""

    def read(self, task_names: Iterable[str]) -> dict[str, Checkpoint | None]:
        return dict.fromkeys(task_names)

    def write(self, checkpoints: Mapping[str, Checkpoint], producer: SystemProducer | None = None) -> None:
        """Nothing is kept."""

    def read_record(self, record: JobRecord, *, wait: bool = True) -> RecordHistory:
        return RecordHistory(())

    def write_record(self, record: JobRecord, value: Mapping[str, Any], producer: SystemProducer | None = None) -> None:
        """Nothing is kept: the planner numbers the tasks of the same inputs in the same way."""

    def close(self) -> None:
        """Nothing is held open."""


class CheckpointManagerFactory(ABC):
    """Makes the checkpoint manager of a job; `task.checkpoint.factory` names it."""

    @abstractmethod
    def manager(self, job: JobConfig, checkpoint: CheckpointConfig, clients: Clients) -> CheckpointManager:
        """A manager for the job; connects to nothing yet."""


#: Settings of a new checkpoint topic, unless the defaults of its system differ.
_TOPIC_DEFAULTS = {"segment.bytes": "26214400", "max.message.bytes": "1000012"}


class TopicCheckpointManagerFactory(CheckpointManagerFactory):
    """A compacted topic on `task.checkpoint.system`."""

    def manager(self, job: JobConfig, checkpoint: CheckpointConfig, clients: Clients) -> CheckpointManager:
        system = checkpoint.system
        if system is None:
            raise ConfigError.of("task.checkpoint.system", None, "is required (or set job.default.system)")
        defaults = job.systems[system].default_stream
        settings = {name: defaults.get(name, value) for name, value in _TOPIC_DEFAULTS.items()}
        settings["cleanup.policy"] = "compact"
        spec = StreamSpec(checkpoint_topic(job.name, job.id), 1, settings, checkpoint.replication_factor)
        write_samza = checkpoint.samza_records
        return TopicCheckpointManager(system, spec, clients, grouper=job.grouper, write_samza=write_samza)


class FileCheckpointManagerFactory(CheckpointManagerFactory):
    """Files below `task.checkpoint.path`, in a folder for each job."""

    def manager(self, job: JobConfig, checkpoint: CheckpointConfig, clients: Clients) -> CheckpointManager:
        if checkpoint.path is None:
            raise ConfigError.of("task.checkpoint.path", None, "is required for checkpoints in files")
        return FileCheckpointManager(Path(checkpoint.path) / job.job_name)


def manager_for(job: JobConfig, clients: Clients) -> CheckpointManager:
    """The manager that the job file asks for; for `none` one that keeps nothing. Raises ConfigError."""
    checkpoint = job.task.checkpoint
    if checkpoint is None:
        return NoCheckpointManager()
    try:
        factory = load_class(checkpoint.factory)()
    except PluginError as cause:
        raise ConfigError.of("task.checkpoint.factory", checkpoint.factory, str(cause)) from cause
    if not isinstance(factory, CheckpointManagerFactory):
        raise ConfigError.of("task.checkpoint.factory", checkpoint.factory, "must be a CheckpointManagerFactory")
    return factory.manager(job, checkpoint, clients)


__all__ = [
    "CheckpointManagerFactory",
    "Clients",
    "FileCheckpointManagerFactory",
    "NoCheckpointManager",
    "TopicCheckpointManagerFactory",
    "checkpoint_topic",
    "manager_for",
]
