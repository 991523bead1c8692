"""The bytes that messages were decoded from, for the few that become dead letters.

Envelopes do not hold them. The polled batches are kept, as they came, until every task that reads their partition is
past them; a message's bytes are looked up by its offset. So the cost is one list operation a batch.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import RecordBatch

Pair = tuple[bytes | None, bytes | None]


class RawRecords:
    """One container's; `follow` its tasks' positions, then `keep` every poll."""

    __slots__ = ("_batches", "_positions")

    def __init__(self) -> None:
        self._positions: dict[SystemStreamPartition, list[Mapping[SystemStreamPartition, int]]] = {}
        self._batches: dict[SystemStreamPartition, list[RecordBatch]] = {}

    def follow(self, positions: Mapping[SystemStreamPartition, int]) -> None:
        """Keep what a task still has before it; `positions` is the task's own map."""
        for ssp in positions:
            self._positions.setdefault(ssp, []).append(positions)

    def keep(self, batches: Iterable[RecordBatch]) -> None:
        """Take the batches of a poll, and let go of those that are done with."""
        for batch in batches:
            ssp = batch.ssp
            done = min(positions[ssp] for positions in self._positions[ssp])
            kept = [each for each in self._batches.get(ssp, ()) if each.offsets[-1] >= done]
            self._batches[ssp] = [*kept, batch]

    def find(self, ssp: SystemStreamPartition, offset: int) -> Pair:
        """The key's and the value's bytes. Raises LookupError for a message that no kept batch holds."""
        for batch in self._batches.get(ssp, ()):
            if batch.offsets[0] <= offset <= batch.offsets[-1]:
                index = bisect_left(batch.offsets, offset)
                if batch.offsets[index] == offset:
                    return batch.keys[index], batch.values[index]
        raise LookupError(f"{ssp}@{offset}: the message's bytes are not kept any more")
