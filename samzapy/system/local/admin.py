"""The admin of a local system."""

from __future__ import annotations

from collections.abc import Iterable

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange, StreamDescription, StreamSpec, SystemAdmin
from samzapy.clock import Clock
from samzapy.errors import EnvironmentFailure, OffsetOutOfRange, UnknownStream
from samzapy.system.local.catalog import (
    Bounds,
    StreamEntry,
    bounds,
    create_stream,
    delete_stream,
    find_stream,
    first_not_older,
    grow_stream,
    stream_names,
    truncate,
)
from samzapy.system.local.cleaning import clean, give_back
from samzapy.system.local.database import Database, LocalSettings, open_database


class LocalAdmin(SystemAdmin):
    """An admin that can also compact. Only `create` makes the file; without the file there are no streams."""

    def __init__(self, settings: LocalSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._database: Database | None = None
        self._closed = False

    def create(self, spec: StreamSpec) -> bool:
        database = self._open(create=True)
        assert database is not None
        return create_stream(database, spec)

    def describe(self, stream: str) -> StreamDescription | None:
        database = self._open(create=False)
        found = None if database is None else find_stream(database, stream)
        if found is None:
            return None
        return StreamDescription(stream, found.topic.partitions, found.topic.stream_id, dict(found.topic.config))

    def list_streams(self) -> list[str]:
        database = self._open(create=False)
        return [] if database is None else stream_names(database)

    def offsets(self, ssps: Iterable[SystemStreamPartition]) -> dict[SystemStreamPartition, OffsetRange]:
        found = {}
        for ssp in ssps:
            database, slot = self._find(ssp)
            with database.read():
                oldest, upcoming, _ = self._bounds(ssp, database, slot)
            found[ssp] = OffsetRange(oldest, upcoming)
        return found

    def ends(
        self, ssps: Iterable[SystemStreamPartition], *, committed: bool = False
    ) -> dict[SystemStreamPartition, int]:
        found = {}
        for ssp in ssps:
            database, slot = self._find(ssp)
            with database.read():
                _, upcoming, stable = self._bounds(ssp, database, slot)
            found[ssp] = stable if committed else upcoming
        return found

    def offsets_at(self, ssps: Iterable[SystemStreamPartition], time_ms: int) -> dict[SystemStreamPartition, int]:
        found = {}
        for ssp in ssps:
            database, slot = self._find(ssp)
            with database.read():
                first = first_not_older(database, slot, time_ms)
                found[ssp] = self._bounds(ssp, database, slot).upcoming if first is None else first
        return found

    def delete_records(self, ssp: SystemStreamPartition, before: int) -> None:
        database, slot = self._find(ssp)
        with database.write():
            oldest, upcoming, _ = self._bounds(ssp, database, slot)
            if before > upcoming:
                raise OffsetOutOfRange(ssp, before, oldest, upcoming)
            if before > oldest:
                truncate(database, slot, before)

    def grow(self, stream: str, partitions: int) -> None:
        database, found = self._stream(stream)
        grow_stream(database, found, partitions)

    def delete(self, stream: str) -> None:
        database, _ = self._stream(stream)
        delete_stream(database, self._settings.system, stream)

    def compact(self, stream: str) -> int:
        """Clean the stream now by its `cleanup.policy`: keep the newest record of each key, drop tombstones that were first
        compacted `delete.retention.ms` ago, drop records older than `retention.ms`. Returns the number of dropped records.
        """
        database, found = self._stream(stream)
        now = self._clock.wall_ms()
        removed = sum(clean(database, found.topic, slot, now) for slot in found.slots)
        give_back(database)
        return removed

    def close(self) -> None:
        self._closed = True
        if self._database is not None:
            self._database.close()
            self._database = None

    def _open(self, *, create: bool) -> Database | None:
        if self._closed:
            raise EnvironmentFailure(f"the admin of {self._settings} is closed")
        if self._database is None:
            self._database = open_database(self._settings, create=create)
        return self._database

    def _stream(self, stream: str) -> tuple[Database, StreamEntry]:
        database = self._open(create=False)
        found = None if database is None else find_stream(database, stream)
        if database is None or found is None:
            raise UnknownStream(self._settings.system, stream, str(self._settings.path))
        return database, found

    def _find(self, ssp: SystemStreamPartition) -> tuple[Database, int]:
        database, found = self._stream(ssp.stream)
        return database, found.slot(ssp)

    def _bounds(self, ssp: SystemStreamPartition, database: Database, slot: int) -> Bounds:
        found = bounds(database, slot)
        if found is None:
            raise UnknownStream(ssp.system, ssp.stream, str(self._settings.path))
        return found
