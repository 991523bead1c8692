"""Hides the differences between databases and their drivers behind a DB-API 2 connection, and keeps a sink's offsets
there.

1. `Database` and `Postgres` load rows and end the sessions of a predecessor.
2. The functions after them classify the errors of drivers. DB-API 2 fixes the names of the exception classes but no
   base class, so they go by these names.
3. The table `samzapy_offsets` holds the first input of each partition that a sink lacks, and the attempt that may
   write:

    job, task, sink, ssp    one partition of one task and one sink
    next_offset             the first input without rows in the sink; null until the first commit
    epoch                   the newest attempt that has opened the sink
    commit_number           counts the transactions of the task's sink; with `task` it identifies a batch of rows

Each commit begins with an update of these rows that must find the epoch and the commit number of the commit before. The
update takes the rows' locks, so no two transactions of a task interleave. A superseded attempt, or a late transaction
of an abandoned connection, finds other numbers and changes nothing.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

from samzapy.api.sink import TaskAttempt
from samzapy.api.stream import SystemStreamPartition
from samzapy.errors import EnvironmentFailure, RetriableError, StaleEpoch, TaskMigrated

#: One row: values in the order of the target's columns.
Row = tuple[Any, ...] | list[Any]

#: A connection serves one sink, so one name is enough.
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
    """A table, its columns in the order of a row's values, and the key columns of an upsert (none: insert)."""

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
        """The clause that makes a row replace the row with the same key; empty without a key."""
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

        Locks and epochs already prevent wrong writes of a predecessor. This call keeps a predecessor that was stopped
        for good inside its transaction from blocking its successors. A database without sessions to end relies on its
        lock time-out.
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
        """A session has an `application_name`; a role may always end its own sessions."""
        session = f"samzapy {hashlib.sha256(name.encode()).hexdigest()[:32]}"
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
            " AND usename = current_user AND datname = current_database() AND pid <> pg_backend_pid()",
            (session,),
        )
        cursor.execute("SELECT set_config('application_name', %s, false)", (session,))

    def load(self, cursor: Any, target: Target, rows: Sequence[Row]) -> None:
        """Load by COPY, which is several times as fast as statements; for an upsert, through a temporary table."""
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
#: States of SQL that PostgreSQL's drivers do not raise as those classes, but as InternalError: a server that became read-only
#: (a failover made it the standby), a session that was ended after a time-out in or of its transaction.
_TRANSIENT_STATES = {"25006", "25P03", "25P04"}
#: SQLite raises OperationalError for nearly everything, also for a missing table.
_TRANSIENT_IN_SQLITE = ("locked", "busy", "disk I/O")


def is_database_error(cause: BaseException) -> bool:
    """Whether a driver raised it."""
    return "Error" in _names(cause)


def is_transient(cause: BaseException) -> bool:
    """Whether the same call may succeed on a new connection."""
    if _state(cause) in _TRANSIENT_STATES:
        return True
    if not _names(cause) & _TRANSIENT:
        return False
    in_sqlite = any(base.__module__ == "sqlite3" for base in type(cause).__mro__)
    return not in_sqlite or any(word in str(cause) for word in _TRANSIENT_IN_SQLITE)


def is_conflict(cause: BaseException) -> bool:
    """Whether another writer wrote the same at the same time: a unique constraint, or a catalog entry made twice."""
    return bool(_names(cause) & {"IntegrityError", "InternalError"})


def one_line(cause: BaseException) -> str:
    """The driver's message without its line breaks; the class if the message is empty."""
    return " ".join(str(cause).split()) or type(cause).__name__


def _state(cause: BaseException) -> str:
    """The error's SQLSTATE; empty if the driver does not say."""
    state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    return state if isinstance(state, str) else ""


def _names(cause: BaseException) -> set[str]:
    return {base.__name__ for base in type(cause).__mro__}


TABLE = "samzapy_offsets"

_CREATE = f"""CREATE TABLE IF NOT EXISTS {TABLE} (
    job TEXT NOT NULL, task TEXT NOT NULL, sink TEXT NOT NULL, ssp TEXT NOT NULL,
    next_offset BIGINT, epoch BIGINT NOT NULL, commit_number BIGINT NOT NULL,
    PRIMARY KEY (job, task, sink, ssp))"""
_OURS = "job = ? AND task = ? AND sink = ?"


class SinkOffsets:
    """The rows of one task's sink. `claim` first; each `advance` is part of the caller's transaction."""

    def __init__(self, database: Database, attempt: TaskAttempt, sink: str) -> None:
        self.commit_number = 0
        self._database = database
        self._attempt = attempt
        self._sink = sink
        self._key = (attempt.job, attempt.task, sink)

    def create(self, connection: Connection) -> None:
        """Create the table if it does not exist; the transaction is left open."""
        with closing(connection.cursor()) as cursor:
            if _exists(connection, cursor):
                return
            try:
                cursor.execute(_CREATE)
                connection.commit()
            except Exception as failure:
                # If several attempts create the table at the same time, all but one fail, with various errors; then it
                # exists.
                if not is_database_error(failure) or is_transient(failure):
                    raise
                connection.rollback()
                if not _exists(connection, cursor):
                    raise

    def claim(self, cursor: Any) -> dict[SystemStreamPartition, int]:
        """Lock every earlier attempt out, then read the offsets. Raises StaleEpoch if the sink has seen a greater
        epoch: a newer attempt's, or an earlier attempt's that only the sink has."""
        epoch = self._attempt.epoch
        newest = max((seen for _, _, seen, _ in self._rows(cursor)), default=0)
        if newest > epoch:
            raise StaleEpoch(self._newer(newest), newest)
        self._database.end_predecessor(cursor, "/".join(self._key))
        self._execute(cursor, f"UPDATE {TABLE} SET epoch = ? WHERE {_OURS} AND epoch <= ?", epoch, *self._key, epoch)
        rows = self._rows(cursor)
        self._refuse_if_newer(rows)
        self.commit_number = max((number for *_, number in rows), default=0) + 1
        self._execute(cursor, f"UPDATE {TABLE} SET commit_number = ? WHERE {_OURS}", self.commit_number, *self._key)
        known = {ssp for ssp, *_ in rows}
        for ssp in sorted(str(ssp) for ssp in self._attempt.ssps):
            if ssp not in known:
                values = (*self._key, ssp, None, epoch, self.commit_number)
                self._execute(cursor, f"INSERT INTO {TABLE} VALUES (?, ?, ?, ?, ?, ?, ?)", *values)
        return {SystemStreamPartition.parse(ssp): offset for ssp, offset, *_ in rows if offset is not None}

    def advance(self, cursor: Any, offsets: Mapping[SystemStreamPartition, int]) -> None:
        """Set the offsets and the next commit number. Raises TaskMigrated, RetriableError or EnvironmentFailure if
        another writer has changed the rows."""
        number, epoch = self.commit_number, self._attempt.epoch
        for ssp in sorted(offsets):
            self._execute(
                cursor,
                f"UPDATE {TABLE} SET next_offset = ?, commit_number = ?"
                f" WHERE {_OURS} AND ssp = ? AND epoch = ? AND commit_number = ?",
                *(offsets[ssp], number + 1, *self._key, str(ssp), epoch, number),
            )
            if cursor.rowcount != 1:
                self._explain(self._rows(cursor), str(ssp))
        self.commit_number = number + 1

    def _rows(self, cursor: Any) -> list[tuple[str, int | None, int, int]]:
        columns = "ssp, next_offset, epoch, commit_number"
        self._execute(cursor, f"SELECT {columns} FROM {TABLE} WHERE {_OURS}", *self._key)
        return [tuple(row) for row in cursor.fetchall()]

    def _refuse_if_newer(self, rows: list[tuple[str, int | None, int, int]]) -> None:
        newest = max((epoch for _, _, epoch, _ in rows), default=0)
        if newest > self._attempt.epoch:
            raise TaskMigrated(self._newer(newest))

    def _newer(self, newest: int) -> str:
        return (
            f"{self._attempt}: a newer attempt (epoch {newest}) owns the sink '{self._sink}', "
            f"this one has epoch {self._attempt.epoch}; nothing was written"
        )

    def _explain(self, rows: list[tuple[str, int | None, int, int]], ssp: str) -> None:
        self._refuse_if_newer(rows)
        where = f"{self._attempt}: sink '{self._sink}', {ssp}"
        for name, _, epoch, number in rows:
            if name == ssp:
                raise RetriableError(
                    f"{where}: {TABLE} has epoch {epoch} and commit number {number}, expected {self._attempt.epoch} "
                    f"and {self.commit_number}: an earlier transaction of this attempt was committed late"
                )
        raise EnvironmentFailure(f"{where}: the row has been deleted from {TABLE}; nothing was written")

    def _execute(self, cursor: Any, statement: str, *values: Any) -> None:
        cursor.execute(statement.replace("?", self._database.placeholder), values)


def _exists(connection: Connection, cursor: Any) -> bool:
    """Whether the table is there; if not, the transaction is undone."""
    try:
        cursor.execute(f"SELECT 1 FROM {TABLE} WHERE 1 = 0")
    except Exception as missing:
        if not is_database_error(missing) or is_transient(missing):
            raise
        connection.rollback()
        return False
    return True
