"""Looks whether anything but control records lies in the tails of changelogs.

With transactions the last thing in a partition is a commit's control record: that there is something behind a store's marker
does not say that the store lacks it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import SystemConsumer
from samzapy.clock import Clock
from samzapy.errors import RestoreError

_POLL_S = 0.1
#: One is enough of each partition, but they come in batches.
_POLL_RECORDS = 1_000


class Tail(NamedTuple):
    """The offsets of a partition from `start` on, before `bound`."""

    ssp: SystemStreamPartition
    start: int
    bound: int


def with_records(
    tails: Iterable[Tail], consumer: SystemConsumer, clock: Clock, stall_s: float = 60.0
) -> set[SystemStreamPartition]:
    """The partitions of one system in whose tails there is a committed record, read with a consumer that was not started.

    Of a partition no more is read than its first records. Raises RestoreError when nothing moved for `stall_s` seconds.
    """
    left = {tail.ssp: tail for tail in tails}
    for tail in left.values():
        consumer.register(tail.ssp, tail.start)
    consumer.start()
    found: set[SystemStreamPartition] = set()
    positions = {ssp: tail.start for ssp, tail in left.items()}
    moved = clock.monotonic()
    while left:
        for batch in consumer.poll(_POLL_S, _POLL_RECORDS):
            if batch.ssp in left and batch.offsets[0] < left[batch.ssp].bound:
                found.add(batch.ssp)
        before, positions = positions, {ssp: consumer.position(ssp) for ssp in left}
        done = [ssp for ssp, tail in left.items() if ssp in found or positions[ssp] >= tail.bound]
        consumer.pause(done)
        for ssp in done:
            del left[ssp]
        now = clock.monotonic()
        if positions != before:
            moved = now
        elif left and now - moved > stall_s:
            where = ", ".join(f"{ssp} at {positions[ssp]} of {tail.bound}" for ssp, tail in left.items())
            raise RestoreError(f"looking for records in changelogs made no progress for {stall_s:g} s: {where}")
    return found
