"""Decides the end up to which a table may be read, so that no row appears later in front of a position.

Rows get their place (a number from a sequence, a time) while they are written. Readers see them when their transaction
commits: 8 may be visible before 7, and a reader that went past 7 would never see it. So a reader goes as far as the greater of

1. the number before the first gap, and
2. a number that was the greatest at an earlier look, if every transaction that was writing then has ended (PostgreSQL
   shows their locks) and the safety lag has passed since. A gap below it is final: rolled back, or deleted.

This holds if the statement that writes the row draws the number: identity, serial, a default or a trigger with nextval, in a
sequence without a cache. If a writer draws it earlier (a mapper that takes blocks of ids, the application's own counter),
`database.safety.lag.ms` has to cover that time.

Timestamps have no visible gaps, and a transaction may wait before it writes. There only the lag counts, by the
database's clock:

1. If the writers have other clocks, the lag has to cover the difference.
2. If the database's clock was ahead for a time, readers have gone too far: rows that are written afterwards come before
   their positions. This is only logged: an error would stop the job until the clock has caught up.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Protocol

import sqlalchemy as sa

from samzapy.clock import Clock
from samzapy.system.database.connection import now_s
from samzapy.system.database.table import SourceTable

#: The transactions that may have written: an INSERT takes this lock on the table before it draws its number from the
#: sequence, and releases it after its rows are visible. `virtualtransaction` names a transaction before it has an id.
_LOCKS = sa.text(
    "SELECT DISTINCT virtualtransaction FROM pg_locks WHERE locktype = 'relation' AND granted"
    " AND mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND (relation = to_regclass(:name) OR relation IN (SELECT relid FROM pg_partition_tree(to_regclass(:name))))"
)


class Writers(Protocol):
    """The open writers of a table, asked at each look; `default_lag_ms` has to pass as well."""

    default_lag_ms: int

    def now(self, connection: sa.Connection) -> frozenset[str]:
        """The open transactions that may have written to the table."""
        ...


class PostgresWriters:
    """PostgreSQL shows writers by their locks on the table."""

    default_lag_ms = 0

    def __init__(self, table: str) -> None:
        self._name = {"name": table}

    def now(self, connection: sa.Connection) -> frozenset[str]:
        return frozenset(connection.scalars(_LOCKS, self._name))


class OneWriter:
    """SQLite has one writer at a time: a later commit began later."""

    default_lag_ms = 0

    def now(self, connection: sa.Connection) -> frozenset[str]:
        return frozenset()


class UnseenWriters:
    """For any other database, and a PostgreSQL replica: only waiting helps."""

    default_lag_ms = 10_000

    def now(self, connection: sa.Connection) -> frozenset[str]:
        return frozenset()


def writers_of(connection: sa.Connection, table: sa.Table) -> Writers:
    """The kind of writers that this database shows."""
    name = connection.dialect.name
    if name == "sqlite":
        return OneWriter()
    if name == "postgresql" and not connection.scalar(sa.text("SELECT pg_is_in_recovery()")):
        return PostgresWriters(connection.dialect.identifier_preparer.format_table(table))
    return UnseenWriters()


logger = logging.getLogger(__name__)

_NUMBERS_AT_ONCE = 1000
_TIMESTAMP_LAG_MS = 10_000


#: Seconds that a position may be ahead of the clock: a reader past a row of this second is at the next second, and a
#: clock may be set back by a fraction of a second.
_BEHIND_THE_LAST_S = 2
#: A longer wait is logged once.
_PATIENCE_S = 60.0


@dataclass
class _Unsettled:
    """The greatest number at a time, and the transactions that were writing then."""

    greatest: int
    since: float
    writers: frozenset[str]
    announced: bool = False


class SettledNumbers:
    """For an integer order column. `end` is asked once a look; it never goes back."""

    def __init__(self, source: SourceTable, start: int, writers: Writers, clock: Clock) -> None:
        """`start`: the lowest number that will be read."""
        self._order = source.order
        self._where = source.where
        self._end = start
        self._writers = writers
        lag_ms = source.config.safety_lag_ms
        self._lag_s = (writers.default_lag_ms if lag_ms is None else lag_ms) / 1000
        self._clock = clock
        self._waiting: _Unsettled | None = None

    def end(self, connection: sa.Connection) -> int:
        """Every row with a smaller number may be read, by a separate statement that starts after this one."""
        greatest = connection.scalar(sa.select(sa.func.max(self._order)))
        if greatest is None or greatest < self._end:
            return self._end
        # After the greatest number: a writer that had drawn a smaller one is still among them, or has ended.
        writers, now = self._writers.now(connection), self._clock.monotonic()
        self._settle(writers, now)
        if self._waiting is None and greatest >= self._end:
            self._waiting = _Unsettled(greatest, now, writers)
            self._settle(writers, now)
        if greatest >= self._end:
            self._end = self._without_gap(connection)
            self._complain(writers, now)
        return self._end

    def _settle(self, writers: frozenset[str], now: float) -> None:
        waiting = self._waiting
        if waiting is not None and now - waiting.since >= self._lag_s and not waiting.writers & writers:
            self._end, self._waiting = max(self._end, waiting.greatest + 1), None

    def _complain(self, writers: frozenset[str], now: float) -> None:
        waiting = self._waiting
        if waiting is not None and not waiting.announced and now - waiting.since > max(_PATIENCE_S, 2 * self._lag_s):
            waiting.announced = True
            logger.warning(
                "%s@%d: waiting for %d transactions that have been writing to the table for more than %.0f s: %s",
                *(self._where, self._end, len(waiting.writers & writers), now - waiting.since),
                ", ".join(sorted(waiting.writers & writers)),
            )

    def _without_gap(self, connection: sa.Connection) -> int:
        order, end = self._order, self._end
        numbers = sa.select(order).where(order >= end).order_by(order).limit(_NUMBERS_AT_ONCE)
        for number in connection.scalars(numbers):
            if number != end:
                break
            end += 1
        return end


class SettledSeconds:
    """For a timestamp: whole seconds, so that a second is complete when it is read."""

    def __init__(self, source: SourceTable, clock: Clock) -> None:
        lag_ms = source.config.safety_lag_ms
        self._lag_s = (_TIMESTAMP_LAG_MS if lag_ms is None else lag_ms) / 1000
        self._where = source.where
        self._clock = clock
        self._is_ahead = False

    def end(self, connection: sa.Connection, position: int) -> int:
        """The second before which every row may be read. `position`: the greatest second of a reader."""
        now = now_s(connection, self._clock)
        is_ahead = position > now + _BEHIND_THE_LAST_S
        if is_ahead and not self._is_ahead:
            logger.warning(
                "%s: the clock of the database is at %s, but the table was read up to %s: rows dated before that are not read. "
                "If the clock was ahead and is right now, stop the job and set it back: samzapy checkpoint set JOB %s",
                *(self._where, _utc(now), _utc(position), _utc(now - self._lag_s)),
            )
        self._is_ahead = is_ahead
        return max(0, int(now - self._lag_s))


def _utc(second: float) -> str:
    return datetime.fromtimestamp(int(second), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
