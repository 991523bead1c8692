"""Supplies a replay with the records of its inputs, in an order that the job may have had.

The order within a partition is certain. The order across partitions is not recorded, but commits bound it: the records
before a commit's positions were processed before the records behind them. Between two commits the records come by their
times, the smallest time among the next ones of all partitions first; at equal times by the partition's name.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from itertools import repeat
from typing import NamedTuple

from samzapy.api.envelope import Headers
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange, RecordBatch, SystemConsumer
from samzapy.clock import SYSTEM_CLOCK
from samzapy.replay.places import Place
from samzapy.storage.changelog.reading import scan

Positions = Mapping[SystemStreamPartition, int]


class Row(NamedTuple):
    """One record of an input. `interval`: the number of commits between the base of the replay and the record."""

    time_ms: int
    ssp: SystemStreamPartition
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None
    interval: int


class Slice(NamedTuple):
    """The records of a replay: from `starts`, through the positions of the commits in between, to the record `until`,
    which is the last one. `ends`: where each partition ends."""

    starts: Positions
    commits: Sequence[Positions]
    ends: Positions
    until: Place

    def rows(self, consumer_of: Callable[[str], SystemConsumer]) -> Generator[Row, None, None]:
        """The records in order. Raises RestoreError if a partition yields no more records before its end."""
        position = dict(self.starts)
        for interval, bounds in enumerate((*self.commits, self.ends)):
            parts = {
                ssp: OffsetRange(start, min(bounds.get(ssp, start), self.ends[ssp])) for ssp, start in position.items()
            }
            with ExitStack() as stack:
                sources = [
                    _rows(stack.enter_context(closing(consumer_of(ssp.system))), ssp, part, interval)
                    for ssp, part in sorted(parts.items())
                    if part.oldest < part.upcoming
                ]
                for row in heapq.merge(*sources, key=_moment):
                    if row.ssp == self.until.ssp and row.offset > self.until.offset:
                        return
                    yield row
                    if (row.ssp, row.offset) == self.until:
                        return
            position = {ssp: max(start, parts[ssp].upcoming) for ssp, start in position.items()}


def _moment(row: Row) -> tuple[int, SystemStreamPartition]:
    return row.time_ms, row.ssp


def _rows(consumer: SystemConsumer, ssp: SystemStreamPartition, part: OffsetRange, interval: int) -> Iterator[Row]:
    for batch in scan(consumer, ssp, part, SYSTEM_CLOCK):
        columns = (batch.timestamps, repeat(ssp), batch.offsets, batch.keys, batch.values)
        headers = batch.headers or repeat(None, len(batch.offsets))
        for row in zip(*columns, headers, repeat(interval), strict=False):
            yield Row(*row)


class Feed:
    """Hands the offered batches to the consumers of their systems, once."""

    def __init__(self, ssps: frozenset[SystemStreamPartition]) -> None:
        self.ssps = ssps
        self._offered: list[RecordBatch] = []
        self._positions: dict[SystemStreamPartition, int] = {}

    def offer(self, batches: Sequence[RecordBatch]) -> None:
        """Give these to the next poll."""
        self._offered = list(batches)

    def take(self, system: str) -> list[RecordBatch]:
        """The offered batches of a system."""
        taken = [batch for batch in self._offered if batch.ssp.system == system]
        self._offered = [batch for batch in self._offered if batch.ssp.system != system]
        self._positions.update({batch.ssp: batch.offsets[-1] + 1 for batch in taken})
        return taken

    def position(self, ssp: SystemStreamPartition, start: int) -> int:
        """The offset after the last record that was taken, `start` before the first."""
        return self._positions.get(ssp, start)


def batches_of(rows: Sequence[Row]) -> list[RecordBatch]:
    """The rows as one poll has them: one batch a partition, in the order of their first records."""
    by_ssp: dict[SystemStreamPartition, list[Row]] = {}
    for row in rows:
        by_ssp.setdefault(row.ssp, []).append(row)
    found = []
    for ssp, own in by_ssp.items():
        times, _, offsets, keys, values, headers, _ = (list(column) for column in zip(*own, strict=True))
        found.append(RecordBatch(ssp, offsets, keys, values, times, headers if any(headers) else None))
    return found
