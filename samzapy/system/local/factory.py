"""The clients of a log.

systems.NAME.samza.factory=local     a log in a file
systems.NAME.samza.factory=memory    the same inside the process, for tests: offsets with holes, compaction,
                                     transactions and fencing as Kafka has them
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from threading import Lock
from typing import ClassVar

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import (
    OffsetRange,
    RecordBatch,
    StreamDescription,
    StreamSpec,
    SystemAdmin,
    SystemFactory,
    SystemProducer,
    SystemSettings,
    SystemTraits,
)
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.errors import DELETED_RECORDS, LOST_RECORDS, EnvironmentFailure, OffsetOutOfRange, UnknownStream
from samzapy.system.base import MOST_BYTES_PER_POLL, Fetch, LogConsumer
from samzapy.system.clients import record_limit
from samzapy.system.local.database import Database, LocalLog, Log, MemoryDatabase, local_log
from samzapy.system.local.producer import LogProducer
from samzapy.system.local.streams import (
    Bounds,
    Topic,
    bounds,
    clean,
    create_stream,
    decode_headers,
    delete_stream,
    end_overdue,
    find_stream,
    first_not_older,
    grow_stream,
    stream_names,
    truncate,
)

_RECORDS = (
    "SELECT position, key, value, timestamp, headers FROM records "
    "WHERE slot = ? AND position >= ? AND position < ? ORDER BY position LIMIT ?"
)
_ROWS_PER_STEP = 256
#: The index of the values among the columns.
_VALUE = 2


class LocalConsumer(LogConsumer):
    """Connects in `start`."""

    def __init__(self, log: Log, most_bytes: int = MOST_BYTES_PER_POLL, *, committed: bool = True) -> None:
        """With `committed` false it also reads the records of open transactions."""
        super().__init__(log.system)
        self._committed = committed
        self._log = log
        self._most_bytes = most_bytes
        self._database: Database | None = None
        self._slots: dict[SystemStreamPartition, int] = {}
        self._seen = -1

    def close(self) -> None:
        super().close()
        if self._database is not None:
            self._database.close()

    def _open(self, ssps: Iterable[SystemStreamPartition]) -> None:
        database = self._database = self._log.open(create=False)
        topics: dict[str, Topic] = {}
        for ssp in ssps:
            if ssp.stream not in topics:
                topic = None if database is None else find_stream(database, ssp.stream)
                if topic is None:
                    raise UnknownStream(ssp.system, ssp.stream, self._log.where)
                topics[ssp.stream] = topic
            self._slots[ssp] = topics[ssp.stream].slot(ssp)

    def _read(
        self, positions: Sequence[tuple[SystemStreamPartition, int]], max_records: int
    ) -> dict[SystemStreamPartition, Fetch]:
        database = self._opened()
        self._seen = database.version()
        fetched: dict[SystemStreamPartition, Fetch] = {}
        budget = self._most_bytes
        blocked = False
        with database.read():
            for ssp, position in positions:
                known = _bounds(self._log, ssp, database, self._slots[ssp])
                oldest, upcoming, stable = known if self._committed else (*known[:2], known.upcoming)
                if not oldest <= position <= upcoming:
                    reason = LOST_RECORDS if position > upcoming else DELETED_RECORDS
                    raise OffsetOutOfRange(ssp, position, oldest, upcoming, reason)
                blocked = blocked or stable < upcoming
                fetched[ssp], size = self._read_one(database, ssp, (position, stable), max_records, budget)
                batch = fetched[ssp].batch
                if batch is not None:
                    max_records -= len(batch.offsets)
                    budget -= size
                    if max_records <= 0 or budget <= 0:
                        break
        if blocked:
            end_overdue(database, self._log.clock.wall_ms())
        return fetched

    def _stream_id(self, stream: str) -> str:
        topic = None if self._database is None else find_stream(self._database, stream)
        return "" if topic is None else topic.stream_id

    def _wait(self, timeout_s: float) -> float:
        return self._opened().wait(self._seen, timeout_s)

    def _opened(self) -> Database:
        if self._database is None:
            # It was opened without any partition, before the file existed.
            self._database = self._log.open(create=True)
        assert self._database is not None
        return self._database

    def _read_one(
        self, database: Database, ssp: SystemStreamPartition, within: tuple[int, int], max_records: int, max_bytes: int
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


class LogSystemFactory(SystemFactory):
    """Clients of the log of a system."""

    @abstractmethod
    def log(self, settings: SystemSettings) -> Log:
        """The log. Raises ConfigError."""

    def check(self, settings: SystemSettings) -> None:
        self.log(settings)

    def consumer(self, settings: SystemSettings, client_id: str) -> LocalConsumer:
        return LocalConsumer(self.log(settings))

    def producer(
        self, settings: SystemSettings, client_id: str, transactional_id: str | None = None, timeout_ms: int = 60_000
    ) -> SystemProducer:
        return LogProducer(self.log(settings), transactional_id, timeout_ms)

    def admin(self, settings: SystemSettings, client_id: str) -> LogAdmin:
        return LogAdmin(self.log(settings))


class LocalSystemFactory(LogSystemFactory):
    """Clients of the file that `systems.NAME.path` names. `clock` dates records and times transactions out."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock

    def log(self, settings: SystemSettings) -> LocalLog:
        return local_log(settings, self._clock)

    def traits(self, settings: SystemSettings) -> SystemTraits:
        log = self.log(settings)
        message = "normal: a power cut may take back the newest commits, of outputs, changelogs and checkpoints alike"
        return SystemTraits(
            max_record_bytes=record_limit(settings),
            place=f"the file {log.path}",
            risks=() if log.synchronous == "full" else (("synchronous", message),),
            transactional=True,
        )


class LogAdmin(SystemAdmin):
    """An admin that can also compact. Only `create` makes a file; without the file there are no streams."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._database: Database | None = None
        self._closed = False

    def create(self, spec: StreamSpec) -> bool:
        database = self._open(create=True)
        assert database is not None
        return create_stream(database, spec)

    def describe(self, stream: str) -> StreamDescription | None:
        database = self._open(create=False)
        topic = None if database is None else find_stream(database, stream)
        if topic is None:
            return None
        return StreamDescription(stream, len(topic.slots), topic.stream_id, dict(topic.settings.config))

    def list_streams(self) -> list[str]:
        database = self._open(create=False)
        return [] if database is None else stream_names(database)

    def offsets(
        self, ssps: Iterable[SystemStreamPartition], *, committed: bool = False
    ) -> dict[SystemStreamPartition, OffsetRange]:
        ranges, find = {}, cache(self._stream)
        for ssp in ssps:
            database, topic = find(ssp.stream)
            with database.read():
                oldest, upcoming, stable = _bounds(self._log, ssp, database, topic.slot(ssp))
            ranges[ssp] = OffsetRange(oldest, stable if committed else upcoming)
        return ranges

    def offsets_at(self, ssps: Iterable[SystemStreamPartition], time_ms: int) -> dict[SystemStreamPartition, int]:
        offsets, find = {}, cache(self._stream)
        for ssp in ssps:
            database, topic = find(ssp.stream)
            with database.read():
                known = _bounds(self._log, ssp, database, topic.slot(ssp))
                first = first_not_older(database, topic.slot(ssp), time_ms)
            offsets[ssp] = known.upcoming if first is None else first
        return offsets

    def delete_records(self, ssp: SystemStreamPartition, before: int) -> None:
        database, topic = self._stream(ssp.stream)
        slot = topic.slot(ssp)
        with database.write():
            oldest, upcoming, _ = _bounds(self._log, ssp, database, slot)
            if before > upcoming:
                raise OffsetOutOfRange(ssp, before, oldest, upcoming)
            if before > oldest:
                truncate(database, slot, before)

    def grow(self, stream: str, partitions: int) -> None:
        database, topic = self._stream(stream)
        grow_stream(database, topic, partitions)

    def delete(self, stream: str) -> None:
        database, _ = self._stream(stream)
        delete_stream(database, self._log.system, stream)

    def compact(self, stream: str) -> int:
        """Clean the stream now by its `cleanup.policy`: keep the newest record of each key, drop tombstones that were
        first compacted `delete.retention.ms` ago, drop records older than `retention.ms`. Returns the number of dropped
        records.
        """
        database, topic = self._stream(stream)
        now = self._log.clock.wall_ms()
        return sum(clean(database, topic.settings, slot, now) for slot in topic.slots)

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

    def _stream(self, stream: str) -> tuple[Database, Topic]:
        database = self._open(create=False)
        topic = None if database is None else find_stream(database, stream)
        if database is None or topic is None:
            raise UnknownStream(self._log.system, stream, self._log.where)
        return database, topic


def _bounds(log: Log, ssp: SystemStreamPartition, database: Database, slot: int) -> Bounds:
    known = bounds(database, slot)
    if known is None:
        raise UnknownStream(ssp.system, ssp.stream, log.where)
    return known


_BATCH = 10_000


class MemoryCluster:
    """One broker. `MemoryCluster.named(name)` finds or makes it; `MemoryCluster.reset_all()` forgets all of them.

    Thread-safe. `clock` dates records and ends transactions that took too long; a test may replace it. `admin` creates,
    grows, deletes and compacts its streams.
    """

    _named: ClassVar[dict[str, MemoryCluster]] = {}
    _registry: ClassVar[Lock] = Lock()

    def __init__(self, name: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self.name = name
        self.clock = clock
        self.database = MemoryDatabase(MemoryLog(name, self))

    @classmethod
    def named(cls, name: str) -> MemoryCluster:
        """The cluster of that name, new if there is none."""
        with cls._registry:
            if name not in cls._named:
                cls._named[name] = cls(name)
            return cls._named[name]

    @classmethod
    def forget(cls, name: str) -> None:
        """Forget one cluster, if it is known; clients made before go on with it."""
        with cls._registry:
            cls._named.pop(name, None)

    @classmethod
    def reset_all(cls) -> None:
        """Forget every cluster; clients made before go on with the old ones."""
        with cls._registry:
            cls._named.clear()

    def batches(self, ssp: SystemStreamPartition, *, committed: bool = True) -> Iterator[RecordBatch]:
        """The records of a partition, with those of open transactions unless `committed`."""
        consumer = LocalConsumer(MemoryLog(ssp.system, self), committed=committed)
        consumer.start({ssp: self.admin(ssp.system).offsets([ssp])[ssp].oldest})
        while batches := consumer.poll(0.0, _BATCH):
            yield from batches

    def admin(self, system: str = "") -> LogAdmin:
        """An admin for a system of that name, by default the cluster's."""
        return LogAdmin(MemoryLog(system or self.name, self))


class MemoryLog(Log):
    """The log of a cluster, for the clients of one system."""

    def __init__(self, system: str, cluster: MemoryCluster) -> None:
        self.system = system
        self.cluster = cluster

    @property
    def clock(self) -> Clock:
        return self.cluster.clock

    def __str__(self) -> str:
        return f"memory system '{self.system}' ({self.where})"

    @property
    def where(self) -> str:
        return f"cluster '{self.cluster.name}'"

    def open(self, *, create: bool) -> MemoryDatabase:
        return self.cluster.database


class MemorySystemFactory(LogSystemFactory):
    """Clients of the cluster that `systems.NAME.cluster` names (default: the system's name); ends with the process.

    Other keys of the system mean nothing here and are ignored, so that a job file for Kafka runs unchanged.
    """

    def log(self, settings: SystemSettings) -> MemoryLog:
        return MemoryLog(settings.name, MemoryCluster.named(settings.properties.get("cluster", settings.name)))

    def traits(self, settings: SystemSettings) -> SystemTraits:
        message = "memory: its streams are gone when this process ends, changelogs and checkpoints too"
        return SystemTraits(
            max_record_bytes=record_limit(settings),
            place="the memory of one process",
            risks=(("samza.factory", message),),
            transactional=True,
        )
