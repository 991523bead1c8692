"""Where a task sends its outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod

from samzapy.api.control import ControlMessage
from samzapy.api.envelope import OutgoingMessageEnvelope
from samzapy.api.stream import SystemStream


class MessageCollector(ABC):
    """Takes the outputs of one task; valid only during the call it was passed to."""

    @abstractmethod
    def send(self, envelope: OutgoingMessageEnvelope) -> None:
        """Serialize and queue one output. It is acknowledged no later than the task's next commit.

        Raises SerdeError when key or message do not serialize, RecordTooLarge when the system refuses the size.
        """

    @abstractmethod
    def send_control(self, stream: SystemStream, message: ControlMessage) -> None:
        """Queue a control message to every partition of an intermediate stream, behind what was sent before.

        Raises ConfigError for a stream that is not declared intermediate, and UnknownStream.
        """
