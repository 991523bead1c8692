"""Numbers of fixed width, big endian."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from samzapy.api.serde import Serde
from samzapy.errors import SerdeError


class _WholeNumberSerde(Serde):
    """Signed, two's complement. Only ints are taken: a bool or a float would come back as something else."""

    _name: str
    _format: struct.Struct
    _limit: int

    def __init__(self) -> None:
        self._pack: Callable[[int], bytes] = self._format.pack
        self._unpack: Callable[[bytes], tuple[int]] = self._format.unpack

    def to_bytes(self, value: Any) -> bytes:
        """Raises SerdeError for anything but an int within the width."""
        if type(value) is int:
            try:
                return self._pack(value)
            except struct.error:
                limit = self._limit
                raise SerdeError(f"{self._name} serde takes {-limit} to {limit - 1}, got {value}") from None
        if isinstance(value, int) and not isinstance(value, bool):
            return self.to_bytes(int(value))
        raise SerdeError(f"{self._name} serde takes an int, got {type(value).__name__} {value!r}")

    def from_bytes(self, data: bytes) -> int:
        """Raises SerdeError for any other number of bytes."""
        try:
            return self._unpack(data)[0]
        except struct.error:
            raise SerdeError(f"{self._name} serde needs {self._format.size} bytes, got {len(data)}") from None


class IntegerSerde(_WholeNumberSerde):
    """-2^31 to 2^31 - 1 in 4 bytes."""

    _name, _format, _limit = "integer", struct.Struct(">i"), 2**31


class LongSerde(_WholeNumberSerde):
    """-2^63 to 2^63 - 1 in 8 bytes."""

    _name, _format, _limit = "long", struct.Struct(">q"), 2**63


class DoubleSerde(Serde):
    """A float as IEEE 754 binary64 in 8 bytes. An int is refused, for it would come back as a float."""

    _format = struct.Struct(">d")

    def __init__(self) -> None:
        self._pack: Callable[[float], bytes] = self._format.pack
        self._unpack: Callable[[bytes], tuple[float]] = self._format.unpack

    def to_bytes(self, value: Any) -> bytes:
        """Raises SerdeError for anything but a float."""
        if isinstance(value, float):
            return self._pack(value)
        raise SerdeError(f"double serde takes a float, got {type(value).__name__} {value!r}")

    def from_bytes(self, data: bytes) -> float:
        """Raises SerdeError for any other number of bytes than 8."""
        try:
            return self._unpack(data)[0]
        except struct.error:
            raise SerdeError(f"double serde needs 8 bytes, got {len(data)}") from None
