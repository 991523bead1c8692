"""The checkpoints that a task takes of a state of its own, each under a checkpoint time.

Gearpump's model: tasks take them at the same event times, so that what all of them have of one time is the state of the
whole job at that time. The greatest such time is the job's checkpoint clock; a job that starts again starts there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import NamedTuple

from samzapy.api.collector import MessageCollector
from samzapy.api.event_time import TaskClock


class TimedState(NamedTuple):
    """A state and its checkpoint time in milliseconds since 1970; `where` it lies, for errors, once it is kept."""

    time_ms: int
    value: bytes
    where: str = ""


class StateCheckpoints(ABC):
    """One task's, as its `init` gets them from `context.task.state_checkpoints`."""

    @property
    @abstractmethod
    def interval_ms(self) -> int:
        """Checkpoint times are multiples of this (`state.checkpoint.interval.ms`)."""

    @property
    @abstractmethod
    def start_ms(self) -> int:
        """The time to begin with if there is none to recover: the job's checkpoint clock, 0 before it has one."""

    @property
    @abstractmethod
    def overdue(self) -> bool:
        """Whether the last one was persisted an interval ago, in processing time."""

    @abstractmethod
    def recover(self) -> TimedState | None:
        """The greatest one that is not past the job's checkpoint clock; later ones are removed, as others will follow.

        None if there never was any, so that the task begins, or if the configuration resets all its inputs, which
        removes every one. Raises RestoreError where there must be one and is none.
        """

    @abstractmethod
    def persist(self, state: TimedState) -> None:
        """Make it durable, then let the job know of it; those that no recovery can need any more are removed."""


class StateCheckpointTask(ABC):
    """A task whose own state is kept by checkpoints that go with its commits."""

    @abstractmethod
    def take_checkpoint(self, clock: TaskClock, collector: MessageCollector) -> TimedState | None:
        """Called as a commit begins, if any message was processed since the last checkpoint; None if none is due.

        What is sent here goes with the commit. The state is persisted once the commit is durable, so
        `context.task.positions` of now are both its own and the committed ones.
        """


class CheckpointStore(ABC):
    """Keeps the checkpoints of one task (Gearpump: `transaction.api.CheckpointStore`). One thread."""

    @abstractmethod
    def persist(self, time_ms: int, value: bytes) -> None:
        """Keep `value` under `time_ms`, durably before returning; one that is there is replaced."""

    @abstractmethod
    def times(self) -> list[int]:
        """The times of which one is kept, as a whole, ascending."""

    @abstractmethod
    def recover(self, time_ms: int) -> bytes:
        """What is kept under `time_ms`. Raises RestoreError if it is damaged or not there."""

    @abstractmethod
    def remove(self, times: Collection[int]) -> None:
        """Forget these; one that is not there is no error. A crash may leave some of them."""

    @abstractmethod
    def place(self, time_ms: int) -> str:
        """Where a checkpoint lies: a path, or a topic's partition and key."""

    @abstractmethod
    def close(self) -> None:
        """Release what is held open; closing twice is allowed."""
