"""The interfaces a user implements. `StreamTask` is required, the others add a power each."""

from __future__ import annotations

from abc import ABC, abstractmethod

from samzapy.api.collector import MessageCollector
from samzapy.api.context import Context
from samzapy.api.coordinator import TaskCoordinator
from samzapy.api.envelope import IncomingMessageEnvelope


class StreamTask(ABC):
    """One task: processes the messages of its partitions, one at a time, in the order of each partition."""

    @abstractmethod
    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        """Process one message. It is done when this returns; an exception ends the attempt without a commit."""


class InitableTask(ABC):
    """A task that prepares itself."""

    @abstractmethod
    def init(self, context: Context) -> None:
        """Called once, after the task's stores are restored and before its first message."""


class WindowableTask(ABC):
    """A task with a timer."""

    @abstractmethod
    def window(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Called every `task.window.ms` (default -1: never), never at the same time as `process`."""


class ClosableTask(ABC):
    """A task that cleans up."""

    @abstractmethod
    def close(self) -> None:
        """Called at shutdown, before the stores close. Not called when the process is killed."""


class EndOfStreamListenerTask(ABC):
    """A task that wants to know when its bounded inputs have ended."""

    @abstractmethod
    def on_end_of_stream(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Called once, when all of the task's partitions have reached their end."""
