"""The context that a task gets in `init`: its job, its container and itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from samzapy.api.event_time import StateCheckpoints, Timers
from samzapy.api.kv import KeyValueStore
from samzapy.api.metrics import MetricsRegistry
from samzapy.api.sink import Sink
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.errors import StoreError

S = TypeVar("S")


@dataclass(frozen=True)
class JobContext:
    """The job: its name and id, and its flat configuration with secrets in clear. Do not print it."""

    name: str
    id: str
    config: Mapping[str, str]


@dataclass(frozen=True)
class ContainerContext:
    """The container: its id, the metrics that its tasks share, and its clock, which a test or a replay drives."""

    id: str
    metrics: MetricsRegistry
    clock: Clock = SYSTEM_CLOCK


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
        """The number of the attempt. It only grows, so a sink can refuse the writes of an older attempt."""

    @overload
    def get_store(self, name: str) -> KeyValueStore[Any, Any]: ...

    @overload
    def get_store(self, name: str, kind: type[S]) -> S: ...

    @abstractmethod
    def get_store(self, name: str, kind: type[Any] = object) -> Any:
        """The task's store `name`: a KeyValueStore, or the interface of its view (`kind`, e.g. HeapStore).

        Raises StoreError with the known names if the job has no such store, or if it is not of `kind`.
        """

    @property
    def timers(self) -> Timers:
        """The task's timers. Raises StoreError for a job without a store for them."""
        raise StoreError(f"{self.task_name}: the job has no store for timers; add stores.NAME.factory=timers")

    def message_type(self, stream: SystemStream) -> Any:
        """The class of an input's messages, by the job file (`streams.ID.samza.msg.type`) or by the annotations of the
        task; None for plain values, and for a stream that is no input of the task."""
        return None

    @abstractmethod
    def set_starting_offset(self, ssp: SystemStreamPartition, offset: int) -> None:
        """Start this partition at `offset` instead of the checkpoint's; only in `init`."""

    @property
    @abstractmethod
    def positions(self) -> Mapping[SystemStreamPartition, int]:
        """The next offset to process of each partition, between two messages."""

    @abstractmethod
    def replay_from(self, ssp: SystemStreamPartition, offset: int) -> int:
        """Start this partition at `offset`, before the committed offset, to rebuild the task's private state; only in
        `init`.

        Returns the committed offset. The task has already sent the outputs of earlier messages, and commits do not go
        back. Has no effect if a startpoint or `reset.offset` sets the start of the partition.
        """

    @property
    @abstractmethod
    def state_checkpoints(self) -> StateCheckpoints:
        """The checkpoints of a StateCheckpointTask's private state. Raises RuntimeError for any other task."""

    @abstractmethod
    def register_sink(self, sink: Sink) -> None:
        """Open, commit and close `sink` with this task; only in `init`.

        Raises ValueError for a second sink of the same name, RuntimeError for a StateCheckpointTask.
        """


@dataclass(frozen=True)
class Context:
    """The job, the container and the task."""

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
