"""The producer of an embedded log: records wait in memory, as columns, until a flush writes them together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count, groupby
from operator import add, itemgetter
from typing import Any, NamedTuple

from samzapy.api.envelope import Headers
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingColumns, OutgoingRecord, SystemProducer
from samzapy.clock import Clock
from samzapy.errors import ProducerError, RecordTooLarge, UnknownPartition
from samzapy.system.embedded.topic import Topic
from samzapy.system.partitioner import KeyHashes
from samzapy.system.producer_calls import ProducerCalls

_stream = itemgetter(0)


class Columns:
    """Records of one partition in order: columns of equal length."""

    __slots__ = ("headers", "keys", "timestamps", "values")

    def __init__(self) -> None:
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.timestamps: list[int] = []
        self.headers: list[Headers | None] = []

    def __len__(self) -> int:
        return len(self.keys)


Batches = Mapping[SystemStreamPartition, Columns]


class PendingRecords:
    """Checks records, chooses their partitions and holds them until `take`. One thread.

    Null keys are spread round robin; a record without a timestamp gets the time at which it was added.
    """

    def __init__(self, system: str, topic_of: Callable[[str], Topic], clock: Clock) -> None:
        self._system = system
        self._topic_of = topic_of
        self._clock = clock
        self._topics: dict[str, Topic] = {}
        self._hashes = KeyHashes()
        self._spread = count()
        self._columns: dict[SystemStreamPartition, Columns] = {}
        self.records = 0
        self.size = 0

    def add(self, records: Iterable[OutgoingRecord]) -> None:
        """Queue records. Raises UnknownStream, RecordTooLarge, or ProducerError; some may be queued already then."""
        gathered: dict[tuple[str, int], list[OutgoingRecord]] = {}
        for stream, run in groupby(records, _stream):
            of_stream = list(run)
            _, keys, _, partitions, partition_keys, _, _ = zip(*of_stream, strict=True)
            chosen = self._partitions(stream, keys, partitions, partition_keys)
            for record, partition in zip(of_stream, chosen, strict=True):
                group = gathered.get((stream, partition))
                if group is None:
                    group = gathered[stream, partition] = []
                group.append(record)
        now = self._clock.wall_ms()
        for (stream, partition), group in gathered.items():
            _, keys, values, _, _, headers, times = zip(*group, strict=True)
            stamps = [now if time is None else time for time in times] if None in times else times
            self._extend(SystemStreamPartition(self._system, stream, partition), keys, values, stamps, headers)

    def add_columns(self, columns: OutgoingColumns) -> None:
        """Like `add`."""
        stream, none = columns.stream, (None,) * columns.size
        others: list[Any] = [none if each is None else each for each in columns[1:]]
        keys, values, partitions, partition_keys, headers, times = others
        now = self._clock.wall_ms()
        stamps = [now if time is None else time for time in times]
        places: dict[int, list[int]] = {}
        for place, partition in enumerate(self._partitions(stream, keys, partitions, partition_keys)):
            places.setdefault(partition, []).append(place)
        for partition, chosen in places.items():
            parts: list[list[Any]] = [[column[place] for place in chosen] for column in (keys, values, stamps, headers)]
            self._extend(SystemStreamPartition(self._system, stream, partition), *parts)

    def _partitions(
        self,
        stream: str,
        keys: Sequence[bytes | None],
        partitions: Sequence[int | None],
        partition_keys: Sequence[bytes | None],
    ) -> Iterable[int]:
        """The partition of each record of a stream."""
        count, hashes, spread = self._topic(stream).partitions, self._hashes, self._spread
        if partitions.count(None) == partition_keys.count(None) == len(keys):
            return [(next(spread) if key is None else hashes[key]) % count for key in keys]
        choosing = (key if chosen is None else chosen for key, chosen in zip(keys, partition_keys, strict=True))
        return [
            given if given is not None else (next(spread) if key is None else hashes[key]) % count
            for given, key in zip(partitions, choosing, strict=True)
        ]

    def add_changes(
        self, stream: str, partition: int, changes: Iterable[tuple[bytes, bytes | None]], headers: Headers | None
    ) -> None:
        """Queue (key, value) pairs for one partition. Raises as `add` does."""
        pairs = list(changes)
        if pairs:
            keys, values = zip(*pairs, strict=True)
            times = [self._clock.wall_ms()] * len(keys)
            self._extend(
                SystemStreamPartition(self._system, stream, partition), keys, values, times, [headers] * len(keys)
            )

    def take(self) -> dict[SystemStreamPartition, Columns]:
        """Take all queued records, in order per partition."""
        taken, self._columns = self._columns, {}
        self.records = self.size = 0
        return taken

    def _extend(
        self,
        target: SystemStreamPartition,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps: Sequence[int],
        headers: Sequence[Headers | None],
    ) -> None:
        topic = self._topic(target.stream)
        if not 0 <= target.partition < topic.partitions:
            raise UnknownPartition(self._system, target.stream, target.partition, topic.partitions)
        if topic.compacted and None in keys:
            raise ProducerError(f"{target}: a record of a compacted stream needs a key, got None")
        sizes = _sizes(keys, values, headers)
        if max(sizes) > topic.max_message_bytes:
            raise RecordTooLarge(str(target), max(sizes), topic.max_message_bytes)
        columns = self._columns.get(target)
        if columns is None:
            columns = self._columns[target] = Columns()
        columns.keys.extend(keys)
        columns.values.extend(values)
        columns.timestamps.extend(timestamps)
        columns.headers.extend(headers)
        self.records += len(keys)
        self.size += sum(sizes)

    def _topic(self, stream: str) -> Topic:
        found = self._topics.get(stream)
        if found is None:
            found = self._topics[stream] = self._topic_of(stream)
        return found


def _sizes(
    keys: Sequence[bytes | None], values: Sequence[bytes | None], headers: Sequence[Headers | None]
) -> list[int]:
    if any(headers):
        return list(map(_size, keys, values, headers))
    try:
        return list(map(add, map(len, keys), map(len, values)))  # type: ignore[arg-type]
    except TypeError:  # a null
        return list(map(_plain_size, keys, values))


def _plain_size(key: bytes | None, value: bytes | None) -> int:
    return (len(key) if key else 0) + (len(value) if value else 0)


def _size(key: bytes | None, value: bytes | None, headers: Headers | None) -> int:
    size = _plain_size(key, value)
    for name, content in headers or ():
        size += len(name) if name.isascii() else len(name.encode())
        if content:
            size += len(content)
    return size


#: A producer that holds more records writes them without a flush: its memory is bounded.
MOST_PENDING_RECORDS = 10_000
MOST_PENDING_BYTES = 16_777_216

LastOffsets = dict[SystemStreamPartition, int]


class ProducerIdentity(NamedTuple):
    """The owner of transactions: the id stays the same, the epoch grows with every take-over."""

    transactional_id: str
    epoch: int
    timeout_ms: int


class LogWriter(ABC):
    """The log that a producer writes. Every call is atomic: after an error nothing of it has happened.

    Calls with an owner raise ProducerFenced if a newer producer has taken over the id, or the transaction has timed out.
    """

    #: As the producer's.
    marker_offsets = 0

    @abstractmethod
    def topic(self, stream: str) -> Topic:
        """The stream. Raises UnknownStream."""

    @abstractmethod
    def append(self, batches: Batches, owner: ProducerIdentity | None) -> LastOffsets:
        """Write; with an owner inside its open transaction, invisible until `commit`. Durable when it returns."""

    @abstractmethod
    def take_over(self, transactional_id: str, timeout_ms: int) -> ProducerIdentity:
        """Abort the open transaction of the id and start a new epoch."""

    @abstractmethod
    def commit(self, batches: Batches, owner: ProducerIdentity) -> LastOffsets:
        """Write `batches`, then make everything in the owner's transaction visible, all at once."""

    @abstractmethod
    def abort(self, owner: ProducerIdentity) -> None:
        """Remove everything in the owner's transaction."""

    @abstractmethod
    def close(self, written: frozenset[str]) -> None:
        """Release the client; `written` names the streams that it wrote and that may now need cleaning."""


class LogProducer(SystemProducer):
    """Keeps the rules of `SystemProducer` over a `LogWriter`.

    An error poisons it; in a transaction `abort` heals it, unless it was fenced or the outcome is unknown. Records
    beyond `MOST_PENDING_RECORDS` are written at once; in a transaction an abort removes them, too.
    A transaction's time-out counts from its first write, and `flush` waits as long as the writer waits for its lock.
    """

    def __init__(
        self, system: str, writer: LogWriter, clock: Clock, transactional_id: str | None, timeout_ms: int
    ) -> None:
        self.marker_offsets = writer.marker_offsets
        self._system = system
        self._writer = writer
        self._pending = PendingRecords(system, writer.topic, clock)
        self._transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._calls = ProducerCalls(system, transactional_id)
        self._owner: ProducerIdentity | None = None
        self._last: LastOffsets = {}

    def send(self, records: Sequence[OutgoingRecord]) -> None:
        with self._calls.guarded():
            self._calls.must_take_records()
            self._pending.add(records)
            self._bound_memory()

    def send_columns(self, columns: OutgoingColumns) -> None:
        with self._calls.guarded():
            self._calls.must_take_records()
            self._pending.add_columns(columns)
            self._bound_memory()

    def send_changes(
        self, stream: str, partition: int, changes: Iterable[tuple[bytes, bytes | None]], headers: Headers | None = None
    ) -> None:
        with self._calls.guarded():
            self._calls.must_take_records()
            self._pending.add_changes(stream, partition, changes, headers)
            self._bound_memory()

    def flush(self, timeout_s: float = 60.0) -> None:
        with self._calls.guarded():
            self._write(self._writer.append)

    def last_offset(self, stream: str, partition: int) -> int | None:
        return self._last.get(SystemStreamPartition(self._system, stream, partition))

    def close(self) -> None:
        if not self._calls.closed:
            self._calls.closed = True
            self._writer.close(frozenset(ssp.stream for ssp in self._last))

    def init_transactions(self) -> None:
        with self._calls.guarded():
            self._calls.must_be_new("init_transactions")
            self._owner = self._writer.take_over(str(self._transactional_id), self._timeout_ms)
            self._calls.initialised = True

    def begin(self) -> None:
        with self._calls.guarded():
            self._calls.must_be_between_transactions()
            self._calls.in_transaction = True

    def commit(self) -> None:
        with self._calls.guarded():
            owner = self._must_be_in_transaction("commit")
            self._write(lambda batches, _: self._writer.commit(batches, owner), even_if_empty=True)
            self._calls.in_transaction = False

    def abort(self) -> None:
        self._calls.heal()
        with self._calls.guarded():
            owner = self._must_be_in_transaction("abort")
            self._pending.take()
            self._writer.abort(owner)
            self._calls.in_transaction = False

    def _write(
        self, write: Callable[[Batches, ProducerIdentity | None], LastOffsets], *, even_if_empty: bool = False
    ) -> None:
        batches = self._pending.take()
        if batches or even_if_empty:
            self._last.update(write(batches, self._owner))

    def _bound_memory(self) -> None:
        if self._pending.records >= MOST_PENDING_RECORDS or self._pending.size >= MOST_PENDING_BYTES:
            self._write(self._writer.append)

    def _must_be_in_transaction(self, call: str) -> ProducerIdentity:
        self._calls.must_be_in_transaction(call)
        assert self._owner is not None
        return self._owner
