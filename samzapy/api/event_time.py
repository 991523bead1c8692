"""Event time as a task sees it: its clock, its timers, and the checkpoints of its private state.

The checkpoints follow Gearpump's model. All tasks take them at the same event times, so their checkpoints of one time
form the state of the whole job at that time. The job's checkpoint clock is the latest time for which every task has a
checkpoint. A restart begins there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.stream import SystemStreamPartition


class TaskClock(NamedTuple):
    """A task's clock: the lowest processed event time of its inputs, in milliseconds since 1970, None until
    every input has one. The time of an intermediate stream comes from the watermarks of its senders. Partitions that
    are idle or have ended do not count. `idle`: all of them are idle or have ended."""

    time_ms: int | None
    idle: bool = False


class ClockListenerTask(ABC):
    """A task that follows its clock. Gearpump's `onWatermarkProgress`."""

    @abstractmethod
    def on_clock(self, clock: TaskClock, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Called when the clock has moved: between messages, after messages that the task has processed together."""


class PartitionListenerTask(ABC):
    """A task that follows its partitions one by one: several stages in one task. `context.task.event_time` gives the
    time of some of them."""

    @abstractmethod
    def on_partition_end(
        self, ssp: SystemStreamPartition, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        """Called when a partition has ended, after all of its messages are processed."""


class TimerClock(Enum):
    """The clock by which a timer fires."""

    EVENT = "event"
    """The task's clock: the lowest of the latest event times of its input partitions. A partition of an intermediate
    stream counts with its watermark instead of the times of its messages. `samzapy checkpoint show` names the
    partition that holds the clock back."""
    WALL = "wall"
    """The wall clock."""


class Timers(ABC):
    """A task's timers: one per key and clock, in a store of the job (`stores.NAME.factory=timers`). They are committed,
    moved and restored with it.

    1. MessagePack writes the key: str, int, bytes, lists and so on; a tuple comes back as a list. Times are
       milliseconds since 1970.
    2. Calls take effect at once, also inside `TimerTask.on_timer`. A timer for a time in the past fires after the
       current call.
    3. Calls that are not committed when the process dies have no effect.
    """

    @abstractmethod
    def schedule(self, key: Any, time_ms: int, clock: TimerClock = TimerClock.EVENT) -> None:
        """Fire at `time_ms`, instead of at any earlier or later time that was set for `key` before.

        Raises StoreRefused for a key that MessagePack does not write or a time that is not an int of 63 bits.
        """

    def schedule_all(self, keys: Sequence[Any], times_ms: Sequence[int], clock: TimerClock = TimerClock.EVENT) -> None:
        """Like `schedule` for each key with its time. If a key comes twice, the last time counts. The store is read
        and written once for all of them.

        Raises StoreRefused for a key or a time that `schedule` refuses, ValueError for columns of different lengths;
        then none is set.
        """
        for key, time_ms in zip(keys, times_ms, strict=True):
            self.schedule(key, time_ms, clock)

    @abstractmethod
    def cancel(self, key: Any, clock: TimerClock = TimerClock.EVENT) -> bool:
        """Cancel a timer; returns whether there was one."""

    @abstractmethod
    def time_of(self, key: Any, clock: TimerClock = TimerClock.EVENT) -> int | None:
        """The time of the timer of `key`, None if there is none."""


class TimedState(NamedTuple):
    """A state and its checkpoint time in milliseconds since 1970. `where` names its place in errors, once it is
    kept."""

    time_ms: int
    value: bytes
    where: str = ""


class StateCheckpoints(ABC):
    """The state checkpoints of one task; its `init` gets them from `context.task.state_checkpoints`."""

    @property
    @abstractmethod
    def interval_ms(self) -> int:
        """Checkpoint times are multiples of this (`state.checkpoint.interval.ms`)."""

    @property
    @abstractmethod
    def start_ms(self) -> int:
        """The time to start with if there is no checkpoint: the job's checkpoint clock, 0 before it has a value."""

    @property
    @abstractmethod
    def overdue(self) -> bool:
        """Whether an interval of processing time has passed since the last one was persisted."""

    @abstractmethod
    def recover(self) -> TimedState | None:
        """The latest checkpoint up to the job's checkpoint clock. Removes later ones, as the task will take them again.
        None if the task never had any, or if the configuration resets all its inputs, which removes all of them.

        Raises RestoreError if a checkpoint that must exist is missing.
        """

    @abstractmethod
    def persist(self, state: TimedState) -> None:
        """Make a checkpoint durable, then report it to the job, and remove the checkpoints that no recovery can
        need."""


class StateCheckpointTask(ABC):
    """A task that keeps a private state, by checkpoints that go with its commits."""

    @abstractmethod
    def take_checkpoint(self, clock: TaskClock, collector: MessageCollector) -> TimedState | None:
        """Called as a commit begins, if any message was processed since the last checkpoint; None if none is due.

        Outputs of this call go with the commit. The state is persisted once the commit is durable, so the
        `context.task.positions` of this moment belong to both the state and the commit.
        """
