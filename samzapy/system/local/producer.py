"""Writes the streams of a log: records wait in memory until a flush writes them together, in one SQLite transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count, repeat
from operator import add
from typing import Any, NamedTuple

from samzapy.api.envelope import Headers
from samzapy.api.stream import SystemStreamPartition, grouped
from samzapy.api.system import ColumnProducer, OutgoingColumns
from samzapy.errors import (
    EnvironmentFailure,
    ProducerError,
    RecordTooLarge,
    RetriableError,
    TransactionAborted,
    TransactionIndeterminate,
    UnknownStream,
)
from samzapy.system.base import KeyHashes, ProducerCalls
from samzapy.system.local import streams
from samzapy.system.local.database import Database, Log, OutcomeUnknown
from samzapy.system.local.streams import (
    Cleaner,
    ProducerIdentity,
    Topic,
    encode_headers,
    find_stream,
    is_due,
    stream_of,
)


class Columns(NamedTuple):
    """Records of one partition in order: columns of equal length."""

    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps: list[int]
    headers: list[Headers | None]


Batches = Mapping[SystemStreamPartition, Columns]


class PendingRecords:
    """Checks records, chooses their partitions and holds them until `take`. One thread.

    Null keys are spread round robin; a record without a timestamp gets the time at which it was added.
    """

    def __init__(self, log: Log, topic_of: Callable[[str], Topic]) -> None:
        self._log = log
        self._topic_of = topic_of
        self._hashes = KeyHashes()
        self._spread = count()
        self._columns: dict[SystemStreamPartition, Columns] = {}
        self.records = 0
        self.size = 0

    def add(self, columns: OutgoingColumns) -> None:
        """Queue records. Raises UnknownStream, RecordTooLarge, or ProducerError; some may be queued already then."""
        stream, values, absent = columns.stream, columns.values, (None,) * columns.size
        if not values:
            return
        keys, headers = columns.keys or absent, columns.headers or absent
        now = self._log.clock.wall_ms()
        stamps = [now if time is None else time for time in columns.timestamps or absent]
        if isinstance(columns.partitions, int):
            self._queue(stream, columns.partitions, (keys, values, stamps, headers))
            return
        places = grouped(zip(self._partitions(columns, keys, absent), count(), strict=False))
        for partition, chosen in places.items():
            own = [[column[place] for place in chosen] for column in (keys, values, stamps, headers)]
            self._queue(stream, partition, own)

    def take(self) -> dict[SystemStreamPartition, Columns]:
        """Take all queued records, in order per partition."""
        taken, self._columns = self._columns, {}
        self.records = self.size = 0
        return taken

    def _partitions(
        self, columns: OutgoingColumns, keys: Sequence[bytes | None], absent: Sequence[None]
    ) -> Sequence[int]:
        """The partition of each record."""
        count, hashes, spread = len(self._topic_of(columns.stream).slots), self._hashes, self._spread
        named, deciding = columns.partitions, columns.partition_keys
        if deciding is not None:
            keys = [key if chosen is None else chosen for key, chosen in zip(keys, deciding, strict=True)]
        assert not isinstance(named, int)
        return [
            number if number is not None else (next(spread) if key is None else hashes[key]) % count
            for number, key in zip(absent if named is None else named, keys, strict=True)
        ]

    def _queue(self, stream: str, partition: int, added: Sequence[Sequence[Any]]) -> None:
        """Queue records of one partition, as the columns of `Columns`."""
        topic, target = self._topic_of(stream), SystemStreamPartition(self._log.system, stream, partition)
        topic.slot(target)
        keys, values, timestamps, headers = added
        if topic.settings.compacted and None in keys:
            raise ProducerError(f"{target}: a record of a compacted stream needs a key, got None")
        sizes, limit = _sizes(keys, values, headers), topic.settings.max_message_bytes
        if max(sizes) > limit:
            key = keys[sizes.index(max(sizes))]
            raise RecordTooLarge(f"{target}: key {key and key[:64]!r}", max(sizes), limit)
        columns = self._columns.setdefault(target, Columns([], [], [], []))
        columns.keys.extend(keys)
        columns.values.extend(values)
        columns.timestamps.extend(timestamps)
        columns.headers.extend(headers)
        self.records += len(keys)
        self.size += sum(sizes)


def _sizes(
    keys: Sequence[bytes | None], values: Sequence[bytes | None], headers: Sequence[Headers | None]
) -> list[int]:
    if any(headers):
        return list(map(_size, keys, values, headers))
    try:
        return list(map(add, map(len, keys), map(len, values)))  # type: ignore[arg-type]
    except TypeError:  # a null
        return list(map(_size, keys, values, headers))


def _size(key: bytes | None, value: bytes | None, headers: Headers | None) -> int:
    size = (len(key) if key else 0) + (len(value) if value else 0)
    for name, content in headers or ():
        size += len(name) if name.isascii() else len(name.encode())
        if content:
            size += len(content)
    return size


#: A producer that holds more records writes them without a flush: its memory is bounded.
MOST_PENDING_RECORDS = 10_000
MOST_PENDING_BYTES = 16_777_216

_INSERT = "INSERT INTO records (slot, position, timestamp, key, value, headers) VALUES (?, ?, ?, ?, ?, ?)"
_UPCOMING = "SELECT upcoming FROM partitions WHERE slot = ?"
_GROW = "UPDATE partitions SET upcoming = ?, dirty_records = dirty_records + ? WHERE slot = ?"
_OPEN = "INSERT INTO open_ranges (slot, first, end, transactional_id) VALUES (?, ?, ?, ?)"


class LogProducer(ColumnProducer):
    """Keeps the rules of `SystemProducer` over a log. Its streams are cleaned meanwhile, and once more at its end.

    An error poisons it; in a transaction `abort` heals it, unless it was fenced or the outcome is unknown. Records
    beyond `MOST_PENDING_RECORDS` are written at once; in a transaction an abort removes them, too.
    A transaction's time-out counts from its first write, and `flush` waits as long as SQLite waits for its lock.
    """

    def __init__(self, log: Log, transactional_id: str | None, timeout_ms: int) -> None:
        self._log = log
        self._database: Database | None = None
        self._streams: dict[str, Topic] = {}
        self._pending = PendingRecords(log, self._topic)
        self._transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._calls = ProducerCalls(log.system, transactional_id)
        self._owner: ProducerIdentity | None = None
        self._last: dict[SystemStreamPartition, int] = {}
        self._cleaner = Cleaner(log)

    def send_columns(self, columns: OutgoingColumns) -> None:
        with self._calls:
            self._calls.must_take_records()
            self._pending.add(columns)
            if self._pending.records >= MOST_PENDING_RECORDS or self._pending.size >= MOST_PENDING_BYTES:
                self._flush()

    def flush(self, timeout_s: float = 60.0) -> Mapping[tuple[str, int], int]:
        with self._calls:
            self._flush()
        return {(ssp.stream, ssp.partition): offset for ssp, offset in self._last.items()}

    def close(self) -> None:
        if self._calls.closed:
            return
        self._calls.closed = True
        database = self._database
        if database is None:
            return
        # Cleaning only helps the next reader: a producer that closes does not fail because of it.
        with suppress(RetriableError, EnvironmentFailure):
            for stream in {ssp.stream for ssp in self._last}:
                topic = find_stream(database, stream)
                for slot in topic.slots if topic else ():
                    if topic and is_due(database, topic.settings, slot):
                        self._cleaner.request(topic.settings, slot)
        self._cleaner.close()
        database.close()

    def init_transactions(self) -> None:
        with self._calls:
            self._calls.must_be_new("init_transactions")
            with _producing(), self._writing() as database:
                self._owner = streams.take_over(database, str(self._transactional_id), self._timeout_ms)
            self._calls.initialised = True

    def begin(self) -> bool:
        with self._calls:
            self._calls.must_be_between_transactions()
            self._calls.in_transaction = True
        return False

    def commit(self) -> None:
        with self._calls, self._deciding("commit"):
            self._calls.must_be_in_transaction("commit")
            self._write(self._pending.take(), streams.commit)
            self._calls.in_transaction = False

    def abort(self) -> None:
        self._calls.heal()
        with self._calls, self._deciding("abort"):
            self._calls.must_be_in_transaction("abort")
            self._pending.take()
            self._write({}, streams.abort)
            self._calls.in_transaction = False

    def _flush(self) -> None:
        batches = self._pending.take()
        if batches:
            with _producing():
                self._write(batches)

    def _write(self, batches: Batches, end: Callable[[Database, str], None] | None = None) -> None:
        """Write the records, and `end` the transaction, at once."""
        owner, last = self._owner, {}
        with self._writing() as database:
            if owner is not None and batches:
                streams.note_write(database, owner, self._log.clock.wall_ms())
            for ssp, columns in batches.items():
                last[ssp] = self._insert(database, ssp, columns)
            if owner is not None and end is not None:
                end(database, owner.transactional_id)
        self._last.update(last)
        for ssp, columns in batches.items():
            topic = self._streams[ssp.stream]
            self._cleaner.note(topic.settings, topic.slot(ssp), len(columns.keys))

    @contextmanager
    def _writing(self) -> Iterator[Database]:
        if self._database is None:
            self._database = self._log.open(create=True)
            assert self._database is not None
        database = self._database
        streams.end_overdue(database, self._log.clock.wall_ms())
        with database.write():
            if self._owner is not None:
                streams.check_owner(database, self._owner)
            yield database

    def _insert(self, database: Database, ssp: SystemStreamPartition, columns: Columns) -> int:
        """Append to a partition, as a part of the open transaction if there is an owner; returns the last offset."""
        slot = self._topic(ssp.stream).slot(ssp)
        row = database.execute(_UPCOMING, (slot,)).fetchone()
        if row is None:
            # The stream was deleted, and perhaps created again.
            topic = stream_of(database, ssp.stream)
            if topic is None:
                raise UnknownStream(ssp.system, ssp.stream, self._log.where)
            self._streams[ssp.stream], slot = topic, topic.slot(ssp)
            row = database.execute(_UPCOMING, (slot,)).fetchone()
        first, end = row[0], row[0] + len(columns.keys)
        database.executemany(_INSERT, _rows(slot, first, end, columns))
        database.execute(_GROW, (end, end - first, slot))
        if self._owner is not None:
            database.execute(_OPEN, (slot, first, end, self._owner.transactional_id))
        return int(end - 1)

    def _topic(self, stream: str) -> Topic:
        """The stream as of its first record. Raises UnknownStream."""
        topic = self._streams.get(stream)
        if topic is None:
            database = self._database = self._database or self._log.open(create=False)
            topic = None if database is None else find_stream(database, stream)
            if topic is None:
                raise UnknownStream(self._log.system, stream, self._log.where)
            self._streams[stream] = topic
        return topic

    @contextmanager
    def _deciding(self, call: str) -> Iterator[None]:
        try:
            yield
        except RetriableError as cause:
            raise TransactionAborted(f"{call} of '{self._transactional_id}': {cause}") from cause
        except OutcomeUnknown as cause:
            raise TransactionIndeterminate(f"{call} of '{self._transactional_id}': {cause}") from cause


def _rows(slot: int, first: int, end: int, columns: Columns) -> Iterator[tuple[object, ...]]:
    headers: Iterator[bytes | None] = repeat(None)
    if any(columns.headers):
        headers = (encode_headers(item) if item else None for item in columns.headers)
    return zip(repeat(slot), range(first, end), columns.timestamps, columns.keys, columns.values, headers, strict=False)


@contextmanager
def _producing() -> Iterator[None]:
    try:
        yield
    except (RetriableError, OutcomeUnknown) as cause:
        raise ProducerError(str(cause)) from cause
