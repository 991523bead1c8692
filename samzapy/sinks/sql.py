"""Writes rows into a SQL table, in one transaction with the offsets of the inputs they come from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import date, datetime, time
from decimal import Decimal
from operator import itemgetter
from typing import Any
from uuid import UUID

from samzapy.api.collector import Sink, TaskAttempt
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStreamPartition
from samzapy.errors import EnvironmentFailure, RetriableError, SamzapyError, TaskFailed
from samzapy.failpoints import reach
from samzapy.sinks.database import (
    Connection,
    Row,
    SinkOffsets,
    Target,
    database_of,
    is_conflict,
    is_database_error,
    is_transient,
    one_line,
)

#: A row, and the input it comes from; (None, -1) if it comes from none.
WaitingRow = tuple[SystemStreamPartition | None, int, Row]

#: Two values of one of these types are the same in every column if they are equal.
_SAME_IF_EQUAL = frozenset({int, str, bytes, bool, date, UUID})
#: Two values of one of these types are the same in every column if their `repr` is equal.
_SAME_IF_SHOWN_ALIKE = frozenset({float, Decimal, datetime, time})


def last_of_each_key(rows: Sequence[Row], places: Sequence[int]) -> Sequence[Row]:
    """The rows in order, without those that a later row with the same values at `places` certainly replaces.

    Python's equality does not decide: 1 and 1.0 are two texts, and no null equals another. The table decides about all
    remaining rows.
    """
    kinds = [set(map(type, map(itemgetter(place), rows))) for place in places]
    last: dict[object, int]
    if all(len(item) == 1 and item <= _SAME_IF_EQUAL for item in kinds):
        key_of = itemgetter(*places)
        last = {key_of(row): number for number, row in enumerate(rows)}
    else:
        last = {tuple(_identity(row[place]) for place in places): number for number, row in enumerate(rows)}
    return rows if len(last) == len(rows) else [rows[number] for number in sorted(last.values())]


def _identity(value: object) -> object:
    kind = type(value)
    if kind in _SAME_IF_EQUAL:
        return kind, value
    if kind in _SAME_IF_SHOWN_ALIKE:
        return kind, repr(value)
    return object() if value is None else id(value)


def span(rows: list[WaitingRow]) -> str:
    """The number of rows, and their first and last inputs, for an error that cannot name the row."""
    inputs = [f"{ssp}@{offset}" for ssp, offset, _ in rows if ssp is not None]
    where = f" from {inputs[0]} to {inputs[-1]}" if inputs else ""
    return f"{len(rows):,} rows{where}"


MODES = ("transactional", "upsert")

_PART = r'([A-Za-z_]\w*|"[^"\x00]+")'
_NAME = re.compile(rf"{_PART}(\.{_PART})*", re.ASCII)


class SqlSink(Sink):
    """One table as a task's sink. Call `write` in `process`. At each commit of the task one transaction writes the
    rows and the offsets (to `samzapy_offsets` in the same database, which the sink creates if it is missing).

    `transactional`: the sink inserts rows, and drops rows of an input that is processed again. `upsert`: a row
    replaces the row with the same `key`, for which the table needs a unique constraint. The sink writes rows of a
    repeated input again, so the table follows the task's state even where that depends on more than the inputs, and
    `window` may also write. Both modes refuse writes of an older attempt of the task.

    The container connects at its start, and again when it restarts after a lost connection. Tested with sqlite3 and
    with psycopg 3 on PostgreSQL, where COPY inserts the rows; `transactional` is standard SQL.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        table: str,
        columns: Sequence[str],
        *,
        mode: str = "transactional",
        key: Sequence[str] = (),
        name: str | None = None,
        max_rows: int = 50_000,
    ) -> None:
        """`connect` makes a DB-API 2 connection that is not in autocommit mode. The names of table and columns go into
        statements unchanged: letters, digits and underscores, or quoted. `name` (default: the table's) tells the task's
        sinks apart and must stay. With `max_rows` rows waiting the task commits early. Raises ValueError."""
        for given in (table, *columns):
            if not _NAME.fullmatch(given):
                raise ValueError(f"""{given!r} cannot be the name of a table or column; quote it: '"{given}"'""")
        if mode not in MODES:
            raise ValueError(f"table {table}: mode is {' or '.join(MODES)}, got {mode!r}")
        if not columns or not set(key) <= set(columns) or bool(key) != (mode == "upsert"):
            raise ValueError(f"table {table}: upsert needs a key among the columns {list(columns)}, got {list(key)}")
        self._connect = connect
        self._target = Target(table, tuple(columns), tuple(key))
        self._width = len(columns)
        self._key = [self._target.columns.index(column) for column in key]
        self._name = name or table
        self._max_rows = max_rows
        self._waiting: list[WaitingRow] = []
        self._held: dict[SystemStreamPartition, int] = {}
        self._repeated: dict[SystemStreamPartition, int] = {}
        self._written = self._dropped = 0
        self._what = f"table {table}"
        self._connection: Connection = None
        self._offsets: SinkOffsets | None = None

    @property
    def name(self) -> str:
        return self._name

    def write(self, row: Row, envelope: IncomingMessageEnvelope | None = None) -> None:
        """Add a row, values in the order of the columns, that comes from the message `envelope`. To be called on the
        task's thread, while the message is processed. The caller may change a list afterwards; the values themselves
        are not copied.

        `window` has no message: there, only `upsert` can make one row of a row and its repetition. Raises ValueError
        for a row of another length or type, or one without a message that needs one.
        """
        if not isinstance(row, (tuple, list)) or len(row) != self._width:
            columns = ", ".join(self._target.columns)
            raise ValueError(f"table {self._target.table}: a row is a tuple of {columns}, got {row!r}")
        if envelope is None:
            if not self._key:
                raise ValueError(f"table {self._target.table}: a row that comes from no message needs mode='upsert'")
            self._waiting.append((None, -1, tuple(row)))
            return
        ssp, offset = envelope.ssp, envelope.offset
        if self._repeated and offset < self._repeated.get(ssp, 0):
            self._dropped += 1
        else:
            self._waiting.append((ssp, offset, tuple(row)))

    def open(self, attempt: TaskAttempt) -> Mapping[SystemStreamPartition, int]:
        """See `Sink.open`. Raises TaskMigrated, RetriableError, or EnvironmentFailure for a missing table or missing
        columns."""
        self._what = f"{attempt}: table {self._target.table}"
        try:
            self._connection = self._connect()
        except Exception as cause:
            raise self._failure("cannot connect", cause) from cause
        try:
            offsets = self._offsets = SinkOffsets(database_of(self._connection), attempt, self._name)
            offsets.create(self._connection)
            with self._transaction() as cursor:
                cursor.execute(self._target.probe)
                self._held = offsets.claim(cursor)
            if not self._key:
                self._repeated = dict(self._held)
        except Exception as cause:
            self.close()
            if not is_database_error(cause):
                raise
            raise self._failure("cannot be opened", cause) from cause
        return dict(self._held)

    def commit(self, offsets: Mapping[SystemStreamPartition, int]) -> None:
        """See `Sink.commit`. Raises TaskMigrated, RetriableError, or TaskFailed for rows that the table refuses."""
        assert self._offsets is not None, "open comes first, and nothing after a failure"
        # Rows of later inputs keep waiting: after a crash their inputs come again.
        done = [row for row in self._waiting if row[0] is None or row[1] < offsets[row[0]]]
        held = {ssp: max(offset, self._held.get(ssp, offset)) for ssp, offset in offsets.items()}
        try:
            with self._transaction() as cursor:
                # The offsets first: that takes the locks, and finds out whether this attempt may write at all.
                self._offsets.advance(cursor, held)
                reach("sink.1")
                rows: Sequence[Row] = [row for _, _, row in done]
                if self._key:
                    rows = last_of_each_key(rows, self._key)
                if rows:
                    self._offsets.database.load(cursor, self._target, rows)
                reach("sink.2")
        except Exception as cause:
            self.close()
            if is_transient(cause):
                raise self._failure("the commit failed", cause) from cause
            if is_database_error(cause):
                raise TaskFailed(f"{self._what} refused one of {span(done)}: {one_line(cause)}") from cause
            raise
        reach("sink.3")
        gone = set(map(id, done))
        self._waiting = [row for row in self._waiting if id(row) not in gone]
        if self._repeated and all(self._repeated.get(ssp, 0) <= offset for ssp, offset in offsets.items()):
            self._repeated.clear()
        self._written += len(done)

    def forget(self, envelope: IncomingMessageEnvelope) -> None:
        # Wherever they are: messages of an asynchronous task write side by side.
        self._waiting = [row for row in self._waiting if row[1] != envelope.offset or row[0] != envelope.ssp]

    def mark(self) -> int:
        return len(self._waiting)

    def back_to(self, mark: int) -> None:
        del self._waiting[mark:]

    def full(self) -> bool:
        return len(self._waiting) >= self._max_rows

    def metrics(self) -> Mapping[str, float]:
        """`rows` committed and rows `dropped`, because the table had them, by this attempt."""
        return {"rows": self._written, "dropped": self._dropped}

    def close(self) -> None:
        connection, self._connection, self._offsets = self._connection, None, None
        if connection is not None:
            connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """A cursor, and a commit at the end; after a failure the connection can only be closed."""
        with closing(self._connection.cursor()) as cursor:
            yield cursor
        self._connection.commit()

    def _failure(self, what: str, cause: Exception) -> SamzapyError:
        # Two attempts create the same row or table at the same time: the second finds it when it tries again.
        again = is_transient(cause) or is_conflict(cause)
        return (RetriableError if again else EnvironmentFailure)(f"{self._what}: {what}: {one_line(cause)}")
