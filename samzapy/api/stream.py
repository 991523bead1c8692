"""The names of streams and of their partitions, and what belongs to the same one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

_SSP = re.compile(r"([^.]+)\.(.+)\[([0-9]+)\]")

K = TypeVar("K")
V = TypeVar("V")


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """The values of each key, in order."""
    result: dict[K, list[V]] = {}
    for key, value in pairs:
        result.setdefault(key, []).append(value)
    return result


class SystemStream(NamedTuple):
    """A stream (topic) on a system, written `system.stream`."""

    system: str
    stream: str

    @classmethod
    def parse(cls, text: str, default_system: str | None = None) -> SystemStream:
        """Read `system.stream`, or a bare `stream` when there is a default system. Raises ValueError otherwise."""
        system, dot, stream = text.strip().partition(".")
        if not dot and default_system:
            system, stream = default_system, system
        if not system or not stream or not set(stream).isdisjoint(" #"):
            raise ValueError(f"expected system.stream, got {text!r}")
        return cls(system, stream)

    def __str__(self) -> str:
        return f"{self.system}.{self.stream}"


class SystemStreamPartition(NamedTuple):
    """One partition of a stream (an SSP), written `system.stream[partition]`."""

    system: str
    stream: str
    partition: int

    @property
    def system_stream(self) -> SystemStream:
        """The stream this is a partition of."""
        return SystemStream(self.system, self.stream)

    @classmethod
    def parse(cls, text: str) -> SystemStreamPartition:
        """Read `system.stream[3]`. Raises ValueError otherwise."""
        match = _SSP.fullmatch(text)
        if match is None:
            raise ValueError(f"expected system.stream[partition], got {text!r}")
        return cls(match[1], match[2], int(match[3]))

    def __str__(self) -> str:
        return f"{self.system}.{self.stream}[{self.partition}]"
