"""The SPI of a messaging system: a factory that makes consumers, producers and admins. And the SPI of choosers.

1. Logs are partitioned and addressed by offset. Offsets are ints that only grow; they may have holes (compaction,
   control records).
2. `oldest` is the first offset that can still be read. `upcoming` is the offset that the next record will get at the
   earliest. So a reader is at the end when its position is >= `upcoming`. Never `==`, never "last + 1".
3. A chooser chooses the partition of the next messages. The container asks it a few times per poll, with the
   partitions and their numbers of waiting records, and never once per message. A choice takes from the front of a
   partition, so the order within it stays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, runtime_checkable

from samzapy.api.context import JobContext
from samzapy.api.envelope import Headers
from samzapy.api.stream import SystemStream, SystemStreamPartition, grouped
from samzapy.clock import Clock
from samzapy.errors import EnvironmentFailure, RestoreStalled


class RecordBatch(NamedTuple):
    """Consecutive records of one partition, as columns of equal length, in offset order; never empty.

    `timestamps` are milliseconds since 1970 (-1: none).
    `headers` is None when no record of the batch has any.
    """

    ssp: SystemStreamPartition
    offsets: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    timestamps: Sequence[int]
    headers: Sequence[Headers | None] | None = None

    def part(self, start: int, stop: int) -> RecordBatch:
        """The records from index `start` to before `stop`; at least one."""
        headers = None if self.headers is None else self.headers[start:stop]
        return RecordBatch(
            self.ssp,
            self.offsets[start:stop],
            self.keys[start:stop],
            self.values[start:stop],
            self.timestamps[start:stop],
            headers if headers is not None and any(headers) else None,
        )


class OffsetRange(NamedTuple):
    """A partition's readable range: oldest <= offset < upcoming. `upcoming` counts open transactions too."""

    oldest: int
    upcoming: int


class OutgoingRecord(NamedTuple):
    """One serialized output. Without a `partition`, the murmur2 hash of `partition_key`, else of `key`, chooses it;
    records without either are spread."""

    stream: str
    key: bytes | None
    value: bytes | None
    partition: int | None = None
    partition_key: bytes | None = None
    headers: Headers | None = None
    timestamp: int | None = None


class OutgoingColumns(NamedTuple):
    """Serialized outputs to one stream, in order, as columns of equal length; an absent column is None in
    every record. Without a partition, the murmur2 hash of the partition key, else of the key, chooses it; records
    without either are spread. An int as `partitions` is the partition of all records. The columns do not change after
    this."""

    stream: str
    keys: Sequence[bytes | None] | None
    values: Sequence[bytes | None]
    partitions: int | Sequence[int | None] | None = None
    partition_keys: Sequence[bytes | None] | None = None
    headers: Sequence[Headers | None] | None = None
    timestamps: Sequence[int | None] | None = None

    @property
    def size(self) -> int:
        """The number of records."""
        return len(self.values)

    def records(self) -> Iterator[OutgoingRecord]:
        """The same as records."""
        columns: list[Iterable[Any]] = [
            repeat(column) if column is None or isinstance(column, int) else column for column in self[1:]
        ]
        return map(OutgoingRecord, repeat(self.stream), *columns)

    @classmethod
    def of(cls, records: Sequence[OutgoingRecord]) -> OutgoingColumns:
        """The columns of records to one stream."""
        (stream, *_), *columns = zip(*records, strict=True)
        keys, values, *rest = [None if column == (None,) * len(column) else column for column in columns]
        return cls(stream, keys, columns[1] if values is None else values, *rest)


def change_columns(stream: str, partition: int, changes: Iterable[tuple[bytes, bytes | None]]) -> OutgoingColumns:
    """The columns of (key, value) pairs for one partition, None meaning a tombstone."""
    pairs = list(changes)
    return OutgoingColumns(stream, [key for key, _ in pairs], [value for _, value in pairs], partition)


def in_columns(records: Sequence[OutgoingRecord]) -> Iterator[OutgoingColumns]:
    """The records of each stream, in order, as columns."""
    streams = [record.stream for record in records]
    if not records or streams.count(streams[0]) == len(streams):
        return iter([OutgoingColumns.of(records)] if records else [])
    return map(OutgoingColumns.of, grouped(zip(streams, records, strict=True)).values())


@dataclass(frozen=True)
class StreamSpec:
    """A stream to create. `config` uses Kafka's topic keys (`cleanup.policy`, `max.message.bytes`, ...); a system
    ignores keys that do not apply to it. `replication_factor` None: the system's default."""

    stream: str
    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)
    replication_factor: int | None = None


@dataclass(frozen=True)
class StreamDescription:
    """A stream that exists. `stream_id` changes when a stream is deleted and created again under the same name.
    `replicas`: the number of copies of the partition with the fewest, None if the system keeps no copies.
    `hidden`: the reason why the system does not show `config`, which is then empty. `allowed`: the operations that the
    user may request, by Kafka's names (READ, WRITE, ...); None if the system does not tell."""

    stream: str
    partitions: int
    stream_id: str
    config: Mapping[str, str]
    replicas: int | None = None
    hidden: str = ""
    allowed: Collection[str] | None = None

    def setting(self, name: str) -> str | None:
        """A setting that state depends on; None if the stream does not have it. Raises EnvironmentFailure if the system
        hides the settings."""
        if self.hidden:
            raise EnvironmentFailure(self.hidden)
        return self.config.get(name)


@dataclass(frozen=True)
class StreamSettings:
    """The keys of a job file for one stream: `properties`, without `prefix` (`streams.ID.`) and without `samza.*`."""

    prefix: str
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SystemSettings:
    """The keys of a job file below `systems.NAME.`, with resolved values.

    `consumer` and `producer` are the pass-through keys without their prefix; `properties` is everything else without
    the prefix (`path`, `samza.fetch.threshold`, ...); `default_stream` is `default.stream.*`; `streams` are the
    system's streams that the file mentions, by their name there.
    """

    name: str
    factory: str
    consumer: Mapping[str, str] = field(default_factory=dict)
    producer: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    default_stream: Mapping[str, str] = field(default_factory=dict)
    streams: Mapping[str, StreamSettings] = field(default_factory=dict)


#: Seconds of one poll of `read_to`, and the likely reason why it gets no records.
_POLL_S = 0.1
_HELD = "; a transaction there may be open still: kafka-transactions.sh --find-hanging names one that hangs"


class SystemConsumer(ABC):
    """Reads partitions, without consumer group and rebalance; committed records only.

    Use: `start`, `poll` until done, `close`. One thread.
    """

    @abstractmethod
    def start(
        self,
        offsets: Mapping[SystemStreamPartition, int],
        ids: Mapping[SystemStream, str] = MappingProxyType({}),
        epochs: Mapping[SystemStreamPartition, int] = MappingProxyType({}),
    ) -> None:
        """Begin to fetch these partitions from these offsets on. Called once.

        The offsets are of the streams with these `ids`, as `SystemAdmin.describe` gave them, and of these leader
        epochs, where they are known. Raises UnknownStream for a stream or partition that does not exist.
        """

    @abstractmethod
    def poll(self, timeout_s: float, max_records: int) -> list[RecordBatch]:
        """Wait up to `timeout_s` for the first record, then take the available ones without waiting.

        At most `max_records` records in all. A partition may occur in several batches, in order. It may return early
        with none, as after a position has passed a hole: a reader that is to reach an offset may then be there. Raises
        OffsetOutOfRange if a position has left the log, PositionVoid before a record of a stream that was created
        again, or of a log that has lost records before the position, RetriableError or EnvironmentFailure for other
        errors.
        """

    @abstractmethod
    def position(self, ssp: SystemStreamPartition) -> int:
        """The next offset that poll will read: after every returned record and the known holes behind it."""

    @abstractmethod
    def pause(self, ssps: Collection[SystemStreamPartition]) -> None:
        """From now on return records of all partitions but these; their positions stay."""

    @abstractmethod
    def close(self) -> None:
        """Release the client; closing twice is allowed."""


def read_to(
    consumer: SystemConsumer,
    ssp: SystemStreamPartition,
    end: int,
    clock: Clock,
    patience_s: float,
    max_records: int = 5_000,
) -> Iterator[RecordBatch]:
    """The batches of the only partition of a started consumer up to the offset `end`; the last one may go beyond it.

    Raises RestoreStalled after `patience_s` seconds without progress.
    """
    moved = clock.monotonic()
    while (position := consumer.position(ssp)) < end:
        yield from consumer.poll(_POLL_S, max_records)
        now = clock.monotonic()
        if consumer.position(ssp) > position:
            moved = now
        elif now - moved > patience_s:
            raise RestoreStalled(f"{ssp}@{position}: no record for {patience_s:g} s before the end {end}{_HELD}")


class SystemProducer(ABC):
    """Writes records in order per partition. Nothing is durable before `flush` (or `commit`) has returned.

    Any error poisons the producer: later calls raise it again. One thread.
    """

    @abstractmethod
    def send(self, records: Sequence[OutgoingRecord]) -> None:
        """Queue records, in order per partition. Raises RecordTooLarge, UnknownStream or ProducerError; blocks when the
        queue is full."""

    @abstractmethod
    def flush(self, timeout_s: float = 60.0) -> Mapping[tuple[str, int], int]:
        """Wait until every queued record is acknowledged. Raises ProducerError if one is not, or at the time-out.

        Returns, by stream and partition, the offset of the last acknowledged record of this producer. It need not
        include records for which the system chose the partition, and a transactional producer need not know it.
        """

    @abstractmethod
    def close(self) -> None:
        """Release the client without a flush; the system aborts an open transaction."""

    # Transactions: only on a producer made with a transactional id.

    @abstractmethod
    def init_transactions(self) -> None:
        """Abort the open transaction of a predecessor with the same transactional id, and fence it. Once, before
        `begin`."""

    @abstractmethod
    def begin(self) -> bool:
        """Start a transaction; readers see the records sent from now on only after `commit`.

        Returns whether this has fenced all other producers of the transactional id, as `init_transactions` does, even a
        rightful successor: the caller then checks that it is still the owner before it commits anything.
        """

    @abstractmethod
    def commit(self) -> None:
        """Flush and commit. Raises ProducerFenced (let go), TransactionAborted (abort and rewind), or
        TransactionIndeterminate (unknown outcome: close this producer, build a new one, `init_transactions`)."""

    @abstractmethod
    def abort(self) -> None:
        """Drop the records of the open transaction. Raises as `commit` does."""


class ColumnProducer(SystemProducer):
    """What samzapy's own producers add: they take columns without a record object for each output."""

    @abstractmethod
    def send_columns(self, columns: OutgoingColumns) -> None:
        """Queue records. Raises as `send` does."""

    def send(self, records: Sequence[OutgoingRecord]) -> None:
        for columns in in_columns(records):
            self.send_columns(columns)


def send_columns(producer: SystemProducer, columns: OutgoingColumns) -> None:
    """Queue the records of columns with any producer."""
    if isinstance(producer, ColumnProducer):
        producer.send_columns(columns)
    else:
        producer.send(list(columns.records()))


class SystemAdmin(ABC):
    """Describes and changes the streams of one system."""

    @abstractmethod
    def create(self, spec: StreamSpec) -> bool:
        """Create a stream and wait until it is usable. Returns False, without a change, if one of that name exists."""

    @abstractmethod
    def describe(self, stream: str) -> StreamDescription | None:
        """The description of a stream, None if it does not exist."""

    @abstractmethod
    def list_streams(self) -> list[str]:
        """The names of all streams, sorted, without internal ones of the system."""

    @abstractmethod
    def offsets(
        self, ssps: Iterable[SystemStreamPartition], *, committed: bool = False
    ) -> dict[SystemStreamPartition, OffsetRange]:
        """The current ranges; `upcoming` is the high watermark and includes open transactions. With `committed` it is
        the end for a reader of committed records. Raises UnknownStream."""

    @abstractmethod
    def offsets_at(self, ssps: Iterable[SystemStreamPartition], time_ms: int) -> dict[SystemStreamPartition, int]:
        """The first offset with a record that is not older than `time_ms`, by partition; `upcoming` if there is
        none."""

    def delete(self, stream: str) -> None:
        """Delete a stream. Raises UnknownStream; EnvironmentFailure if the system cannot."""
        raise EnvironmentFailure(f"stream '{stream}': this system cannot delete it")

    @abstractmethod
    def close(self) -> None:
        """Release the client; closing twice is allowed."""


@runtime_checkable
class BulkAdmin(Protocol):
    """What an admin may add: several streams in one request."""

    def create_all(self, specs: Iterable[StreamSpec]) -> set[str]:
        """Create many streams; returns the names of the new ones."""

    def describe_all(self, streams: Iterable[str]) -> dict[str, StreamDescription | None]:
        """The descriptions of many streams, by name."""


@runtime_checkable
class DeletesRecords(Protocol):
    """What an admin may add: the removal of records that nobody needs any more."""

    def delete_records(self, ssp: SystemStreamPartition, before: int) -> None:
        """Delete the records before an offset. Raises OffsetOutOfRange behind the end; EnvironmentFailure if it may
        not."""


def create_all(admin: SystemAdmin, specs: Iterable[StreamSpec]) -> set[str]:
    """Create the streams that do not exist, and return their names; in one request if the admin can."""
    if isinstance(admin, BulkAdmin):
        return admin.create_all(specs)
    return {spec.stream for spec in specs if admin.create(spec)}


def describe_all(admin: SystemAdmin, streams: Iterable[str]) -> dict[str, StreamDescription | None]:
    """The descriptions of many streams, by name; in one request if the admin can."""
    if isinstance(admin, BulkAdmin):
        return admin.describe_all(streams)
    return {stream: admin.describe(stream) for stream in streams}


@dataclass(frozen=True, kw_only=True)
class SystemTraits:
    """The properties of a system that jobs depend on.

    `max_record_bytes`: the largest record that its producers send, in bytes; None if they set no limit. A stream may
    set a lower one (`max.message.bytes` of its description). `compresses`: whether its producers compress records; a
    record then may fit into a stream though it is larger than the stream's limit. `place`: the place on this machine
    that holds the streams, such as `the file x.db`, which executors on other machines cannot reach; None for a system
    on the network. `risks`: the ways in which acknowledged records can be lost with this process or machine, each as
    (key below `systems.NAME.`, message). `upcoming_goes_back`: the newest records of a stream can be deleted, so a
    position beyond `upcoming` is no error. `transactional`: producers accept a transactional id, and the end of a
    transaction takes one offset in each of its partitions; without transactions a job's state may hold inputs twice
    after a crash, and may go back while two runs overlap. `read_only`: jobs can only read the streams, and only those
    that the job file describes.
    """

    max_record_bytes: int | None = None
    compresses: bool = False
    place: str | None = None
    risks: tuple[tuple[str, str], ...] = ()
    upcoming_goes_back: bool = False
    transactional: bool = False
    read_only: bool = False


class SystemFactory(ABC):
    """Named by `systems.NAME.samza.factory`; makes the clients of one system. Must not connect before it has to.

    Raises ConfigError (with the full key) for settings it does not take.
    """

    @abstractmethod
    def consumer(self, settings: SystemSettings, client_id: str) -> SystemConsumer:
        """A consumer of committed records."""

    @abstractmethod
    def producer(
        self, settings: SystemSettings, client_id: str, transactional_id: str | None = None, timeout_ms: int = 60_000
    ) -> SystemProducer:
        """A producer; transactional (with `transaction.timeout.ms` = `timeout_ms`) if it is given an id."""

    @abstractmethod
    def admin(self, settings: SystemSettings, client_id: str) -> SystemAdmin:
        """An admin."""

    def check(self, settings: SystemSettings) -> None:
        """Raise ConfigError if `settings` cannot work; connects to nothing."""
        return

    def traits(self, settings: SystemSettings) -> SystemTraits:
        """The properties of a system of these settings; connects to nothing."""
        return SystemTraits()


class WaitingRecords(Protocol):
    """The waiting records of one partition, which a chooser gets: polled, but not chosen yet. At least one."""

    def __len__(self) -> int:
        """The number of waiting records."""

    @property
    def offset(self) -> int:
        """The offset of the first."""

    @property
    def timestamps(self) -> Sequence[int]:
        """The times of the first records, one polled batch, in milliseconds since 1970 (-1: none)."""


class Choice(NamedTuple):
    """The first `records` waiting records of `ssp`, or as many of them as the container takes together."""

    ssp: SystemStreamPartition
    records: int


class MessageChooser(ABC):
    """Named by `task.chooser.class`; made without arguments, one a container and priority."""

    def init(self, job: JobContext, ssps: frozenset[SystemStreamPartition]) -> None:
        """Called once, before the first choice; `ssps` are the partitions it will choose among."""
        return

    @abstractmethod
    def choose(self, waiting: Mapping[SystemStreamPartition, WaitingRecords]) -> Choice | None:
        """The next choice, None to wait until more has arrived.

        `waiting` has the partitions with waiting records, the least recently chosen first; never empty.
        """
