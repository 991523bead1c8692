"""Decides the end up to which a table may be read, so that no row appears later in front of a position.

Rows draw their number from a sequence while they are written. Readers see them when their transaction commits: 8 may be
visible before 7, and a reader that went past 7 would never see it. So a reader goes as far as the greater of

1. the number before the first gap, and
2. a number that was the greatest at an earlier poll, if every transaction that was writing then has ended (PostgreSQL
   shows their locks) and the safety lag has passed since. A gap below it is final: rolled back, or deleted.

This holds if the statement that writes the row draws the number: identity, serial, a default or a trigger with nextval,
in a sequence without a cache. If a writer draws it earlier (a mapper that takes blocks of ids, the application's own
counter), `database.safety.lag.ms` has to cover that time.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import sqlalchemy as sa

from samzapy.clock import Clock
from samzapy.system.database.table import SourceTable

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
#: A longer wait for writers is logged once.
_PATIENCE_S = 60.0


class Writers:
    """The open transactions that may have written to a table, where the database shows them."""

    def __init__(self, connection: sa.Connection, table: sa.Table) -> None:
        dialect = connection.dialect
        self._name: str | None = None
        if dialect.name == "postgresql" and not connection.scalar(sa.text("SELECT pg_is_in_recovery()")):
            self._name = dialect.identifier_preparer.format_table(table)
        # SQLite has one writer at a time: a later commit began later.
        self.lag_ms = 0 if self._name or dialect.name == "sqlite" else _UNSEEN_LAG_MS

    def now(self, connection: sa.Connection) -> frozenset[str]:
        """The transactions that are open now."""
        return frozenset(connection.scalars(_LOCKS, {"name": self._name})) if self._name else frozenset()


@dataclass
class _Unsettled:
    """The greatest number at a time, and the transactions that were writing then."""

    greatest: int
    since: float
    writers: frozenset[str]
    announced: bool = False


class SettledNumbers:
    """The end of the settled rows of one table. `end` is called once per poll, and never goes back."""

    def __init__(self, source: SourceTable, start: int, connection: sa.Connection, clock: Clock) -> None:
        """`start`: the lowest number that will be read."""
        self._order = source.order
        self._where = source.where
        self._end = start
        self._writers = Writers(connection, source.table)
        lag_ms = source.config.safety_lag_ms
        self._lag_s = (self._writers.lag_ms if lag_ms is None else lag_ms) / 1000
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
            self._end = self._first_gap(connection)
            self._warn(writers, now)
        return self._end

    def _settle(self, writers: frozenset[str], now: float) -> None:
        waiting = self._waiting
        if waiting is not None and now - waiting.since >= self._lag_s and not waiting.writers & writers:
            self._end, self._waiting = max(self._end, waiting.greatest + 1), None

    def _warn(self, writers: frozenset[str], now: float) -> None:
        waiting = self._waiting
        if waiting is not None and not waiting.announced and now - waiting.since > max(_PATIENCE_S, 2 * self._lag_s):
            waiting.announced = True
            logger.warning(
                "%s@%d: waiting for %d transactions that have been writing to the table for more than %.0f s: %s",
                *(self._where, self._end, len(waiting.writers & writers), now - waiting.since),
                ", ".join(sorted(waiting.writers & writers)),
            )

    def _first_gap(self, connection: sa.Connection) -> int:
        order, end = self._order, self._end
        numbers = sa.select(order).where(order >= end).order_by(order).limit(_NUMBERS_PER_QUERY)
        for number in connection.scalars(numbers):
            if number != end:
                break
            end += 1
        return end
