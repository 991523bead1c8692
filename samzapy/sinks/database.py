"""Hides the differences between databases and their drivers behind a DB-API 2 connection.

1. `Database` and `Postgres` load rows and end the sessions of a predecessor.
2. The functions at the end classify the errors of drivers. DB-API 2 fixes the names of the exception classes but no base
   class, so they go by these names.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from samzapy.errors import EnvironmentFailure

#: One row: values in the order of the target's columns.
Row = tuple[Any, ...] | list[Any]

#: A connection serves one sink, so one name will do.
_STAGE = "samzapy_stage"
_PLACEHOLDERS = {"qmark": "?", "format": "%s", "pyformat": "%s"}


class Connection(Protocol):
    """The part of a DB-API 2 connection that a sink needs; it must not be in autocommit mode."""

    def cursor(self) -> Any:
        """A cursor."""

    def commit(self) -> Any:
        """End the transaction."""

    def rollback(self) -> Any:
        """Undo the transaction."""

    def close(self) -> Any:
        """Close; an open transaction is undone."""


@dataclass(frozen=True)
class Target:
    """A table, its columns in the order of a row's values, and those that are the key of an upsert (none: insert)."""

    table: str
    columns: Sequence[str]
    key: Sequence[str] = ()

    @property
    def probe(self) -> str:
        """A query that fails if the table or one of its columns is not there."""
        return f"SELECT {', '.join(self.columns)} FROM {self.table} WHERE 1 = 0"

    @property
    def into(self) -> str:
        """The head of an INSERT."""
        return f"INSERT INTO {self.table} ({', '.join(self.columns)})"

    @property
    def on_conflict(self) -> str:
        """The clause by which a row replaces the one with its key; empty without a key."""
        if not self.key:
            return ""
        others = [column for column in self.columns if column not in self.key]
        replaced = ", ".join(f"{column} = excluded.{column}" for column in others)
        return f" ON CONFLICT ({', '.join(self.key)}) DO {f'UPDATE SET {replaced}' if others else 'NOTHING'}"


class Database:
    """Any database; `placeholder` is the driver's mark of a parameter."""

    def __init__(self, placeholder: str) -> None:
        self.placeholder = placeholder

    def end_predecessor(self, cursor: Any, name: str) -> None:
        """End an earlier session of this `name`; this session takes the name from now on.

        Locks and epochs keep a predecessor from doing harm. This keeps one that was stopped for good inside its
        transaction from blocking its successors; where a database has no means for it, its lock time-out must do.
        """

    def load(self, cursor: Any, target: Target, rows: Sequence[Row]) -> None:
        """Insert or upsert `rows`, in which no key occurs twice."""
        values = ", ".join([self.placeholder] * len(target.columns))
        cursor.executemany(f"{target.into} VALUES ({values}){target.on_conflict}", rows)


class Postgres(Database):
    """PostgreSQL by psycopg 3."""

    def __init__(self) -> None:
        super().__init__("%s")

    def end_predecessor(self, cursor: Any, name: str) -> None:
        """A session is known by its `application_name`; a role may always end sessions of its own."""
        session = f"samzapy {hashlib.sha256(name.encode()).hexdigest()[:32]}"
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
            " AND usename = current_user AND datname = current_database() AND pid <> pg_backend_pid()",
            (session,),
        )
        cursor.execute("SELECT set_config('application_name', %s, false)", (session,))

    def load(self, cursor: Any, target: Target, rows: Sequence[Row]) -> None:
        """By COPY, which takes rows several times as fast as statements do; for an upsert, by way of a temporary table."""
        columns = ", ".join(target.columns)
        into = _STAGE if target.key else target.table
        if target.key:
            shape = f"SELECT {columns} FROM {target.table} WITH NO DATA"
            cursor.execute(f"CREATE TEMPORARY TABLE IF NOT EXISTS {_STAGE} ON COMMIT DELETE ROWS AS {shape}")
        with cursor.copy(f"COPY {into} ({columns}) FROM STDIN") as copy:
            write = copy.write_row
            for row in rows:
                write(row)
        if target.key:
            cursor.execute(f"{target.into} SELECT {columns} FROM {_STAGE}{target.on_conflict}")


def database_of(connection: Connection) -> Database:
    """The database behind a connection, by its driver's module.

    Raises EnvironmentFailure for a connection in autocommit mode, where rows and offsets would not be one transaction,
    and for a driver that marks parameters neither by `?` nor by `%s`.
    """
    driver = type(connection).__module__
    package = driver.partition(".")[0]
    autocommit = getattr(connection, "autocommit", False) is True
    if package == "sqlite3":
        autocommit |= getattr(connection, "isolation_level", None) is None
    if autocommit:
        raise EnvironmentFailure(f"the {package} connection is in autocommit mode; a sink needs transactions")
    if package == "psycopg":
        return Postgres()
    style = _parameter_style(driver)
    if style not in _PLACEHOLDERS:
        allowed = ", ".join(_PLACEHOLDERS)
        raise EnvironmentFailure(f"the driver {package} has the parameter style {style!r}; allowed: {allowed}")
    return Database(_PLACEHOLDERS[style])


def _parameter_style(driver: str) -> str:
    """The `paramstyle` of the driver's module, or of the nearest package above it."""
    while driver:
        style = getattr(sys.modules.get(driver), "paramstyle", None)
        if style is not None:
            return str(style)
        driver = driver.rpartition(".")[0]
    return "unknown"


#: A lost connection, a server that shuts down, a deadlock, a time-out: a new connection may help.
_TRANSIENT = {"OperationalError", "InterfaceError"}
#: SQLite calls nearly everything an OperationalError, a missing table too.
_TRANSIENT_IN_SQLITE = ("locked", "busy", "disk I/O")


def is_database_error(cause: BaseException) -> bool:
    """Whether a driver raised it."""
    return "Error" in _names(cause)


def is_transient(cause: BaseException) -> bool:
    """Whether the same call may succeed on a new connection."""
    if not _names(cause) & _TRANSIENT:
        return False
    in_sqlite = any(base.__module__ == "sqlite3" for base in type(cause).__mro__)
    return not in_sqlite or any(word in str(cause) for word in _TRANSIENT_IN_SQLITE)


def is_conflict(cause: BaseException) -> bool:
    """Whether another writer wrote the same at the same time: a unique constraint, or a catalog entry made twice."""
    return bool(_names(cause) & {"IntegrityError", "InternalError"})


def one_line(cause: BaseException) -> str:
    """The driver's message without its line breaks; the class if it says nothing."""
    return " ".join(str(cause).split()) or type(cause).__name__


def _names(cause: BaseException) -> set[str]:
    return {base.__name__ for base in type(cause).__mro__}
