"""The SPI of a messaging system: a factory that makes consumers, producers and admins. And the SPI of choosers.

1. Logs are partitioned and addressed by offset. Offsets are ints that only grow; they may have holes (compaction, control
   records).
2. `oldest` is the first offset that can still be read. `upcoming` is the offset that the next record will get at the
   earliest. So a reader is at the end when its position is >= `upcoming`. Never `==`, never "last + 1".
3. A chooser says which partition's messages come next. The container asks it a few times a poll, about partitions and how
   much of each waits; never once a message. Within a partition the order is always kept: a choice takes from its front.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from samzapy.api.context import JobContext
from samzapy.api.envelope import Headers
from samzapy.api.stream import SystemStreamPartition
from samzapy.errors import EnvironmentFailure


class RecordBatch(NamedTuple):
    """Consecutive records of one partition, as columns of equal length, in offset order; never empty.

    `timestamps` are milliseconds since 1970 (-1: none). `headers` is None when no record of the batch has any.
    """

    ssp: SystemStreamPartition
    offsets: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    timestamps: Sequence[int]
    headers: Sequence[Headers | None] | None = None

    def part(self, start: int, stop: int) -> RecordBatch:
        """The records from index `start` on, before `stop`; at least one."""
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
    """One serialized output. `partition` None: chosen by the murmur2 hash of `partition_key`, else of `key`, else spread."""

    stream: str
    key: bytes | None
    value: bytes | None
    partition: int | None = None
    partition_key: bytes | None = None
    headers: Headers | None = None
    timestamp: int | None = None


@dataclass(frozen=True)
class StreamSpec:
    """A stream to create. `config` uses Kafka's topic keys (`cleanup.policy`, `max.message.bytes`, ...); a system
    ignores those that mean nothing to it. `replication_factor` None: the system's default."""

    stream: str
    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)
    replication_factor: int | None = None


@dataclass(frozen=True)
class StreamDescription:
    """A stream that exists. `stream_id` changes when a stream is deleted and created again under the same name.
    `replicas`: the copies of the partition that has the fewest, None where a system keeps no copies."""

    stream: str
    partitions: int
    stream_id: str
    config: Mapping[str, str]
    replicas: int | None = None


@dataclass(frozen=True)
class StreamSettings:
    """What a job file says of one stream: `properties` are its keys without `prefix` (`streams.ID.`), samza.* left out."""

    prefix: str
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SystemSettings:
    """What a job file says below `systems.NAME.`, with the values resolved.

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


class SystemConsumer(ABC):
    """Reads partitions that it is told to read (no consumer group, no rebalance), committed records only.

    Use: `register` all partitions, `start`, `poll` until done, `close`. One thread.
    """

    #: Set before `start` by a reader that asks nothing but how far it is: a system may then give each record of a batch
    #: the time of the last one, and no headers, where that costs less.
    coarse = False

    @abstractmethod
    def register(self, ssp: SystemStreamPartition, offset: int) -> None:
        """Read `ssp` from `offset` on. Before `start` only."""

    @abstractmethod
    def start(self) -> None:
        """Begin fetching. Raises UnknownStream for a stream or partition that does not exist."""

    @abstractmethod
    def poll(self, timeout_s: float, max_records: int) -> list[RecordBatch]:
        """What has arrived: waits up to `timeout_s` for the first record, then takes what is there without waiting.

        At most `max_records` records in all. A partition may occur in several batches, in order. Raises
        OffsetOutOfRange when a position has left the log, RetriableError or EnvironmentFailure for the rest.
        """

    @abstractmethod
    def position(self, ssp: SystemStreamPartition) -> int:
        """The next offset that poll will look at: past every record returned and every hole known to follow it."""

    def boundary(self, ssp: SystemStreamPartition, offset: int) -> int:
        """The first offset from `offset` on that a reader may start at again: `offset` itself, except in a system whose
        records stand in groups that are read again as a whole. A commit stands at no other."""
        return offset

    @abstractmethod
    def seek(self, ssp: SystemStreamPartition, offset: int) -> None:
        """Go to `offset`; records fetched before are dropped, not returned."""

    @abstractmethod
    def pause(self, ssps: Iterable[SystemStreamPartition]) -> None:
        """Return nothing of these partitions until `resume`; their positions stay."""

    @abstractmethod
    def resume(self, ssps: Iterable[SystemStreamPartition]) -> None:
        """Undo `pause`."""

    @abstractmethod
    def close(self) -> None:
        """Release the client; closing twice is allowed."""


class SystemProducer(ABC):
    """Writes records in order per partition. Nothing is durable before `flush` (or `commit`) has returned.

    Any error poisons the producer: later calls raise it again. One thread.
    """

    #: Whether the last `begin` has shut out everybody else under the transactional id, a rightful successor included:
    #: the caller then makes sure that it is still the owner before anything is committed.
    took_over = False
    #: The offsets that the end of a transaction takes in each partition that it wrote to.
    marker_offsets = 0

    @abstractmethod
    def send(self, records: Sequence[OutgoingRecord]) -> None:
        """Queue records. Raises RecordTooLarge, UnknownStream or ProducerError; blocks when the queue is full."""

    @abstractmethod
    def send_changes(
        self, stream: str, partition: int, changes: Iterable[tuple[bytes, bytes | None]], headers: Headers | None = None
    ) -> None:
        """Queue (key, value) pairs, None meaning a tombstone, for one partition: a changelog's part of a commit."""

    @abstractmethod
    def flush(self, timeout_s: float = 60.0) -> None:
        """Wait until every queued record is acknowledged. Raises ProducerError if one was not, or at the time-out."""

    @abstractmethod
    def last_offset(self, stream: str, partition: int) -> int | None:
        """The offset of the last record that was sent to that very partition and acknowledged by a flush; None if none.

        Records whose partition the system chose (by key, or spread) need not be counted.
        """

    def purge(self) -> None:
        """Throw away what is queued and not yet sent, from any thread: the lease is lost, and a successor may write by now.
        The producer is finished. A system that queues nothing has nothing to do."""

    @abstractmethod
    def close(self) -> None:
        """Release the client without waiting for what was not flushed; an open transaction is left to be aborted."""

    # Transactions: only on a producer made with a transactional id.

    @abstractmethod
    def init_transactions(self) -> None:
        """Abort what a predecessor with the same transactional id left open, and fence it. Once, before the first begin."""

    @abstractmethod
    def begin(self) -> None:
        """Start a transaction; records sent from here on are visible to readers only after `commit`.

        Afterwards `took_over` tells whether this needed a take-over as by `init_transactions`.
        """

    @abstractmethod
    def commit(self) -> None:
        """Flush and commit. Raises ProducerFenced (let go), TransactionAborted (abort and rewind), or
        TransactionIndeterminate (unknown outcome: close this producer, build a new one, `init_transactions`)."""

    @abstractmethod
    def abort(self) -> None:
        """Throw the open transaction's records away. Raises as `commit` does."""


class SystemAdmin(ABC):
    """Looks at and changes the streams of one system."""

    #: Whether `upcoming` may go back, since a stream's newest records can be deleted: a position beyond is no error then.
    upcoming_goes_back = False

    @abstractmethod
    def create(self, spec: StreamSpec) -> bool:
        """Create a stream; False if one of that name exists already (it is not touched). Returns when it is usable."""

    @abstractmethod
    def describe(self, stream: str) -> StreamDescription | None:
        """What the stream is now; None if there is none."""

    @abstractmethod
    def list_streams(self) -> list[str]:
        """Names of all streams, sorted, internal ones of the system itself left out."""

    @abstractmethod
    def offsets(self, ssps: Iterable[SystemStreamPartition]) -> dict[SystemStreamPartition, OffsetRange]:
        """The ranges now; `upcoming` is the high watermark, open transactions included. Raises UnknownStream."""

    @abstractmethod
    def offsets_at(self, ssps: Iterable[SystemStreamPartition], time_ms: int) -> dict[SystemStreamPartition, int]:
        """Per partition, the first offset whose record is not older than `time_ms`; `upcoming` if there is none."""

    @abstractmethod
    def delete_records(self, ssp: SystemStreamPartition, before: int) -> None:
        """Drop the records below `before`; `oldest` becomes `before`."""

    def grow(self, stream: str, partitions: int) -> None:
        """Give a stream more partitions, `partitions` in all; what is in it stays where it is. Returns when they are
        usable. Raises UnknownStream, ConfigError for fewer than it has, EnvironmentFailure where streams never grow."""
        raise EnvironmentFailure(f"stream '{stream}': this system cannot give it {partitions} partitions")

    @abstractmethod
    def delete(self, stream: str) -> None:
        """Delete a stream. Raises UnknownStream."""

    def longest_transaction_ms(self) -> int | None:
        """The longest transaction time-out the system grants; None for a system without a limit, or that does not say."""
        return None

    def most_replicas(self) -> int | None:
        """The most copies that the system can keep of a stream, which is its brokers; None where streams have no copies."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Release the client; closing twice is allowed."""


class SystemFactory(ABC):
    """Named by `systems.NAME.samza.factory`; makes the clients of one system. Must not connect before it has to.

    Raises ConfigError (with the full key) for settings it does not take.
    """

    #: Whether `producer` takes a transactional id. Without transactions a job's state may hold inputs twice after a crash,
    #: and may go back while two runs overlap.
    transactional = False
    #: Whether jobs can only read the streams.
    read_only = False
    #: Whether a record may come too late to be read, or get another offset in another read. The streams' descriptions name
    #: the column then that decides (`database.order.by`).
    orders_by_time = False
    #: Files, pipes and sockets that an admin, a consumer and a producer have open together, and a transactional producer
    #: besides: the least, by which a container checks its limit before it starts.
    open_files = 0
    transactional_open_files = 0

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

    def max_record_bytes(self, settings: SystemSettings) -> int | None:
        """The largest record that a producer of these settings sends, in bytes; None if it sets no limit. A stream may set a
        lower one (`max.message.bytes` of its description). Default: the producer's `message.max.bytes`."""
        said = settings.producer.get("message.max.bytes", "")
        return int(said) if said.isdigit() else None

    def durability(self, settings: SystemSettings) -> Iterable[tuple[str, str]]:
        """The ways in which acknowledged records can be lost with this process or machine, each as (key below
        `systems.NAME.`, message). Default: none."""
        return ()

    def kept_on_this_machine(self, settings: SystemSettings) -> str | None:
        """What of this machine the streams are in, as `the file x.db`, so that executors on others do not reach them;
        None, the default, for a system on the network."""
        return None


class WaitingRecords(ABC):
    """What one partition has waiting: records that were polled and not chosen yet, at least one."""

    @abstractmethod
    def __len__(self) -> int:
        """How many wait."""

    @property
    @abstractmethod
    def offset(self) -> int:
        """The offset of the first."""

    @property
    @abstractmethod
    def timestamps(self) -> Sequence[int]:
        """The times of the first ones in milliseconds since 1970 (-1: none), those that were polled in one batch."""


class Choice(NamedTuple):
    """The first `records` of what waits in `ssp`, or as many of them as the container takes in one go."""

    ssp: SystemStreamPartition
    records: int


class MessageChooser(ABC):
    """Named by `task.chooser.class`; made without arguments, one a container and priority."""

    def init(self, job: JobContext, ssps: frozenset[SystemStreamPartition]) -> None:
        """Called once, before the first choice; `ssps` are the partitions it will choose among."""
        return

    @abstractmethod
    def choose(self, waiting: Mapping[SystemStreamPartition, WaitingRecords]) -> Choice | None:
        """What comes next, None for nothing until more has arrived.

        `waiting` holds the partitions that have something, those first whose turn is the longest ago; never empty.
        """
