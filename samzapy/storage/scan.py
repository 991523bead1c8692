"""A partition read from its beginning to an end that was taken before, record by record."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange, RecordBatch, SystemConsumer
from samzapy.clock import Clock
from samzapy.errors import RestoreError

_POLL_S = 0.1
_POLL_RECORDS = 5_000


def scan(
    consumer: SystemConsumer, ssp: SystemStreamPartition, log: OffsetRange, clock: Clock, stall_s: float = 60.0
) -> Iterator[RecordBatch]:
    """The committed records of the range, with a consumer that was not started yet and that the caller closes.

    Raises RestoreError when nothing moved for `stall_s` seconds, as before a transaction that stays open.
    """
    if log.oldest >= log.upcoming:
        return
    consumer.register(ssp, log.oldest)
    consumer.start()
    moved = clock.monotonic()
    while (position := consumer.position(ssp)) < log.upcoming:
        for batch in consumer.poll(_POLL_S, _POLL_RECORDS):
            count = bisect_left(batch.offsets, log.upcoming)
            if count:
                yield _first(batch, count)
        now = clock.monotonic()
        if consumer.position(ssp) > position:
            moved = now
        elif now - moved > stall_s:
            raise RestoreError(f"{ssp}@{position}: no record for {stall_s:g} s before the end {log.upcoming}")


def first_value(batches: Iterator[RecordBatch]) -> int | None:
    """The offset of the first record that is no tombstone, None if there is none."""
    for batch in batches:
        for offset, value in zip(batch.offsets, batch.values, strict=True):
            if value is not None:
                return offset
    return None


def _first(batch: RecordBatch, count: int) -> RecordBatch:
    if count == len(batch.offsets):
        return batch
    return RecordBatch(
        batch.ssp, batch.offsets[:count], batch.keys[:count], batch.values[:count], batch.timestamps[:count]
    )
