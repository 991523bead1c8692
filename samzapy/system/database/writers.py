"""Who is writing to a table right now, where the database tells."""

from __future__ import annotations

from typing import Protocol

import sqlalchemy as sa

#: A transaction that has written, or may: an INSERT takes this lock on the table before it draws its number from the
#: sequence, and gives it back after its rows can be seen. `virtualtransaction` names a transaction before it has an id.
_LOCKS = sa.text(
    "SELECT DISTINCT virtualtransaction FROM pg_locks WHERE locktype = 'relation' AND granted"
    " AND mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND (relation = to_regclass(:name) OR relation IN (SELECT relid FROM pg_partition_tree(to_regclass(:name))))"
)


class Writers(Protocol):
    """Asked again and again; `default_lag_ms` is what has to be waited besides."""

    default_lag_ms: int

    def now(self, connection: sa.Connection) -> frozenset[str]:
        """The open transactions that may have written to the table."""
        ...


class PostgresWriters:
    """PostgreSQL tells from its locks, whatever else is going on in the database."""

    default_lag_ms = 0

    def __init__(self, table: str) -> None:
        self._name = {"name": table}

    def now(self, connection: sa.Connection) -> frozenset[str]:
        return frozenset(connection.scalars(_LOCKS, self._name))


class OneWriter:
    """SQLite: who commits later has begun to write later."""

    default_lag_ms = 0

    def now(self, connection: sa.Connection) -> frozenset[str]:
        return frozenset()


class UnseenWriters:
    """Any other database, and a PostgreSQL that follows another one: only waiting helps."""

    default_lag_ms = 10_000

    def now(self, connection: sa.Connection) -> frozenset[str]:
        return frozenset()


def writers_of(connection: sa.Connection, table: sa.Table) -> Writers:
    """Who writes to the table, by what this database can tell."""
    name = connection.dialect.name
    if name == "sqlite":
        return OneWriter()
    if name == "postgresql" and not connection.scalar(sa.text("SELECT pg_is_in_recovery()")):
        return PostgresWriters(connection.dialect.identifier_preparer.format_table(table))
    return UnseenWriters()
