"""What was polled of one partition and not handed out yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from samzapy.api.system import RecordBatch, WaitingRecords


class PartitionBuffer(WaitingRecords):
    """Batches in order, taken from at the front. `size`: the bytes of the values that wait, whole batches."""

    __slots__ = ("_at", "_batches", "_records", "size")

    def __init__(self) -> None:
        self._batches: deque[RecordBatch] = deque()
        self._at = 0
        self._records = 0
        self.size = 0

    def __len__(self) -> int:
        return self._records

    @property
    def offset(self) -> int:
        return self._batches[0].offsets[self._at]

    @property
    def timestamps(self) -> Sequence[int]:
        return self._batches[0].timestamps[self._at :]

    def add(self, batch: RecordBatch) -> None:
        """Put a batch behind what waits."""
        self._batches.append(batch)
        self._records += len(batch.offsets)
        self.size += _size(batch)

    def take(self, records: int) -> RecordBatch:
        """Take up to `records` from the front, all from one polled batch."""
        batch, start = self._batches[0], self._at
        stop = min(start + records, len(batch.offsets))
        self._records -= stop - start
        if stop == len(batch.offsets):
            self._batches.popleft()
            self.size -= _size(batch)
            self._at = 0
        else:
            self._at = stop
        if stop - start == len(batch.offsets):
            return batch
        return batch.part(start, stop)

    def clear(self) -> None:
        """Drop what waits."""
        self._batches.clear()
        self._at = self._records = self.size = 0


def _size(batch: RecordBatch) -> int:
    return sum(map(len, filter(None, batch.values)))
