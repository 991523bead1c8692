"""The progress of a task, and the run that owns the job."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import SystemProducer


class SenderState(NamedTuple):
    """The latest state of a task that writes to an intermediate stream: its watermark (None: none yet), the number of
    tasks of its job, and whether the task has ended or is drained."""

    time_ms: int | None
    senders: int
    ended: bool = False
    drained: bool = False


@dataclass(frozen=True)
class Checkpoint:
    """The position of a task. All messages before it are processed, and their effects were durable before the
    checkpoint was written, or with it in one transaction; at-most-once writes the position first.

    input_offsets       the next offset to process of each partition
    changelog_offsets   by store, the offset of the commit's last changelog record; -1: none yet
    epoch, time_ms      the attempt that wrote it, and the time
    clock               the task's event-time clock in milliseconds; None if it keeps none
    startpoints         by partition, the id of the newest startpoint that the task has followed
    event_times         the marks of the clock: the latest event time of each partition that has brought one
    senders             by intermediate partition and sender's name, the state of the sender before the offset
    atomic              it was one transaction with the changelog records, so the job has written nothing past these
    serdes              by store with a changelog, the stable names of its serdes, whatever the job file calls them
    changelog_ids       by store with a changelog, the id of that stream
    input_ids           by input stream, the id of the stream that the offsets are of; all three are empty in records of
                        older versions
    held_by, idle       for people: the partition or sender that held the clock back, and the sources that were idle or
                        over
    told                the last watermark that `on_watermark` was called with, -1 for none; None if there was no
                        watermark; in records of older versions also None if it is the watermark of `senders`
    leader_epochs       by partition, the leader epoch in which the position was read, where it is known
    ended_in            the id of the run in which `on_end_of_stream` or `on_drain` was called at these offsets, empty
                        for none
    """

    input_offsets: Mapping[SystemStreamPartition, int]
    changelog_offsets: Mapping[str, int] = field(default_factory=dict)
    epoch: int = 0
    time_ms: int = 0
    clock: int | None = None
    _: KW_ONLY
    startpoints: Mapping[SystemStreamPartition, str] = field(default_factory=dict)
    event_times: Mapping[SystemStreamPartition, int] = field(default_factory=dict)
    senders: Mapping[SystemStreamPartition, Mapping[str, SenderState]] = field(default_factory=dict)
    atomic: bool = False
    serdes: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    changelog_ids: Mapping[str, str] = field(default_factory=dict)
    input_ids: Mapping[SystemStream, str] = field(default_factory=dict)
    held_by: str = ""
    idle: tuple[str, ...] = ()
    told: int | None = None
    ended_in: str = ""
    leader_epochs: Mapping[SystemStreamPartition, int] = field(default_factory=dict)


@dataclass(frozen=True)
class JobRun:
    """One start of a job.

    `id` is unique; `started_ms`, `host` and `pid` (the driver's) are for people. `job`: name and id of the job.
    `epoch`: every attempt of the run has a greater epoch, every attempt of an earlier run a smaller one.
    `transactional_ids`: the ids that the next run has to fence, with those of earlier runs until they are fenced; None
    in records of older versions. `lease_ms`: the time for which unfenced containers may continue without the driver; 0
    if all are fenced. `born` is the start of the driver in ticks since the boot `boot` of its machine; 0 and empty in
    records of older versions and where the kernel does not say.
    """

    id: str
    started_ms: int
    host: str
    pid: int
    job: tuple[str, str] | None = None
    epoch: int = 0
    transactional_ids: tuple[str, ...] | None = None
    _: KW_ONLY
    lease_ms: int = 0
    born: int = 0
    boot: str = ""


class JobRecord(Enum):
    """The records of a whole job, each one JSON object; a newer one replaces the older."""

    OWNER = "samzapy-owner"
    """The run that was started last."""
    PARTITIONS = "samzapy-changelog-partitions"
    """The changelog partition of each task that ever had one: it must never change."""
    INPUTS = "samzapy-inputs"
    """The partition counts of its inputs, at its first start and now."""
    LOCALITY = "samzapy-locality"
    """The hosts that have local state of its tasks."""
    CLOCK = "samzapy-clock"
    """The event time at which the states of all tasks start again."""
    STARTPOINTS = "samzapy-startpoints"
    """Positions at which partitions start instead of the committed ones."""
    DRAIN = "samzapy-drain"
    """The run that was asked to drain."""
    ENDED = "samzapy-ended"
    """The run that has ended properly, whether it has drained, and whether its process starts the job again. No part of
    the run is still active."""
    HANDOVER = "samzapy-handover"
    """The run that should hand the job over, and the run that asks for it."""
    RECEIVED = "samzapy-heard"
    """The run that has seen the request for a handover, and the run that asks."""
    ADOPTED = "samzapy-adopted"
    """The changelog offsets up to which records of tools and other jobs are adopted as the job's own state."""
    COPIED = "samzapy-copied"
    """The changelogs that stores were copied to."""


class RecordHistory(NamedTuple):
    """The values of a record that are still kept, oldest first. `complete`: everything was read."""

    values: Sequence[Mapping[str, Any]]
    complete: bool = True

    @property
    def newest(self) -> Mapping[str, Any] | None:
        """The value that counts, None if there is none."""
        return self.values[-1] if self.values else None


class CheckpointManager(ABC):
    """Keeps the checkpoints of a job's tasks, and the records of the job."""

    @abstractmethod
    def start(self) -> None:
        """Create the topic or the folder if it is missing, and check it. Raises EnvironmentFailure."""

    @abstractmethod
    def read(self, task_names: Iterable[str]) -> dict[str, Checkpoint | None]:
        """The last durable checkpoint of each task, None before its first commit.

        Reads committed records up to the log's end at the time of the call. Raises RestoreError past its deadline.
        """

    @abstractmethod
    def write(self, checkpoints: Mapping[str, Checkpoint], producer: SystemProducer | None = None) -> None:
        """Make the checkpoints, by task name, durable before returning.

        With a `producer` of the checkpoint's system that is inside a transaction, the records join that transaction
        and are durable when it commits; a manager that keeps files ignores the producer.
        """

    @abstractmethod
    def read_record(self, record: JobRecord, *, wait: bool = True) -> RecordHistory:
        """The values of a record; a manager that keeps only the newest returns that one.

        Without `wait` the read ends before the first open transaction. Raises RestoreError past its deadline, or for a
        value that is not a JSON object.
        """

    @abstractmethod
    def write_record(self, record: JobRecord, value: Mapping[str, Any], producer: SystemProducer | None = None) -> None:
        """Keep the value, durably. It must be plain JSON. With a `producer` it joins the transaction, as in `write`."""

    def change_record(
        self, record: JobRecord, change: Callable[[Sequence[Mapping[str, Any]]], Mapping[str, Any]]
    ) -> None:
        """Write the result of `change`, so that several processes can change the record at once and lose nothing.

        `change` merges the values that it gets, oldest first, and adds its own.

        1. It gets the newest value, or no value.
        2. A manager that cannot exclude other writers then calls it with that value and all values written since, until
           the newest value is the merged one.
        3. A manager that does neither overwrites the values that others write meanwhile.
        """
        self.write_record(record, change(self.read_record(record).values[-1:]))

    @abstractmethod
    def close(self) -> None:
        """Release clients; closing twice is allowed."""
