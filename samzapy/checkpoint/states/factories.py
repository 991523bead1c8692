"""From `state.checkpoint.*` to the store of a task's states."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from urllib.parse import quote

from samzapy.api.event_time import CheckpointStore
from samzapy.api.system import StreamSpec
from samzapy.checkpoint.factories import Clients
from samzapy.checkpoint.states.files import FileCheckpointStore
from samzapy.checkpoint.states.topic import TopicCheckpointStore
from samzapy.config.job import JobConfig
from samzapy.config.own_streams import state_checkpoint_topic
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.plugins import PluginError, load_class

#: So many partitions the topic is made with: a container reads those of its tasks only.
_PARTITIONS = 16


class CheckpointStoreFactory(ABC):
    """Named by `state.checkpoint.store.factory`."""

    @abstractmethod
    def store(self, job: JobConfig, task_name: str, clients: Clients) -> CheckpointStore:
        """A store for the task; connects to nothing yet. Raises ConfigError for settings it does not take."""


class TopicCheckpointStoreFactory(CheckpointStoreFactory):
    """A compacted topic on `state.checkpoint.system`."""

    def store(self, job: JobConfig, task_name: str, clients: Clients) -> CheckpointStore:
        system = job.state_checkpoint.system
        if system is None:
            message = "required for state checkpoints in a topic (or set job.default.system)"
            raise ConfigError([ConfigProblem("state.checkpoint.system", None, message)])
        name = state_checkpoint_topic(job.name, job.id)
        spec = StreamSpec(name, _PARTITIONS, {"cleanup.policy": "compact"}, job.state_checkpoint.replication_factor)
        return TopicCheckpointStore(
            system,
            spec,
            task_name,
            lambda: clients.admin(system),
            lambda: clients.consumer(system),
            lambda: clients.producer(system),
        )


class FileCheckpointStoreFactory(CheckpointStoreFactory):
    """Files below `state.checkpoint.path`, in a folder of the job's own."""

    def store(self, job: JobConfig, task_name: str, clients: Clients) -> CheckpointStore:
        path = job.state_checkpoint.path
        if path is None:
            raise ConfigError([ConfigProblem("state.checkpoint.path", None, "required for state checkpoints in files")])
        return FileCheckpointStore(Path(path) / job.job_name / quote(task_name, safe=""))


def store_factory(job: JobConfig) -> CheckpointStoreFactory:
    """The factory that the job file asks for. Raises ConfigError."""
    path = job.state_checkpoint.factory
    try:
        factory = load_class(path)()
    except PluginError as cause:
        raise ConfigError([ConfigProblem("state.checkpoint.store.factory", path, str(cause))]) from cause
    if not isinstance(factory, CheckpointStoreFactory):
        problem = ConfigProblem("state.checkpoint.store.factory", path, "must be a CheckpointStoreFactory")
        raise ConfigError([problem])
    return factory
