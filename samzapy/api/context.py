"""What a task learns in `init`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from samzapy.api.event_time import StateCheckpoints, Timers
from samzapy.api.kv import KeyValueStore
from samzapy.api.metrics import MetricsRegistry
from samzapy.api.sink import Sink
from samzapy.api.stream import SystemStreamPartition
from samzapy.errors import StoreError

S = TypeVar("S")


@dataclass(frozen=True)
class JobContext:
    """The job: its name and id, and its flat configuration with secrets in clear (do not print it)."""

    name: str
    id: str
    config: Mapping[str, str]


@dataclass(frozen=True)
class ContainerContext:
    """The container: its id, and the metrics shared by its tasks."""

    id: str
    metrics: MetricsRegistry


class TaskContext(ABC):
    """The task: its name, its partitions, its stores."""

    @property
    @abstractmethod
    def task_name(self) -> str:
        """For example `Partition 3`."""

    @property
    @abstractmethod
    def ssps(self) -> frozenset[SystemStreamPartition]:
        """The partitions this task processes, broadcast ones included."""

    @property
    @abstractmethod
    def metrics(self) -> MetricsRegistry:
        """Counters, gauges and timers of this task."""

    @property
    @abstractmethod
    def epoch(self) -> int:
        """The attempt's number; it only grows, so a sink can refuse the writes of an older attempt."""

    @overload
    def get_store(self, name: str) -> KeyValueStore[Any, Any]: ...

    @overload
    def get_store(self, name: str, kind: type[S]) -> S: ...

    @abstractmethod
    def get_store(self, name: str, kind: type[Any] = object) -> Any:
        """The task's store of that name: a KeyValueStore, or what the store's engine offers instead (`kind`, e.g.
        HeapStore). Raises StoreError, naming the known ones, if the job has none such, or if it is not of `kind`."""

    @property
    def timers(self) -> Timers:
        """The task's timers. Raises StoreError for a job without a store for them."""
        raise StoreError(f"{self.task_name}: the job has no store for timers; add stores.NAME.factory=timers")

    @abstractmethod
    def set_starting_offset(self, ssp: SystemStreamPartition, offset: int) -> None:
        """Start this partition at `offset` instead of the checkpoint's; only in `init`."""

    @property
    @abstractmethod
    def positions(self) -> Mapping[SystemStreamPartition, int]:
        """The next offset to process of each partition, as it is between two messages."""

    @abstractmethod
    def replay_from(self, ssp: SystemStreamPartition, offset: int) -> int:
        """Start this partition at `offset`, where a state of the task's own was kept, though the job has committed more;
        only in `init`. Returns the committed offset: outputs of messages before it are out, and commits do not go back.
        Nothing changes where a startpoint or `reset.offset` says where the partition starts."""

    @property
    @abstractmethod
    def state_checkpoints(self) -> StateCheckpoints:
        """The checkpoints of a StateCheckpointTask's own state. Raises RuntimeError for a task that is none."""

    @abstractmethod
    def register_sink(self, sink: Sink) -> None:
        """Let `sink` be opened, committed and closed with this task; only in `init`. Raises ValueError for a second
        sink of the same name, RuntimeError for a StateCheckpointTask's."""


@dataclass(frozen=True)
class Context:
    """Everything `init` is told."""

    job: JobContext
    container: ContainerContext
    task: TaskContext

    @overload
    def get_store(self, name: str) -> KeyValueStore[Any, Any]: ...

    @overload
    def get_store(self, name: str, kind: type[S]) -> S: ...

    def get_store(self, name: str, kind: type[Any] = object) -> Any:
        """Short for `context.task.get_store(name, kind)`."""
        return self.task.get_store(name, kind)
