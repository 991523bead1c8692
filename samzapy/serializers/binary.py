"""Bytes as they are, and UUIDs."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from samzapy.api.serde import Serde
from samzapy.errors import SerdeError


class BytesSerde(Serde):
    """Bytes pass through; a bytearray or memoryview is copied into bytes."""

    keeps_prefixes = True
    allocates_exactly = True
    keeps_bytes = True
    from_bytes = staticmethod(bytes)  # type: ignore[assignment]

    def to_bytes(self, value: Any) -> bytes:
        """Raises SerdeError for anything but bytes, bytearray and memoryview."""
        if type(value) is bytes:
            return value
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value)
        raise SerdeError(f"bytes serde takes bytes, got {type(value).__name__} {value!r:.100}")


class UUIDSerde(Serde):
    """A `uuid.UUID` in its 16 bytes, most significant first."""

    def to_bytes(self, value: Any) -> bytes:
        """Raises SerdeError for anything but a UUID; its text is not taken."""
        if isinstance(value, UUID):
            return value.bytes
        raise SerdeError(f"uuid serde takes a UUID, got {type(value).__name__} {value!r:.100}")

    def from_bytes(self, data: bytes) -> UUID:
        """Raises SerdeError for any other number of bytes than 16."""
        if len(data) != 16:
            raise SerdeError(f"uuid serde needs 16 bytes, got {len(data)}")
        return UUID(bytes=data)
