"""What a task may do during a call: send outputs, send control messages, and ask its container for a commit or a stop.

Control messages go from the tasks of one stage of a pipeline to those of the next, between the messages of an intermediate
stream:

1. A task sends one with `collector.send_control(stream, message)`. It goes to every partition of the stream, behind
   everything that the task has sent before.
2. The reading task never gets it in `process`. The container combines those of all senders of a partition: the least
   watermark counts, and the partition has ended when all of its senders have ended.
3. A stream is intermediate if `streams.ID.samza.intermediate` is true. The sending and the reading job both have to set it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from samzapy.api.envelope import OutgoingMessageEnvelope
from samzapy.api.stream import SystemStream

#: The header that distinguishes control messages from messages of the user.
CONTROL_HEADER = "samzapy-control"


@dataclass(frozen=True)
class Watermark:
    """The sender will send nothing more with an event time before `time_ms`, milliseconds since 1970."""

    time_ms: int


@dataclass(frozen=True)
class EndOfStream:
    """The sender will send nothing more in this run; another run may send again."""


@dataclass(frozen=True)
class Drain:
    """The sender is drained: it sends nothing more until it is started again."""


ControlMessage: TypeAlias = Watermark | EndOfStream | Drain


class MessageCollector(ABC):
    """Takes the outputs of one task; valid only during the call that got it."""

    @abstractmethod
    def send(self, envelope: OutgoingMessageEnvelope) -> None:
        """Serialize and queue one output. The task's next commit waits for its acknowledgement.

        Raises SerdeError if key or message do not serialize, RecordTooLarge if the system refuses the size.
        """

    @abstractmethod
    def send_control(self, stream: SystemStream, message: ControlMessage) -> None:
        """Queue a control message to every partition of an intermediate stream, behind all earlier outputs.

        Raises ConfigError for a stream that is not declared intermediate, and UnknownStream.
        """


class RequestScope(Enum):
    """The tasks that a request concerns."""

    CURRENT_TASK = "current task"
    ALL_TASKS_IN_CONTAINER = "all tasks in the container"


class TaskCoordinator(ABC):
    """Takes requests of a task. They take effect when the current call returns, commits before shutdowns."""

    @abstractmethod
    def commit(self, scope: RequestScope = RequestScope.CURRENT_TASK) -> None:
        """Commit before the next message.

        The state of all tasks in a container is one transaction, so both scopes commit all of them. The commit waits for
        messages in flight of asynchronous tasks, at most `task.commit.max.delay.ms`.
        """

    @abstractmethod
    def shutdown(self, scope: RequestScope = RequestScope.CURRENT_TASK) -> None:
        """Stop. ALL_TASKS_IN_CONTAINER stops the container at once, with a final commit. CURRENT_TASK is a vote: the
        container stops after every task in it has voted; until then a task that has voted continues to process.
        """
