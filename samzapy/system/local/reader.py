"""Reads the logs in the file."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import chain

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import RecordBatch
from samzapy.clock import Clock
from samzapy.errors import UnknownStream
from samzapy.system.embedded.consumer import MOST_BYTES_A_POLL, Fetch, LogReader, check_position
from samzapy.system.local import transactions
from samzapy.system.local.catalog import bounds, find_stream
from samzapy.system.local.database import Database, LocalSettings, open_database
from samzapy.system.local.schema import decode_headers

_RECORDS = (
    "SELECT position, key, value, timestamp, headers FROM records "
    "WHERE slot = ? AND position >= ? AND position < ? ORDER BY position LIMIT ?"
)
_ROWS_A_STEP = 256
#: The index of the values among the columns.
_VALUE = 2

#: A waiting reader looks at the file's version after 1 ms, then after growing pauses up to the second value (seconds).
_FIRST_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 0.032


class LocalReader(LogReader):
    """A reader with a separate connection, opened by `open`."""

    def __init__(self, settings: LocalSettings, clock: Clock, most_bytes: int = MOST_BYTES_A_POLL) -> None:
        self._settings = settings
        self._most_bytes = most_bytes
        self._clock = clock
        self._database: Database | None = None
        self._slots: dict[SystemStreamPartition, int] = {}
        self._seen = -1

    def open(self, ssps: Iterable[SystemStreamPartition]) -> None:
        database = self._database = open_database(self._settings, create=False)
        entries = {}
        for ssp in ssps:
            if ssp.stream not in entries:
                found = None if database is None else find_stream(database, ssp.stream)
                if found is None:
                    raise UnknownStream(ssp.system, ssp.stream, str(self._settings.path))
                entries[ssp.stream] = found
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
                found = bounds(database, self._slots[ssp])
                if found is None:
                    raise UnknownStream(ssp.system, ssp.stream, str(self._settings.path))
                oldest, upcoming, stable = found
                check_position(ssp, position, oldest, upcoming)
                blocked = blocked or stable < upcoming
                fetched[ssp], size = self._fetch(database, ssp, (position, stable), max_records, budget)
                batch = fetched[ssp].batch
                if batch is not None:
                    max_records -= len(batch.offsets)
                    budget -= size
                    if max_records <= 0 or budget <= 0:
                        break
        if blocked:
            transactions.end_overdue(database, self._clock.wall_ms())
        return fetched

    def stream_id(self, stream: str) -> str:
        found = None if self._database is None else find_stream(self._database, stream)
        return "" if found is None else found.topic.stream_id

    def wait(self, timeout_s: float) -> float:
        database = self._opened()
        waited, pause = 0.0, _FIRST_PAUSE_S
        while waited < timeout_s:
            pause = min(pause, timeout_s - waited)
            time.sleep(pause)
            waited += pause
            if database.version() != self._seen:
                return waited
            pause = min(pause * 2, _LONGEST_PAUSE_S)
        return timeout_s

    def close(self) -> None:
        if self._database is not None:
            self._database.close()

    def _opened(self) -> Database:
        if self._database is None:
            # It was opened without any partition, before the file existed.
            self._database = open_database(self._settings, create=True)
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
        while size < max_bytes and (rows := cursor.fetchmany(_ROWS_A_STEP)):
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
            list(chain.from_iterable(each)) for each in zip(*steps, strict=True)
        )
        headers = None
        if packed.count(None) < len(packed):
            headers = [None if data is None else decode_headers(data) for data in packed]
        batch = RecordBatch(ssp, offsets, keys, values, timestamps, headers)
        return Fetch(stable if complete else offsets[-1] + 1, batch), size
