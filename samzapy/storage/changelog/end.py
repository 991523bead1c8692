"""Checks that only its own task writes to a changelog partition.

The records of a task follow one another without a gap, except for the control records that end transactions. So

1. before a commit sends anything, the partition ends where the task's own records ended;
2. the first record of a commit stands at that end.

The check reads the offsets in between, as a reader of committed records. If it finds a record, or stops before an open
transaction, another writer is at work, and its records would become state at the next restore.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange, SystemConsumer
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.errors import ForeignRecords, StoreError
from samzapy.storage.changelog.reading import Tail, first_records

#: Seconds without progress after which an open transaction counts as a record of its writer.
STALL_S = 5.0


class ChangelogEnd:
    """The end of the task's records in one changelog partition. One thread."""

    __slots__ = ("_clock", "_consumer_of", "_own", "_sent", "_store", "end", "ssp")

    def __init__(
        self,
        store: str,
        ssp: SystemStreamPartition,
        end: int,
        consumer_of: Callable[[str], SystemConsumer],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`end`: the partition's end at the start; everything before it was looked at."""
        self.ssp = ssp
        #: The expected offset of the task's next record: after its records and the end of their transaction.
        self.end = end
        self._own = end
        self._store = store
        self._consumer_of = consumer_of
        self._clock = clock
        self._sent: int | None = None

    def check(self, log: OffsetRange) -> None:
        """Check the partition's range `log` before a commit. Raises ForeignRecords."""
        if log.upcoming > self.end:
            self._look(log.upcoming)

    def sent(self, last: int, count: int) -> None:
        """`count` records of the task were acknowledged, the last one at offset `last`. Raises ForeignRecords."""
        first = last - count + 1
        if first < self.end:
            raise StoreError(
                f"store '{self._store}': changelog {self.ssp} ended at offset {self.end}, and a later record got "
                f"offset {first}: it was deleted or created again"
            )
        if first > self.end:
            self._look(first)
        self._sent = last

    def committed(self, marker_offsets: int) -> None:
        """The sent records are durable; the end of their transaction took this number of further offsets."""
        if self._sent is not None:
            self._own = self._sent + 1
            self.end = self._own + marker_offsets
            self._sent = None

    def _look(self, until: int) -> None:
        """Read from the task's records up to `until`, the place of the expected control record included: only control records
        may be there."""
        with closing(self._consumer_of(self.ssp.system)) as consumer:
            tail = Tail(self.ssp, self._own, until)
            found = first_records([tail], consumer, self._clock, STALL_S, open_counts=True)
        if found:
            raise foreign_records(self._store, self.ssp, self._own, found[self.ssp])
        self.end = self._own = until


def foreign_records(store: str, ssp: SystemStreamPartition, end: int, first: int) -> ForeignRecords:
    """The error for records that the job has not written. The job's records end before `end`, the others begin at `first`."""
    own = f"the job's own records end before offset {end}" if end else "the job has written nothing there"
    return ForeignRecords(
        f"{ssp}@{first}: the changelog of store '{store}' holds a record of another writer ({own}); it must not become "
        f"state. Find the other writer (was a job file copied with its changelogs?), or keep its records as state: "
        f"samzapy store adopt JOB.properties {store}",
        ssp,
    )
