"""One partition: columns in offset order, and the ranges of open transactions."""

from __future__ import annotations

from bisect import bisect_left
from itertools import compress

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import RecordBatch
from samzapy.system.embedded.consumer import Fetch
from samzapy.system.embedded.producer import Columns
from samzapy.system.embedded.topic import Topic

_STEP = 256


class PartitionLog:
    """Not thread-safe: the cluster's lock guards it."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.records = Columns()
        self.oldest = 0
        self.upcoming = 0
        self.dirty = 0
        self._open: dict[str, list[tuple[int, int]]] = {}
        self._cleanings: list[tuple[int, int]] = []

    @property
    def stable(self) -> int:
        """The offset below which every record is decided: the first of the oldest open transaction, or `upcoming`."""
        return min((ranges[0][0] for ranges in self._open.values()), default=self.upcoming)

    def append(self, columns: Columns, transactional_id: str | None) -> int:
        """Add the records, as part of an open transaction if an id is given; returns the last one's offset."""
        first, end = self.upcoming, self.upcoming + len(columns)
        self.offsets.extend(range(first, end))
        for name in Columns.__slots__:
            getattr(self.records, name).extend(getattr(columns, name))
        if transactional_id is not None:
            self._open.setdefault(transactional_id, []).append((first, end))
        self.upcoming = end
        self.dirty += len(columns)
        return end - 1

    def decide(self, transactional_id: str, *, committed: bool) -> None:
        """End a transaction. As in Kafka, its control record takes an offset."""
        ranges = self._open.pop(transactional_id, None)
        if ranges is None:
            return
        if not committed:
            for first, end in ranges:
                self._drop(bisect_left(self.offsets, first), bisect_left(self.offsets, end))
        self.upcoming += 1

    def fetch(self, ssp: SystemStreamPartition, position: int, max_records: int, max_bytes: int) -> Fetch:
        """Decided records from `position` on, at least one if any exist."""
        stable = self.stable
        low = bisect_left(self.offsets, position)
        high = bisect_left(self.offsets, stable, low)
        end = self._end_within(low, min(high, low + max_records), max_bytes)
        if end == low:
            return Fetch(max(position, stable) if low == high else position, None)
        batch = self._batch(ssp, low, end)
        after = batch.offsets[-1] + 1
        return Fetch(max(stable, after) if end == high else after, batch)

    def everything(self, ssp: SystemStreamPartition) -> RecordBatch | None:
        """All records, including open transactions; None if there are none."""
        return self._batch(ssp, 0, len(self.offsets)) if self.offsets else None

    def first_not_older(self, time_ms: int) -> int:
        """The first offset with a record that is not older than `time_ms`, else `upcoming`."""
        for offset, timestamp in zip(self.offsets, self.records.timestamps, strict=True):
            if timestamp >= time_ms:
                return offset
        return self.upcoming

    def truncate(self, before: int) -> None:
        """Drop everything below `before`."""
        self._drop(0, bisect_left(self.offsets, before))
        self.oldest = before

    def clean(self, topic: Topic, now_ms: int) -> int:
        """Drop the records that the topic's policy does not keep; returns their number."""
        before = len(self.offsets)
        if topic.expires:
            kept = self.first_not_older(now_ms - topic.retention_ms)
            self.truncate(max(self.oldest, min(kept, self.stable)))
        if topic.compacted:
            self._compact(topic, now_ms)
        self.dirty = 0
        return before - len(self.offsets)

    def _compact(self, topic: Topic, now_ms: int) -> None:
        until = self.stable
        if topic.min_compaction_lag_ms > 0:
            until = min(until, self.first_not_older(now_ms - topic.min_compaction_lag_ms + 1))
        end = bisect_left(self.offsets, until)
        self._cleanings.append((until, now_ms))
        expired = [entry for entry in self._cleanings if entry[1] + topic.delete_retention_ms <= now_ms]
        horizon = max((offset for offset, _ in expired), default=0)
        self._cleanings = [entry for entry in self._cleanings if entry not in expired] + expired[-1:]
        newest = dict(zip(self.records.keys[:end], range(end), strict=True))
        values, offsets = self.records.values, self.offsets
        kept = [i for i in newest.values() if values[i] is not None or offsets[i] >= horizon]
        keep = bytearray(end)
        for index in kept:
            keep[index] = 1
        self.offsets[:end] = compress(self.offsets, keep)
        for name in Columns.__slots__:
            column = getattr(self.records, name)
            column[:end] = compress(column, keep)

    def _batch(self, ssp: SystemStreamPartition, low: int, end: int) -> RecordBatch:
        at, records = slice(low, end), self.records
        headers = records.headers[at]
        return RecordBatch(
            ssp,
            self.offsets[at],
            records.keys[at],
            records.values[at],
            records.timestamps[at],
            headers if any(headers) else None,
        )

    def _drop(self, low: int, high: int) -> None:
        del self.offsets[low:high]
        for name in Columns.__slots__:
            del getattr(self.records, name)[low:high]

    def _end_within(self, low: int, high: int, max_bytes: int) -> int:
        values = self.records.values
        for start in range(low, high, _STEP):
            step_end = min(start + _STEP, high)
            max_bytes -= sum(map(len, filter(None, values[start:step_end])))
            if max_bytes <= 0:
                return step_end
        return high
