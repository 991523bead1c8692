"""Reads the tables of one database for a consumer: the times and ranges of its reads, and each row's partition.

No row may appear later in front of a position. Rows draw their number from a sequence while they are written. Readers
see them when their transaction commits: 8 may be visible before 7, and a reader that went past 7 would never see it. So
a reader goes as far as the greater of

1. the number before the first gap, and
2. a number that was the greatest at an earlier poll, if every transaction that was writing then has ended (PostgreSQL
   shows their locks) and the safety lag has passed since. A gap below it is final: rolled back, or deleted.

This holds if the statement that writes the row draws the number: identity, serial, a default or a trigger with nextval,
in a sequence without a cache. If a writer draws it earlier (a mapper that takes blocks of ids, the application's own
counter), `database.safety.lag.ms` has to cover that time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import RecordBatch
from samzapy.clock import Clock
from samzapy.config.streams.systems import DatabaseConfig
from samzapy.errors import EnvironmentFailure, OffsetOutOfRange
from samzapy.system.base import Fetch, LogConsumer, partition_of
from samzapy.system.database.table import Database, Record, Row, Rows, SourceTable, sources_of

logger = logging.getLogger(__name__)

#: The transactions that may have written: an INSERT takes this lock on the table before it draws its number from the
#: sequence, and releases it after its rows are visible. `virtualtransaction` names a transaction before it has an id.
_LOCKS = sa.text(
    "SELECT DISTINCT virtualtransaction FROM pg_locks WHERE locktype = 'relation' AND granted"
    " AND mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND (relation = to_regclass(:name) OR relation IN (SELECT relid FROM pg_partition_tree(to_regclass(:name))))"
)
#: The lag for databases that do not show their writers, and for a PostgreSQL replica: only waiting helps.
_UNSEEN_LAG_MS = 10_000
_NUMBERS_PER_QUERY = 1000


class SettledNumbers:
    """The end of the settled rows of one table. `end` is called once per poll, and never goes back."""

    def __init__(self, source: SourceTable, start: int, connection: sa.Connection, clock: Clock) -> None:
        """`start`: the lowest number that will be read."""
        self._order = source.order
        self._end = start
        self._clock = clock
        dialect, lag_ms = connection.dialect, source.config.safety_lag_ms
        #: The table, if the database shows the transactions that may have written to it.
        self._shown: str | None = None
        if dialect.name == "postgresql" and not connection.scalar(sa.text("SELECT pg_is_in_recovery()")):
            self._shown = dialect.identifier_preparer.format_table(source.table)
        if lag_ms is None:
            # SQLite has one writer at a time: a later commit began later.
            lag_ms = 0 if self._shown or dialect.name == "sqlite" else _UNSEEN_LAG_MS
        self._lag_s = lag_ms / 1000
        #: The greatest number at an earlier poll, its time, and the transactions that were writing then.
        self._unsettled: tuple[int, float, frozenset[str]] | None = None

    def end(self, connection: sa.Connection) -> int:
        """Every row with a smaller number may be read, by a separate statement that starts after this one."""
        greatest = connection.scalar(sa.select(sa.func.max(self._order)))
        if greatest is None or greatest < self._end:
            return self._end
        # After the greatest number: a writer that had drawn a smaller one is still among them, or has ended.
        writers = frozenset(connection.scalars(_LOCKS, {"name": self._shown})) if self._shown else frozenset[str]()
        now = self._clock.monotonic()
        self._settle(writers, now)
        if self._unsettled is None and greatest >= self._end:
            self._unsettled = greatest, now, writers
            self._settle(writers, now)
        if greatest >= self._end:
            self._end = self._first_gap(connection)
        return self._end

    def _settle(self, writers: frozenset[str], now: float) -> None:
        if self._unsettled is not None:
            greatest, since, writing = self._unsettled
            if now - since >= self._lag_s and not writing & writers:
                self._end, self._unsettled = max(self._end, greatest + 1), None

    def _first_gap(self, connection: sa.Connection) -> int:
        order, end = self._order, self._end
        numbers = sa.select(order).where(order >= end).order_by(order).limit(_NUMBERS_PER_QUERY)
        for number in connection.scalars(numbers):
            if number != end:
                break
            end += 1
        return end


_POSTGRES = sa.text(
    "SELECT last_value FROM pg_sequences WHERE to_regclass(quote_ident(schemaname) || '.' || quote_ident(sequencename))"
    " = pg_get_serial_sequence(:table, :column)::regclass"
)
_SQLITE = sa.text("SELECT seq FROM sqlite_sequence WHERE name = :table")


def last_number(connection: sa.Connection, source: SourceTable) -> int | None:
    """The last number of the order column that was given out; None if it is unknown: the column has no sequence, or the
    user has no right to read it."""
    dialect = connection.dialect
    result = None
    if dialect.name == "postgresql":
        table = dialect.identifier_preparer.format_table(source.table)
        result = connection.scalar(_POSTGRES, {"table": table, "column": source.order.name})
    elif dialect.name == "sqlite" and source.order.primary_key and sa.inspect(connection).has_table("sqlite_sequence"):
        result = connection.scalar(_SQLITE, {"table": source.table.name})
    return None if result is None else int(result)


#: Rows of one statement; drivers hold all of them in memory.
_ROWS_PER_QUERY = 2000


class TableStream:
    """The partitions of one table, each with a separate query, because their positions differ."""

    def __init__(self, source: SourceTable, connection: sa.Connection, clock: Clock) -> None:
        self._source = source
        self._rows = Rows(source, connection.dialect.name)
        self._partitions = source.config.partitions
        self._clock = clock
        self._due = clock.monotonic()
        self._pause_s = source.config.poll_interval_ms / 1000
        self._settled: SettledNumbers | None = None

    @property
    def wait_s(self) -> float:
        """Seconds until the next poll of the table."""
        return self._due - self._clock.monotonic()

    def read(
        self, connection: sa.Connection, positions: dict[SystemStreamPartition, int], max_records: int
    ) -> dict[SystemStreamPartition, Fetch]:
        """The records that may be read now, at most `max_records`, of a table that is due."""
        self._refuse_new_numbers(connection, positions)
        if self._settled is None:
            # From the lowest position: a reader may seek back later, and a settled number stays settled.
            self._settled = SettledNumbers(self._source, min(positions.values()), connection, self._clock)
        self._refuse_lost_rows(connection)
        end = self._settled.end(connection)
        fetched, idle = {}, True
        for ssp, position in positions.items():
            if position >= end:
                fetched[ssp] = Fetch(position, None)
                continue
            fetched[ssp] = self._fetch(connection, ssp, (position, end), min(max_records, _ROWS_PER_QUERY))
            idle = idle and fetched[ssp].position >= end
            batch = fetched[ssp].batch
            max_records -= len(batch.offsets) if batch else 0
            if max_records <= 0:
                idle = False
                break
        if idle:
            self._due = self._clock.monotonic() + self._pause_s
        return fetched

    def _fetch(self, connection: sa.Connection, ssp: SystemStreamPartition, span: tuple[int, int], limit: int) -> Fetch:
        """The partition's records among at most `limit` rows of the table inside `span` (first offset, end)."""
        order, (position, end) = self._source.order, span
        statement = sa.select(*self._rows.selected).where(order >= position, order < end).order_by(order).limit(limit)
        rows = connection.execute(statement).all()
        after = end if len(rows) < limit else int(rows[-1][0]) + 1
        own: list[tuple[int, Record]] = [
            (int(row[0]), self._rows.record(row, row[0])) for row in rows if self._is_of(ssp, row)
        ]
        if not own:
            return Fetch(after, None)
        offsets, records = zip(*own, strict=True)
        keys, values, times = zip(*records, strict=True)
        return Fetch(after, RecordBatch(ssp, offsets, keys, values, times))

    def _is_of(self, ssp: SystemStreamPartition, row: Row) -> bool:
        return self._partitions == 1 or partition_of(self._rows.key(row) or b"", self._partitions) == ssp.partition

    def _refuse_new_numbers(self, connection: sa.Connection, positions: dict[SystemStreamPartition, int]) -> None:
        """Raise if the numbers begin again: rows would be missing until they have passed the old positions."""
        upcoming = self._source.upcoming(connection)
        ahead = {ssp: position for ssp, position in positions.items() if position > upcoming}
        if not ahead:
            return
        ssp, position = max(ahead.items(), key=lambda item: item[1])
        last = last_number(connection, self._source)
        if last is None and self._settled is None:
            logger.warning("%s@%d: the last row is %d; were the rows after it deleted?", ssp, position, upcoming - 1)
        elif last is not None and position > max(upcoming, last + 1):
            repair = "the table has begun to count anew; start from its beginning: samzapy checkpoint set JOB oldest"
            raise OffsetOutOfRange(ssp, position, 0, max(upcoming, last + 1), repair)

    def _refuse_lost_rows(self, connection: sa.Connection) -> None:
        """Raise if rows have no place in the order, or one before the first: they would never be read."""
        source, order = self._source, self._source.order
        lost = sa.or_(order < 0, order.is_(None)) if source.may_be_null else order < 0
        row = connection.execute(sa.select(*self._rows.selected).where(lost).limit(1)).first()
        if row is not None:
            key = (self._rows.key(row) or b"NULL").decode(errors="replace")
            raise EnvironmentFailure(
                f"{source.where}: {source.config.prefix}order.by: the row with key {key} has "
                f"{order.name}={row[0]}, expected an integer >= 0 in every row of table {source.config.table}"
            )


#: The least time between two reads of a table that has more rows: the caller expects a positive one.
_LEAST_WAIT_S = 0.001


class DatabaseConsumer(LogConsumer):
    """Reads each table when it is due: again at once while there is more, else after its poll interval."""

    def __init__(self, config: DatabaseConfig, clock: Clock) -> None:
        super().__init__(config.system)
        self._database = Database(config)
        self._clock = clock
        self._streams: dict[str, TableStream] = {}
        self._polled: set[str] = set()

    def _open(self, ssps: Iterable[SystemStreamPartition]) -> None:
        with self._database.connected() as connection:
            for stream, source in sources_of(self._database, connection, ssps).items():
                self._streams[stream] = TableStream(source, connection, self._clock)

    def _read(
        self, positions: Sequence[tuple[SystemStreamPartition, int]], max_records: int
    ) -> dict[SystemStreamPartition, Fetch]:
        by_stream: dict[str, dict[SystemStreamPartition, int]] = {}
        for ssp, position in positions:
            by_stream.setdefault(ssp.stream, {})[ssp] = position
        self._polled = set(by_stream)
        fetched: dict[SystemStreamPartition, Fetch] = {}
        for stream, of_stream in by_stream.items():
            if max_records > 0 and self._streams[stream].wait_s <= 0:
                with self._database.connected() as connection:
                    result = self._streams[stream].read(connection, of_stream, max_records)
                max_records -= sum(len(item.batch.offsets) for item in result.values() if item.batch)
                fetched |= result
        return fetched

    def _wait(self, timeout_s: float) -> float:
        due = min((self._streams[stream].wait_s for stream in self._polled), default=timeout_s)
        pause = min(timeout_s, max(due, _LEAST_WAIT_S))
        time.sleep(pause)
        return pause

    def close(self) -> None:
        super().close()
        self._database.close()
