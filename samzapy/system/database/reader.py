"""What a consumer reads from: the tables of one database."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from samzapy.api.stream import SystemStreamPartition
from samzapy.clock import Clock
from samzapy.config.streams.database import DatabaseConfig
from samzapy.errors import UnknownStream
from samzapy.system.database.connection import Database
from samzapy.system.database.stream import TableStream
from samzapy.system.database.table import find_table
from samzapy.system.embedded.consumer import Fetch, LogReader

#: Between two reads of a table that has more, for the caller's sake: never no time at all.
_LEAST_WAIT_S = 0.001


class DatabaseReader(LogReader):
    """Reads each table when it is due: again at once while there is more, else after its poll interval."""

    def __init__(self, config: DatabaseConfig, clock: Clock) -> None:
        self._config = config
        self._database = Database(config)
        self._clock = clock
        self._streams: dict[str, TableStream] = {}
        self._wanted: set[str] = set()

    def open(self, ssps: Iterable[SystemStreamPartition]) -> None:
        by_stream: dict[str, list[SystemStreamPartition]] = {}
        for ssp in ssps:
            by_stream.setdefault(ssp.stream, []).append(ssp)
        with self._database.connected() as connection:
            for stream, partitions in by_stream.items():
                if stream not in self._config.tables:
                    raise UnknownStream(self._config.system, stream, self._database.shown)
                source = find_table(self._database, connection, self._config.tables[stream])
                self._streams[stream] = TableStream(source, connection, self._clock)
                self._streams[stream].check(partitions)

    def read(
        self, positions: Sequence[tuple[SystemStreamPartition, int]], max_records: int
    ) -> dict[SystemStreamPartition, Fetch]:
        by_stream: dict[str, dict[SystemStreamPartition, int]] = {}
        for ssp, position in positions:
            by_stream.setdefault(ssp.stream, {})[ssp] = position
        self._wanted = set(by_stream)
        fetched: dict[SystemStreamPartition, Fetch] = {}
        for stream, of_stream in by_stream.items():
            if max_records > 0 and self._streams[stream].wait_s <= 0:
                with self._database.connected() as connection:
                    found = self._streams[stream].read(connection, of_stream, max_records)
                max_records -= sum(len(each.batch.offsets) for each in found.values() if each.batch)
                fetched |= found
        return fetched

    def wait(self, timeout_s: float) -> float:
        due = min((self._streams[stream].wait_s for stream in self._wanted), default=timeout_s)
        pause = min(timeout_s, max(due, _LEAST_WAIT_S))
        time.sleep(pause)
        return pause

    def boundary(self, ssp: SystemStreamPartition, offset: int) -> int:
        return self._streams[ssp.stream].boundary(offset)

    def close(self) -> None:
        self._database.close()
