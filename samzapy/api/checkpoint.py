"""The progress of a task, and the run that owns the job."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import SystemProducer


class SenderState(NamedTuple):
    """The last word of a task that writes to an intermediate stream: its watermark (None: none yet), the number of tasks
    of its job, and whether it has ended or is drained."""

    time_ms: int | None
    senders: int
    ended: bool = False
    drained: bool = False


@dataclass(frozen=True)
class Checkpoint:
    """A task's position: everything before it is done, and nothing in it was written before that was durable.

    `input_offsets`: the next offset to process of each partition. `changelog_offsets`: per store, the offset of the
    last changelog record of the commit (-1: none yet). `epoch`: the attempt that wrote it. `time_ms`: when.
    `clock`: the task's event-time clock in milliseconds, None where it keeps none. `startpoints`: the ids of those that
    were followed, by partition, the newest of each. `event_times`: the marks of the clock, the latest
    event time of each partition that has brought one. `senders`: what the senders of each intermediate partition
    have said before its offset, by their names. `atomic`: the changelog offsets were committed in the transaction of a
    checkpoint, so nothing of the job's lies behind them. `serdes`: per store with a changelog, what its keys and its values
    are written with, as names that say the same whatever the job file calls them; empty in records of older versions.
    `held_by` and `idle` are for people: the partition or sender that held the clock back, and those that were idle or had
    ended.
    """

    input_offsets: Mapping[SystemStreamPartition, int]
    changelog_offsets: Mapping[str, int] = field(default_factory=dict)
    epoch: int = 0
    time_ms: int = 0
    clock: int | None = None
    startpoints: Mapping[SystemStreamPartition, str] = field(default_factory=dict)
    event_times: Mapping[SystemStreamPartition, int] = field(default_factory=dict)
    senders: Mapping[SystemStreamPartition, Mapping[str, SenderState]] = field(default_factory=dict)
    atomic: bool = False
    serdes: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    held_by: str = ""
    idle: tuple[str, ...] = ()


@dataclass(frozen=True)
class JobRun:
    """One start of a job. `id` is like no other run's; `started_ms`, `host` and `pid` (the driver's) are for people.

    `job`: name and id of the job. `epoch`: every attempt of the run has a greater one, and those of earlier runs
    smaller ones. `transactional_ids`: what the next run has to fence; None: a version wrote this that did not say.
    `lease_ms`: how long its containers may go on unseen where nothing fences them; 0 where everything is fenced.
    """

    id: str
    started_ms: int
    host: str
    pid: int
    job: tuple[str, str] | None = None
    epoch: int = 0
    transactional_ids: tuple[str, ...] | None = None
    lease_ms: int = 0


class JobRecord(Enum):
    """What else is kept of a whole job, each as one JSON object; the newest replaces the one before."""

    INPUTS = "samzapy-inputs"
    """The partition counts of its inputs, then and now."""
    LOCALITY = "samzapy-locality"
    """Where the local state of its tasks lies."""
    CLOCK = "samzapy-clock"
    """The time at which all its tasks' own states start again."""
    STARTPOINTS = "samzapy-startpoints"
    """Where its partitions are to start, whatever its tasks have committed."""
    DRAIN = "samzapy-drain"
    """Which run was asked to drain."""
    ENDED = "samzapy-ended"
    """Which run has ended as it should, so that nothing of it goes on."""
    ADOPTED = "samzapy-adopted"
    """Up to where what tools and other jobs have written to its changelogs is its own state."""


class CheckpointManager(ABC):
    """Keeps the checkpoints of a job's tasks, and beside them the run that owns the job."""

    #: Seconds a read may wait without getting on, as before an open transaction; then RestoreError.
    patience_s = 60.0

    @abstractmethod
    def start(self) -> None:
        """Create what is missing (the topic, the folder) and check what is there. Raises EnvironmentFailure."""

    @abstractmethod
    def read(self, task_name: str) -> Checkpoint | None:
        """The task's last durable checkpoint, None if it never committed (or nothing was created yet).

        Reads committed records up to the log's end at the time of the call. Raises RestoreError past its deadline.
        """

    def read_all(self, task_names: Iterable[str]) -> dict[str, Checkpoint | None]:
        """The last durable checkpoint of each task, as `read`; for those that read a log once for all of them."""
        return {name: self.read(name) for name in task_names}

    @abstractmethod
    def write(self, checkpoints: Mapping[str, Checkpoint], producer: SystemProducer | None = None) -> None:
        """Make the checkpoints, by task name, durable before returning.

        With a `producer` of the checkpoint's system that is inside a transaction, the records join that transaction
        and are durable when it commits; a manager that keeps files ignores the producer.
        """

    @abstractmethod
    def read_changelog_partitions(self) -> dict[str, int]:
        """The changelog partition of each task that ever had one, by task name: it must never change."""

    @abstractmethod
    def write_changelog_partitions(self, partitions: Mapping[str, int]) -> None:
        """Keep the mapping, durably; replaces the one before."""

    @abstractmethod
    def read_owner(self) -> JobRun | None:
        """The run that wrote last of all to `write_owner`; None if none ever did, or nothing was created yet."""

    def peek_owner(self) -> tuple[JobRun | None, bool]:
        """The owner as far as it can be read without waiting for open transactions, and whether that was everything."""
        return self.read_owner(), True

    @abstractmethod
    def write_owner(self, run: JobRun) -> None:
        """Make the job this run's, durably and outside of any transaction: from now on every other run has to let go."""

    @abstractmethod
    def read_record(self, record: JobRecord) -> Mapping[str, Any] | None:
        """The newest value; None if there is none yet. Raises RestoreError for one that is no JSON object."""

    @abstractmethod
    def write_record(self, record: JobRecord, value: Mapping[str, Any]) -> None:
        """Keep the value, durably and outside of any transaction; it must be plain JSON."""

    @abstractmethod
    def close(self) -> None:
        """Release clients; closing twice is allowed."""
