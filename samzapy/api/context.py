"""The context that a task gets in `init`: its job, its container and itself, and their metrics.

Never call a metric once per message: count within a batch, publish once per batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar, overload

from samzapy.api.collector import Sink
from samzapy.api.event_time import StateCheckpoints, Timers
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.errors import StoreError


@dataclass(slots=True, eq=False)
class Counter:
    """A number that grows. `counter.count += n` suffices; a task has one thread."""

    count: int = 0

    def inc(self, n: int = 1) -> None:
        """Add `n`."""
        self.count += n


@dataclass(slots=True, eq=False)
class Gauge:
    """A number that is set."""

    value: float = 0.0

    def set(self, value: float) -> None:
        """Set the value."""
        self.value = value


@dataclass(slots=True, eq=False)
class Timer:
    """Durations: their number, sum and maximum, in seconds."""

    count: int = 0
    total: float = 0.0
    max: float = 0.0

    def update(self, seconds: float) -> None:
        """Add one duration."""
        self.count += 1
        self.total += seconds
        self.max = max(self.max, seconds)


class Histogram:
    """Values by size. `counts` has one number for each of the `bounds`, of the values up to it and above the one
    before, and a last one for the values above all bounds. `total` is the sum of all values."""

    def __init__(self, bounds: Sequence[float]) -> None:
        """`bounds` ascend; each becomes a series of its own, so a dozen is many. Raises ValueError."""
        self.bounds = tuple(map(float, bounds))
        if not self.bounds or any(low >= high for low, high in pairwise(self.bounds)):
            raise ValueError(f"expected ascending bounds, at least one, got {tuple(bounds)}")
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def update(self, value: float, times: int = 1) -> None:
        """Add a value, `times` times."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times


class MetricsRegistry(ABC):
    """Metrics by group and name; repeated calls return the same object."""

    @abstractmethod
    def counter(self, group: str, name: str) -> Counter:
        """The counter with this name."""

    @abstractmethod
    def gauge(self, group: str, name: str) -> Gauge:
        """The gauge with this name."""

    @abstractmethod
    def timer(self, group: str, name: str) -> Timer:
        """The timer with this name."""

    @abstractmethod
    def histogram(self, group: str, name: str, bounds: Sequence[float]) -> Histogram:
        """The histogram with this name and the bounds of its first request."""

    @abstractmethod
    def snapshot(self) -> dict[str, dict[str, float]]:
        """All current values, by group and name. A timer gives `name.count`, `name.total-s` and `name.max-s`. A
        histogram gives `name.le.BOUND` for each bound, the number of values up to it, `name.le.+Inf`, `name.le.sum` and
        `name.le.count`."""


S = TypeVar("S")


@dataclass(frozen=True)
class JobContext:
    """The job: its name and id, its flat configuration with secrets in clear, and the number of its tasks, 0 outside of
    a container. Do not print it."""

    name: str
    id: str
    config: Mapping[str, str]
    tasks: int = 0


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

    @property
    def watermarked(self) -> frozenset[SystemStreamPartition]:
        """The partitions whose event time an operator takes from watermarks, and not from their messages."""
        return frozenset()

    def event_time(self, ssps: Collection[SystemStreamPartition]) -> int | None:
        """The event time of some of the task's partitions: the lowest of those that count, in milliseconds since 1970.
        None while one of them has none."""
        return None

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
