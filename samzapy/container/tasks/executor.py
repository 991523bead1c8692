"""What the run loop gives to an executor of tasks, and what it gets back.

The calls go one way: the loop passes messages in, and the executor yields a `Step` after each piece of work. The loop
alone acts on a step: requests of the task, timers, commits, the stop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Iterable, Sequence
from enum import Enum, auto
from math import inf
from typing import NamedTuple

from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStreamPartition
from samzapy.container.event_time.control_messages import SentControl
from samzapy.container.tasks.task_instance import TaskInstance

#: Decoded messages of one partition, in order; never empty.
Run = Sequence[IncomingMessageEnvelope]
Delivery = tuple[TaskInstance, SystemStreamPartition, Run]


class Step(NamedTuple):
    """Some code of the task has run: it may have outputs, requests and due timers.

    `moved`: messages have moved its clock, and `on_clock` was not called for that. `control`: the control message that
    the task has come to; all messages before it are processed.
    """

    task: TaskInstance
    moved: bool = False
    control: tuple[SystemStreamPartition, SentControl] | None = None


class Load(NamedTuple):
    """The accepted messages of an executor.

    `full`: it takes no more now. `idle`: all are processed, or wait until `due_at` (monotonic). `busy`: there is more
    to do right now. `held`: the partitions whose tasks have enough.
    """

    full: bool = False
    idle: bool = True
    busy: bool = False
    due_at: float = inf
    held: frozenset[SystemStreamPartition] = frozenset()


class Quiet(Enum):
    """What a wait for messages in flight makes possible."""

    CALL = auto()
    """Another call into the task: no message has started and not ended, or was overtaken."""
    CHANGE = auto()
    """A change of the task's stores: the failure of no message would undo it."""
    COMMIT = auto()
    """A commit without gaps."""


class TaskExecutor(ABC):
    """Processes the messages of a container's tasks: one at a time, in batches, or with several in flight."""

    @abstractmethod
    def process(
        self, deliveries: Iterable[Delivery], ended: Collection[SystemStreamPartition]
    ) -> Generator[Step, None, None]:
        """Process the messages, or accept them for later calls, and go on with accepted ones. Nothing more comes of the
        partitions that have `ended`. A caller that closes the generator leaves the rest to the next start."""

    @property
    @abstractmethod
    def load(self) -> Load:
        """The messages that it has accepted."""

    @abstractmethod
    def settle(self, quiet: Quiet, task: TaskInstance | None = None, *, stopping: bool) -> str:
        """Wait for messages in flight, of the task or of all. `stopping`: the loop ends, so only messages that must end
        are waited for. Returns the tasks that prevent a commit for too long, else nothing."""

    @abstractmethod
    def close(self) -> None:
        """Give up the messages in flight."""
