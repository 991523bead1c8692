"""`systems.NAME.samza.factory=local`: the clients of a log in a file, and the admin of a log anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import (
    OffsetRange,
    StreamDescription,
    StreamSpec,
    SystemAdmin,
    SystemConsumer,
    SystemFactory,
    SystemProducer,
    SystemSettings,
    SystemTraits,
)
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.errors import EnvironmentFailure, OffsetOutOfRange, UnknownStream
from samzapy.system.clients import record_limit
from samzapy.system.local.cleaning import clean
from samzapy.system.local.database import Database, Log, local_log
from samzapy.system.local.producer import LogProducer
from samzapy.system.local.reader import LocalReader
from samzapy.system.local.streams import (
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
from samzapy.system.log_consumer import LogConsumer


class LocalSystemFactory(SystemFactory):
    """Clients of the file that `systems.NAME.path` names. `clock` dates records and times transactions out."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock

    def check(self, settings: SystemSettings) -> None:
        local_log(settings)

    def traits(self, settings: SystemSettings) -> SystemTraits:
        log = local_log(settings)
        message = "normal: a power cut may take back the newest commits, of outputs, changelogs and checkpoints alike"
        return SystemTraits(
            max_record_bytes=record_limit(settings),
            place=f"the file {log.path}",
            risks=() if log.synchronous == "full" else (("synchronous", message),),
            transactional=True,
        )

    def consumer(self, settings: SystemSettings, client_id: str) -> SystemConsumer:
        log = local_log(settings)
        return LogConsumer(settings.name, lambda: LocalReader(log, self._clock))

    def producer(
        self, settings: SystemSettings, client_id: str, transactional_id: str | None = None, timeout_ms: int = 60_000
    ) -> SystemProducer:
        return LogProducer(local_log(settings), self._clock, transactional_id, timeout_ms)

    def admin(self, settings: SystemSettings, client_id: str) -> LogAdmin:
        return LogAdmin(local_log(settings), self._clock)


class LogAdmin(SystemAdmin):
    """An admin that can also compact. Only `create` makes a file; without the file there are no streams."""

    def __init__(self, log: Log, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._database: Database | None = None
        self._closed = False

    def create(self, spec: StreamSpec) -> bool:
        database = self._open(create=True)
        assert database is not None
        return create_stream(database, spec)

    def describe(self, stream: str) -> StreamDescription | None:
        database = self._open(create=False)
        entry = None if database is None else find_stream(database, stream)
        if entry is None:
            return None
        return StreamDescription(stream, entry.topic.partitions, entry.topic.stream_id, dict(entry.topic.config))

    def list_streams(self) -> list[str]:
        database = self._open(create=False)
        return [] if database is None else stream_names(database)

    def offsets(
        self, ssps: Iterable[SystemStreamPartition], *, committed: bool = False
    ) -> dict[SystemStreamPartition, OffsetRange]:
        ranges = {}
        for ssp in ssps:
            with self._reading(ssp) as (_, _, (oldest, upcoming, stable)):
                ranges[ssp] = OffsetRange(oldest, stable if committed else upcoming)
        return ranges

    def offsets_at(self, ssps: Iterable[SystemStreamPartition], time_ms: int) -> dict[SystemStreamPartition, int]:
        offsets = {}
        for ssp in ssps:
            with self._reading(ssp) as (database, slot, known):
                first = first_not_older(database, slot, time_ms)
                offsets[ssp] = known.upcoming if first is None else first
        return offsets

    def delete_records(self, ssp: SystemStreamPartition, before: int) -> None:
        database, entry = self._stream(ssp.stream)
        slot = entry.slot(ssp)
        with database.write():
            oldest, upcoming, _ = self._bounds(ssp, database, slot)
            if before > upcoming:
                raise OffsetOutOfRange(ssp, before, oldest, upcoming)
            if before > oldest:
                truncate(database, slot, before)

    def grow(self, stream: str, partitions: int) -> None:
        database, entry = self._stream(stream)
        grow_stream(database, entry, partitions)

    def delete(self, stream: str) -> None:
        database, _ = self._stream(stream)
        delete_stream(database, self._log.system, stream)

    def compact(self, stream: str) -> int:
        """Clean the stream now by its `cleanup.policy`: keep the newest record of each key, drop tombstones that were
        first compacted `delete.retention.ms` ago, drop records older than `retention.ms`. Returns the number of dropped
        records.
        """
        database, entry = self._stream(stream)
        now = self._clock.wall_ms()
        return sum(clean(database, entry.topic, slot, now) for slot in entry.slots)

    def close(self) -> None:
        self._closed = True
        if self._database is not None:
            self._database.close()
            self._database = None

    def _open(self, *, create: bool) -> Database | None:
        if self._closed:
            raise EnvironmentFailure(f"the admin of {self._log} is closed")
        if self._database is None:
            self._database = self._log.open(create=create)
        return self._database

    def _stream(self, stream: str) -> tuple[Database, StreamEntry]:
        database = self._open(create=False)
        entry = None if database is None else find_stream(database, stream)
        if database is None or entry is None:
            raise UnknownStream(self._log.system, stream, self._log.where)
        return database, entry

    @contextmanager
    def _reading(self, ssp: SystemStreamPartition) -> Iterator[tuple[Database, int, Bounds]]:
        """A read, with the partition's slot and bounds. Raises UnknownStream, UnknownPartition."""
        database, entry = self._stream(ssp.stream)
        slot = entry.slot(ssp)
        with database.read():
            yield database, slot, self._bounds(ssp, database, slot)

    def _bounds(self, ssp: SystemStreamPartition, database: Database, slot: int) -> Bounds:
        known = bounds(database, slot)
        if known is None:
            raise UnknownStream(ssp.system, ssp.stream, self._log.where)
        return known
