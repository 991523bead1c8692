"""Messages with what is known about them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, NamedTuple

from samzapy.api.stream import SystemStream, SystemStreamPartition

#: Names and values, in order; names may repeat, and Kafka lets a value be null.
Headers = Sequence[tuple[str, bytes | None]]


class IncomingMessageEnvelope(NamedTuple):
    """One input message, deserialized. A tuple, so that a batch of them is built without a Python frame each.

    `event_time` and `arrival_time` are milliseconds since 1970 (`event_time` is -1 if the system keeps none);
    `size` is the serialized value's bytes; `offset` is the position in the partition; `headers` is None if there are none.
    A null key or message (a tombstone) is None.
    """

    ssp: SystemStreamPartition
    offset: int
    key: Any
    message: Any
    headers: Headers | None = None
    event_time: int = -1
    arrival_time: int = -1
    size: int = 0

    @property
    def position(self) -> str:
        """Where this message stands: `system.stream[partition]@offset`, as every error about it says."""
        return f"{self.ssp}@{self.offset}"


def _check_headers(headers: Headers) -> None:
    try:
        sound = all(isinstance(name, str) and (value is None or isinstance(value, bytes)) for name, value in headers)
    except (TypeError, ValueError):
        sound = False
    if not sound:
        raise TypeError(f"headers: expected (str, bytes or None) pairs, got {headers!r}")


def _whole(timestamp: int) -> int:
    try:
        return index(timestamp)
    except TypeError:
        raise TypeError(f"timestamp: expected whole milliseconds since 1970, got {timestamp!r}") from None


class OutgoingMessageEnvelope:
    """One output message: `OutgoingMessageEnvelope(SystemStream("kafka", "out"), message, key=key)`.

    `partition_key` chooses the partition where it is given (an int names the partition itself), else `key` does, else
    the system spreads. `headers` are (name, bytes or None) pairs; `timestamp` is milliseconds since 1970, None for now.
    A None message is a tombstone. Raises TypeError for headers that are no such pairs and a timestamp that is no integer.
    """

    __slots__ = ("headers", "key", "message", "partition_key", "system_stream", "timestamp")

    def __init__(
        self,
        system_stream: SystemStream,
        message: Any,
        key: Any = None,
        partition_key: Any = None,
        headers: Headers | None = None,
        timestamp: int | None = None,
    ) -> None:
        self.system_stream = system_stream
        self.message = message
        self.key = key
        self.partition_key = partition_key
        if headers is not None:
            _check_headers(headers)
        self.headers = headers
        self.timestamp = timestamp if timestamp is None else _whole(timestamp)

    def __repr__(self) -> str:
        return f"OutgoingMessageEnvelope({self.system_stream}, key={self.key!r}, message={self.message!r})"
