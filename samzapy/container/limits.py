"""The largest record a stream takes."""

from __future__ import annotations

from samzapy.api.stream import SystemStream
from samzapy.config.job import JobConfig
from samzapy.config.reading.classes import SYSTEMS
from samzapy.system.clients import SystemClients

#: What Kafka's client sends at most unless `producer.message.max.bytes` says otherwise.
_KAFKA_CLIENT_LIMIT = "1000000"


class RecordLimits:
    """The smaller of what the stream and its producer take; asks the system, so not for every record."""

    def __init__(self, config: JobConfig, clients: SystemClients) -> None:
        self._config = config
        self._clients = clients

    def of(self, stream: SystemStream) -> int | None:
        """In bytes; None for a stream that does not exist or does not say."""
        settings = self._config.systems[stream.system]
        default = _KAFKA_CLIENT_LIMIT if settings.factory == SYSTEMS.short["kafka"] else ""
        description = self._clients.admin(stream.system).describe(stream.stream)
        said = (
            settings.producer.get("message.max.bytes", default),
            description.config.get("max.message.bytes", "") if description else "",
        )
        return min((int(text) for text in said if text.isdigit()), default=None)
