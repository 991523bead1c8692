"""Writes the logs in the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import repeat

from samzapy.api.stream import SystemStreamPartition
from samzapy.clock import Clock
from samzapy.errors import (
    EnvironmentFailure,
    ProducerError,
    RetriableError,
    TransactionAborted,
    TransactionIndeterminate,
    UnknownStream,
)
from samzapy.system.embedded.producer import Batches, Columns, LastOffsets, LogWriter, ProducerIdentity
from samzapy.system.embedded.topic import Topic
from samzapy.system.local import transactions
from samzapy.system.local.catalog import StreamEntry, find_stream
from samzapy.system.local.cleaning import Cleaner, is_due
from samzapy.system.local.database import Database, LocalSettings, OutcomeUnknown, open_database
from samzapy.system.local.schema import encode_header_column

_INSERT = "INSERT INTO records (slot, position, timestamp, key, value, headers) VALUES (?, ?, ?, ?, ?, ?)"
_GROW = "UPDATE partitions SET upcoming = ?, dirty_records = dirty_records + ? WHERE slot = ?"
_OPEN = "INSERT INTO open_ranges (slot, first, end, transactional_id) VALUES (?, ?, ?, ?)"


class LocalWriter(LogWriter):
    """A writer with a separate connection, opened by the first call. Each append is one SQLite transaction. Its
    streams are cleaned meanwhile, and once more at its end."""

    def __init__(self, settings: LocalSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._database: Database | None = None
        self._streams: dict[str, StreamEntry] = {}
        self._cleaner = Cleaner(settings, clock)

    def topic(self, stream: str) -> Topic:
        return self._entry(stream).topic

    def append(self, batches: Batches, owner: ProducerIdentity | None) -> LastOffsets:
        with _producing(), self._writing(owner) as database:
            if owner is not None:
                transactions.note_write(database, owner, self._clock.wall_ms())
            last = self._insert(database, batches, owner)
        self._note(batches)
        return last

    def take_over(self, transactional_id: str, timeout_ms: int) -> ProducerIdentity:
        with _producing(), self._writing(None) as database:
            return transactions.take_over(database, transactional_id, timeout_ms)

    def commit(self, batches: Batches, owner: ProducerIdentity) -> LastOffsets:
        with _deciding("commit", owner), self._writing(owner) as database:
            last = self._insert(database, batches, None)
            transactions.commit(database, owner)
        self._note(batches)
        return last

    def abort(self, owner: ProducerIdentity) -> None:
        with _deciding("abort", owner), self._writing(owner) as database:
            transactions.abort(database, owner)

    def close(self, written: frozenset[str]) -> None:
        database = self._database
        if database is None:
            return
        # Cleaning only helps the next reader: a producer that closes does not fail because of it.
        with suppress(RetriableError, EnvironmentFailure):
            for stream in written:
                found = find_stream(database, stream)
                for slot in found.slots if found else ():
                    if found and is_due(database, found.topic, slot):
                        self._cleaner.want(found.topic, slot)
        self._cleaner.close()
        database.close()

    def _note(self, batches: Batches) -> None:
        for ssp, columns in batches.items():
            entry = self._streams[ssp.stream]
            self._cleaner.note(entry.topic, entry.slot(ssp), len(columns))

    @contextmanager
    def _writing(self, owner: ProducerIdentity | None) -> Iterator[Database]:
        database = self._opened()
        transactions.end_overdue(database, self._clock.wall_ms())
        with database.write():
            if owner is not None:
                transactions.check_owner(database, owner)
            yield database

    def _insert(self, database: Database, batches: Batches, owner: ProducerIdentity | None) -> LastOffsets:
        """Write, and note the ranges as open if there is an owner."""
        last = {}
        for ssp, columns in batches.items():
            slot, first = self._place(database, ssp)
            end = first + len(columns)
            database.executemany(_INSERT, _rows(slot, first, end, columns))
            database.execute(_GROW, (end, len(columns), slot))
            if owner is not None:
                database.execute(_OPEN, (slot, first, end, owner.transactional_id))
            last[ssp] = end - 1
        return last

    def _place(self, database: Database, ssp: SystemStreamPartition) -> tuple[int, int]:
        slot = self._entry(ssp.stream).slot(ssp)
        row = database.execute("SELECT upcoming FROM partitions WHERE slot = ?", (slot,)).fetchone()
        if row is None:
            raise UnknownStream(ssp.system, ssp.stream, str(self._settings.path))
        return slot, row[0]

    def _entry(self, stream: str) -> StreamEntry:
        found = self._streams.get(stream)
        if found is None:
            database = self._database or open_database(self._settings, create=False)
            found = None if database is None else find_stream(database, stream)
            self._database = database
            if found is None:
                raise UnknownStream(self._settings.system, stream, str(self._settings.path))
            self._streams[stream] = found
        return found

    def _opened(self) -> Database:
        if self._database is None:
            self._database = open_database(self._settings, create=True)
        assert self._database is not None
        return self._database


def _rows(slot: int, first: int, end: int, columns: Columns) -> Iterator[tuple[object, ...]]:
    headers: Iterator[bytes | None] = repeat(None)
    if any(columns.headers):
        headers = encode_header_column(columns.headers)
    return zip(repeat(slot), range(first, end), columns.timestamps, columns.keys, columns.values, headers, strict=False)


@contextmanager
def _producing() -> Iterator[None]:
    try:
        yield
    except (RetriableError, OutcomeUnknown) as cause:
        raise ProducerError(str(cause)) from cause


@contextmanager
def _deciding(call: str, owner: ProducerIdentity) -> Iterator[None]:
    try:
        yield
    except RetriableError as cause:
        raise TransactionAborted(f"{call} of '{owner.transactional_id}': {cause}") from cause
    except OutcomeUnknown as cause:
        raise TransactionIndeterminate(f"{call} of '{owner.transactional_id}': {cause}") from cause
