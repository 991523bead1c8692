"""Outputs: serialized when sent, handed to the producers a slice of messages at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from samzapy.api.collector import MessageCollector
from samzapy.api.envelope import OutgoingMessageEnvelope
from samzapy.api.serde import Serde
from samzapy.api.stream import SystemStream
from samzapy.api.system import OutgoingRecord, SystemProducer
from samzapy.errors import SerdeError

Encode = Callable[[Any], bytes]
#: A stream's encoders of key and message, and the list its records gather in.
Route = tuple[Encode, Encode, list[OutgoingRecord]]


def _bytes_only(data: Any) -> bytes:
    if isinstance(data, bytes):
        return data
    raise TypeError(f"no serde is set, so bytes are needed, got {type(data).__name__}")


class BufferingCollector(MessageCollector):
    """One task's collector. `hand_over` gives the gathered records to the producers, without waiting for their acks."""

    __slots__ = ("_gathered", "_routes", "_serdes_of", "producer_of", "sent")

    def __init__(
        self,
        serdes_of: Callable[[SystemStream], tuple[Serde | None, Serde | None]],
        producer_of: Callable[[str], SystemProducer],
    ) -> None:
        """`serdes_of` gives a stream's key and message serde."""
        self._serdes_of = serdes_of
        self.producer_of = producer_of
        self._routes: dict[SystemStream, Route] = {}
        self._gathered: dict[str, list[OutgoingRecord]] = {}
        self.sent = 0

    @property
    def systems(self) -> Mapping[str, object]:
        """The systems this task has sent anything to."""
        return self._gathered

    def send(self, envelope: OutgoingMessageEnvelope) -> None:
        stream = envelope.system_stream
        route = self._routes.get(stream) or self._route(stream)
        encode_key, encode_message, records = route
        key, message = envelope.key, envelope.message
        partition_key = envelope.partition_key
        partition = None
        try:
            if key is not None:
                key = encode_key(key)
            if message is not None:
                message = encode_message(message)
            if partition_key is not None:
                if type(partition_key) is int:
                    partition, partition_key = partition_key, None
                else:
                    partition_key = encode_key(partition_key)
        except Exception as cause:  # noqa: BLE001  # whatever a serde raises is about this message
            self._refuse(envelope, cause)
            return
        records.append(
            OutgoingRecord(stream.stream, key, message, partition, partition_key, envelope.headers, envelope.timestamp)
        )

    def hand_over(self) -> None:
        """Queue what was gathered at the producers. Raises what they raise."""
        for system, records in self._gathered.items():
            if records:
                self.sent += len(records)
                self.producer_of(system).send(records)
                records.clear()

    def discard(self) -> None:
        """Forget what was gathered and not handed over."""
        for records in self._gathered.values():
            records.clear()

    def _route(self, stream: SystemStream) -> Route:
        key, message = self._serdes_of(stream)
        records = self._gathered.setdefault(stream.system, [])
        route = (key.to_bytes if key else _bytes_only, message.to_bytes if message else _bytes_only, records)
        self._routes[stream] = route
        return route

    def _refuse(self, envelope: OutgoingMessageEnvelope, cause: Exception) -> None:
        raise SerdeError(f"{envelope.system_stream}: cannot serialize {envelope!r}: {cause}") from cause
