"""Serdes of bytes, UUIDs, text and numbers.

Numbers have a fixed width and are big endian. Their functions are closures bound as static methods: without `self` a
call costs a fifth less.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any
from uuid import UUID

from samzapy.api.serde import HintedSerde
from samzapy.errors import SerdeError
from samzapy.serializers.refusals import as_refusal


class BytesSerde(HintedSerde):
    """Bytes pass through; a bytearray or memoryview is copied into bytes."""

    keeps_prefixes = True
    keeps_order = True
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


class UUIDSerde(HintedSerde):
    """A `uuid.UUID` in its 16 bytes, most significant first."""

    keeps_order = True

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


class StringSerde(HintedSerde):
    """`str` as UTF-8. Anything but a str is a TypeError; a lone surrogate and bytes that are not UTF-8 a ValueError."""

    keeps_prefixes = True
    keeps_order = True
    allocates_exactly = True
    to_bytes = staticmethod(str.encode)  # type: ignore[assignment]
    from_bytes = staticmethod(bytes.decode)  # type: ignore[assignment]

    def refusal(self, value: Any, cause: Exception) -> str:
        return as_refusal("string serde takes a str", value, cause, fits=isinstance(value, str))


def _whole_number_encoder(name: str, layout: struct.Struct, limit: int) -> Callable[[Any], bytes]:
    pack: Callable[[int], bytes] = layout.pack

    def to_bytes(value: Any) -> bytes:
        """Raises SerdeError for anything but an int within the width; a bool or float would come back as an int."""
        if type(value) is int:
            try:
                return pack(value)
            except struct.error:
                raise SerdeError(f"{name} serde takes {-limit} to {limit - 1}, got {value}") from None
        if isinstance(value, int) and not isinstance(value, bool):
            return to_bytes(int(value))
        raise SerdeError(f"{name} serde takes an int, got {type(value).__name__} {value!r:.100}")

    return to_bytes


def _double_bytes(value: Any) -> bytes:
    """Raises SerdeError for anything but a float; an int would come back as a float."""
    if isinstance(value, float):
        return _pack_double(value)
    raise SerdeError(f"double serde takes a float, got {type(value).__name__} {value!r:.100}")


def _decoder(name: str, layout: struct.Struct) -> Callable[[bytes], Any]:
    unpack = layout.unpack

    def from_bytes(data: bytes) -> Any:
        """Raises SerdeError for any other number of bytes than the width."""
        try:
            return unpack(data)[0]
        except struct.error:
            raise SerdeError(f"{name} serde needs {layout.size} bytes, got {len(data)}") from None

    return from_bytes


_INTEGER, _LONG, _DOUBLE = struct.Struct(">i"), struct.Struct(">q"), struct.Struct(">d")
_pack_double: Callable[[float], bytes] = _DOUBLE.pack


class IntegerSerde(HintedSerde):
    """-2^31 to 2^31 - 1, two's complement, in 4 bytes. Only ints are taken."""

    allocates_exactly = True
    to_bytes = staticmethod(_whole_number_encoder("integer", _INTEGER, 2**31))  # type: ignore[assignment]
    from_bytes = staticmethod(_decoder("integer", _INTEGER))  # type: ignore[assignment]


class LongSerde(HintedSerde):
    """-2^63 to 2^63 - 1, two's complement, in 8 bytes. Only ints are taken."""

    allocates_exactly = True
    to_bytes = staticmethod(_whole_number_encoder("long", _LONG, 2**63))  # type: ignore[assignment]
    from_bytes = staticmethod(_decoder("long", _LONG))  # type: ignore[assignment]


class DoubleSerde(HintedSerde):
    """A float as IEEE 754 binary64 in 8 bytes. Only floats are taken."""

    allocates_exactly = True
    to_bytes = staticmethod(_double_bytes)
    from_bytes = staticmethod(_decoder("double", _DOUBLE))  # type: ignore[assignment]
