"""Where a task sends its outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod

from samzapy.api.envelope import OutgoingMessageEnvelope


class MessageCollector(ABC):
    """Takes the outputs of one task; valid only during the call it was passed to."""

    @abstractmethod
    def send(self, envelope: OutgoingMessageEnvelope) -> None:
        """Serialize and queue one output. It is acknowledged no later than the task's next commit.

        Raises SerdeError when key or message do not serialize, RecordTooLarge when the system refuses the size.
        """
