"""What was read from a stream."""

from __future__ import annotations

from typing import Any

from samzapy.api.envelope import IncomingMessageEnvelope


class Outputs(list[IncomingMessageEnvelope]):
    """Envelopes, one partition after the other and in order within each: with key, message, position, time, headers."""

    @property
    def messages(self) -> list[Any]:
        """The messages alone."""
        return [envelope.message for envelope in self]

    @property
    def keys(self) -> list[Any]:
        """The keys alone."""
        return [envelope.key for envelope in self]

    @property
    def pairs(self) -> list[tuple[Any, Any]]:
        """(key, message) of each."""
        return [(envelope.key, envelope.message) for envelope in self]
