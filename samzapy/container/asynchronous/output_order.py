"""Decides when the outputs of messages in flight leave.

1. With ids they leave in the order of the input, although messages end in any order. A receiver then only needs to
   remember its last id of a partition, and a crash leaves a prefix. Outputs that are ready early are held; no commit
   covers them, since a commit covers a message only with all messages before it.
2. Without ids they leave as they are ready, and no message waits for another.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Protocol

from samzapy.api.stream import SystemStreamPartition
from samzapy.container.errors.collectors import TolerantCollector
from samzapy.container.outputs.collector import Mark, Taken
from samzapy.container.outputs.producers import size_of

#: While a task holds so much it starts no new messages, so one that takes long does not fill the memory.
MOST_HELD_BYTES = 16 * 1024 * 1024
#: The memory of a held message, and of each of its records, beside its bytes.
_OVERHEAD_BYTES = 200


class OutputOrder(Protocol):
    """Decides when the outputs of one task leave. They are serialized already: when a message ends, the policies deal
    with its outputs that do not serialize."""

    @property
    def full(self) -> bool:
        """Whether no new message may start."""

    def mark(self) -> Mark:
        """A message ends; the collector now gathers its records."""

    def done(self, ssp: SystemStreamPartition, offset: int, position: int, mark: Mark) -> None:
        """The message at `offset` is done, and with it everything before `position`."""


class AsReady:
    """Outputs leave when their message is done."""

    full = False

    def mark(self) -> Mark:
        return ()

    def done(self, ssp: SystemStreamPartition, offset: int, position: int, mark: Mark) -> None:
        """Do nothing: no output is held."""


class InOffsetOrder:
    """Outputs leave when every message before theirs on its partition is done."""

    def __init__(self, collector: TolerantCollector, most_held_bytes: int = MOST_HELD_BYTES) -> None:
        self._collector = collector
        self._most_held_bytes = most_held_bytes
        self._held: dict[SystemStreamPartition, list[tuple[int, int, Taken]]] = {}
        self._bytes = 0

    @property
    def full(self) -> bool:
        return self._bytes >= self._most_held_bytes

    def mark(self) -> Mark:
        return self._collector.mark()

    def done(self, ssp: SystemStreamPartition, offset: int, position: int, mark: Mark) -> None:
        if position <= offset:
            taken = self._collector.take_since(mark)
            size = _OVERHEAD_BYTES + sum(_OVERHEAD_BYTES + size_of(each) for _, records in taken for each in records)
            heappush(self._held.setdefault(ssp, []), (offset, size, taken))
            self._bytes += size
            return
        held = self._held.get(ssp)
        while held and held[0][0] < position:
            _, size, taken = heappop(held)
            self._collector.put_back(taken)
            self._bytes -= size
