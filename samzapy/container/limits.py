"""The largest record a stream takes."""

from __future__ import annotations

from samzapy.api.stream import SystemStream
from samzapy.system.clients import SystemClients


class RecordLimits:
    """The smaller of what the stream and its producer take; asks the system, so not for every record."""

    def __init__(self, clients: SystemClients) -> None:
        self._clients = clients

    def of(self, stream: SystemStream) -> int | None:
        """In bytes; None for a stream that does not exist or does not say."""
        description = self._clients.admin(stream.system).describe(stream.stream)
        said = description.config.get("max.message.bytes", "") if description else ""
        limits = (self._clients.max_record_bytes(stream.system), int(said) if said.isdigit() else None)
        return min((limit for limit in limits if limit is not None), default=None)
