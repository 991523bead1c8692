"""Reads the streams of a log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import RecordBatch
from samzapy.clock import Clock
from samzapy.errors import OffsetOutOfRange, UnknownStream
from samzapy.system.local.database import Database, Log
from samzapy.system.local.streams import bounds, decode_headers, end_overdue, find_stream
from samzapy.system.log_consumer import MOST_BYTES_PER_POLL, Fetch, LogReader

_RECORDS = (
    "SELECT position, key, value, timestamp, headers FROM records "
    "WHERE slot = ? AND position >= ? AND position < ? ORDER BY position LIMIT ?"
)
_ROWS_PER_STEP = 256
#: The index of the values among the columns.
_VALUE = 2


class LocalReader(LogReader):
    """A reader that connects in `open`."""

    def __init__(
        self, log: Log, clock: Clock, most_bytes: int = MOST_BYTES_PER_POLL, *, committed: bool = True
    ) -> None:
        """With `committed` false it also reads the records of open transactions."""
        self._committed = committed
        self._log = log
        self._most_bytes = most_bytes
        self._clock = clock
        self._database: Database | None = None
        self._slots: dict[SystemStreamPartition, int] = {}
        self._seen = -1

    def open(self, ssps: Iterable[SystemStreamPartition]) -> None:
        database = self._database = self._log.open(create=False)
        entries = {}
        for ssp in ssps:
            if ssp.stream not in entries:
                entry = None if database is None else find_stream(database, ssp.stream)
                if entry is None:
                    raise UnknownStream(ssp.system, ssp.stream, self._log.where)
                entries[ssp.stream] = entry
            self._slots[ssp] = entries[ssp.stream].slot(ssp)

    def read(
        self, positions: Sequence[tuple[SystemStreamPartition, int]], max_records: int
    ) -> dict[SystemStreamPartition, Fetch]:
        database = self._opened()
        self._seen = database.version()
        fetched: dict[SystemStreamPartition, Fetch] = {}
        budget = self._most_bytes
        blocked = False
        with database.read():
            for ssp, position in positions:
                known = bounds(database, self._slots[ssp])
                if known is None:
                    raise UnknownStream(ssp.system, ssp.stream, self._log.where)
                oldest, upcoming, stable = known if self._committed else (*known[:2], known.upcoming)
                if not oldest <= position <= upcoming:
                    raise OffsetOutOfRange(ssp, position, oldest, upcoming)
                blocked = blocked or stable < upcoming
                fetched[ssp], size = self._fetch(database, ssp, (position, stable), max_records, budget)
                batch = fetched[ssp].batch
                if batch is not None:
                    max_records -= len(batch.offsets)
                    budget -= size
                    if max_records <= 0 or budget <= 0:
                        break
        if blocked:
            end_overdue(database, self._clock.wall_ms())
        return fetched

    def stream_id(self, stream: str) -> str:
        entry = None if self._database is None else find_stream(self._database, stream)
        return "" if entry is None else entry.topic.stream_id

    def wait(self, timeout_s: float) -> float:
        return self._opened().wait(self._seen, timeout_s)

    def close(self) -> None:
        if self._database is not None:
            self._database.close()

    def _opened(self) -> Database:
        if self._database is None:
            # It was opened without any partition, before the file existed.
            self._database = self._log.open(create=True)
        assert self._database is not None
        return self._database

    def _fetch(
        self,
        database: Database,
        ssp: SystemStreamPartition,
        within: tuple[int, int],
        max_records: int,
        max_bytes: int,
    ) -> tuple[Fetch, int]:
        position, stable = within
        if position >= stable:
            return Fetch(position, None), 0
        cursor = database.execute(_RECORDS, (self._slots[ssp], position, stable, max_records))
        steps, size, count = [], 0, 0
        while size < max_bytes and (rows := cursor.fetchmany(_ROWS_PER_STEP)):
            # One step at a time, while its rows are in the processor's cache.
            step = list(zip(*rows, strict=True))
            steps.append(step)
            count += len(rows)
            size += sum(map(len, filter(None, step[_VALUE])))
        complete = size < max_bytes and count < max_records
        cursor.close()
        if not steps:
            return Fetch(stable, None), 0
        offsets, keys, values, timestamps, packed = (
            list(chain.from_iterable(column)) for column in zip(*steps, strict=True)
        )
        headers = None
        if packed.count(None) < len(packed):
            headers = [None if data is None else decode_headers(data) for data in packed]
        batch = RecordBatch(ssp, offsets, keys, values, timestamps, headers)
        return Fetch(stable if complete else offsets[-1] + 1, batch), size
