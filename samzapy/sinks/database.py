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
    stream_id               the id of the stream that `next_offset` belongs to; null if unknown. The sink adds this
                            column to a table of an earlier version; without the right to do so, it keeps no ids

Each commit begins with an update of these rows that must find the epoch and the commit number of the commit before. The
update takes the rows' locks, so no two transactions of a task interleave. A superseded attempt, or a late transaction
of an abandoned connection, finds other numbers and changes nothing.
"""

from __future__ import annotations

import hashlib
import logging
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

from samzapy.api.collector import TaskAttempt
from samzapy.api.stream import SystemStreamPartition
from samzapy.errors import EnvironmentFailure, RetriableError, StaleEpoch, TaskMigrated

logger = logging.getLogger(__name__)

#: A DB-API 2 connection; it must not be in autocommit mode.
Connection = Any
#: One row: values in the order of the target's columns.
Row = tuple[Any, ...] | list[Any]

#: A connection serves one sink, so one name is enough.
_STAGE = "samzapy_stage"
#: PostgreSQL's SQLSTATE for an upsert that would write one row twice.
_ONE_ROW_TWICE = "21000"
_PLACEHOLDERS = {"qmark": "?", "format": "%s", "pyformat": "%s"}


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
        """Insert or upsert `rows` in order. Of rows with the same key in the table, the last one stays."""
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
            self._upsert(cursor, target, f"{target.into} SELECT {columns} FROM {_STAGE}")

    def _upsert(self, cursor: Any, target: Target, insert: str) -> None:
        cursor.execute(f"SAVEPOINT {_STAGE}")
        try:
            cursor.execute(f"{insert}{target.on_conflict}")
        except Exception as cause:
            if _state(cause) != _ONE_ROW_TWICE:
                raise
            # Keys that differ in Python may be equal in the table, if its text type ignores case or trailing blanks.
            # One statement cannot write such rows together, so each row gets its own.
            cursor.execute(f"ROLLBACK TO SAVEPOINT {_STAGE}")
            cursor.execute(f"SELECT ctid FROM {_STAGE} ORDER BY ctid")
            item = insert.replace("%", "%%") + " WHERE ctid = %s::tid" + target.on_conflict.replace("%", "%%")
            cursor.executemany(item, cursor.fetchall())


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
#: States of SQL that PostgreSQL's drivers do not raise as those classes, but as InternalError: a server that became
#: read-only (a failover made it the standby), a session that was ended after a time-out in or of its transaction.
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
    next_offset BIGINT, epoch BIGINT NOT NULL, commit_number BIGINT NOT NULL, stream_id TEXT,
    PRIMARY KEY (job, task, sink, ssp))"""
_ADD_IDS = f"ALTER TABLE {TABLE} ADD COLUMN stream_id TEXT"
_OURS = "job = ? AND task = ? AND sink = ?"


class _Kept(NamedTuple):
    """A row of the table."""

    ssp: str
    next_offset: int | None
    epoch: int
    commit_number: int
    stream_id: str | None = None


class SinkOffsets:
    """The rows of one task's sink. Call `create`, then `claim`; each `advance` is part of the caller's transaction."""

    def __init__(self, database: Database, attempt: TaskAttempt, sink: str) -> None:
        self.commit_number = 0
        self._keeps_ids = True
        self.database = database
        self._attempt = attempt
        self._sink = sink
        self._key = (attempt.job, attempt.task, sink)

    def create(self, connection: Connection) -> None:
        """Create the table if it does not exist, and the column that a table of an earlier version lacks. The
        transaction is left open."""
        with closing(connection.cursor()) as cursor:
            if not _columns(connection, cursor):
                failure = _change(connection, cursor, _CREATE, "epoch")
                if failure is not None:
                    raise failure
            # The attempt that has just created the table may run an earlier version.
            if "stream_id" in _columns(connection, cursor):
                return
            # Reading the columns has locked the table: another attempt that adds the column would wait for that lock.
            connection.rollback()
            failure = _change(connection, cursor, _ADD_IDS, "stream_id")
            if failure is not None:
                self._keeps_ids = False
                logger.warning(
                    "%s: sink '%s': %s has no column stream_id, and it cannot be added (%s): an "
                    "input that is deleted and "
                    "created again is taken for the earlier one",
                    self._attempt,
                    self._sink,
                    TABLE,
                    one_line(failure),
                )

    def claim(self, cursor: Any) -> dict[SystemStreamPartition, int]:
        """Lock out every earlier attempt, then read the offsets, without those of earlier streams of the same names.
        Raises StaleEpoch if the sink has a greater epoch: that of a newer attempt, or that of an earlier one which only
        the sink has recorded."""
        epoch = self._attempt.epoch
        newest = max((row.epoch for row in self._rows(cursor)), default=0)
        if newest > epoch:
            raise StaleEpoch(self._newer(newest), newest)
        self.database.end_predecessor(cursor, "/".join(self._key))
        self._execute(cursor, f"UPDATE {TABLE} SET epoch = ? WHERE {_OURS} AND epoch <= ?", epoch, *self._key, epoch)
        rows = self._rows(cursor)
        self._refuse_if_newer(rows)
        self.commit_number = max((row.commit_number for row in rows), default=0) + 1
        self._execute(cursor, f"UPDATE {TABLE} SET commit_number = ? WHERE {_OURS}", self.commit_number, *self._key)
        known = {row.ssp for row in rows}
        for ssp in sorted(str(ssp) for ssp in self._attempt.ssps):
            if ssp not in known:
                values = (*self._key, ssp, epoch, self.commit_number)
                columns = "job, task, sink, ssp, epoch, commit_number"
                self._execute(cursor, f"INSERT INTO {TABLE} ({columns}) VALUES (?, ?, ?, ?, ?, ?)", *values)
        offsets = {SystemStreamPartition.parse(row.ssp): (row.next_offset, row.stream_id) for row in rows}
        return {
            ssp: offset
            for ssp, (offset, stream_id) in offsets.items()
            if offset is not None and not self._is_of_earlier_stream(ssp, offset, stream_id)
        }

    def _is_of_earlier_stream(self, ssp: SystemStreamPartition, offset: int, stream_id: str | None) -> bool:
        now = self._attempt.input_ids.get(ssp.system_stream)
        if stream_id is None or now is None or stream_id == now:
            return False
        logger.info(
            "%s: sink '%s': %s@%d is of an earlier stream of that name (id %s), which was deleted "
            "and created again (id %s)",
            *(self._attempt, self._sink, ssp, offset, stream_id, now),
        )
        return True

    def advance(self, cursor: Any, offsets: Mapping[SystemStreamPartition, int]) -> None:
        """Set the offsets and the next commit number. Raises TaskMigrated, RetriableError or EnvironmentFailure if
        another writer has changed the rows."""
        number, epoch, ids = self.commit_number, self._attempt.epoch, self._attempt.input_ids
        for ssp in sorted(offsets):
            of_stream = (ids.get(ssp.system_stream),) if self._keeps_ids else ()
            self._execute(
                cursor,
                f"UPDATE {TABLE} SET next_offset = ?, commit_number = ?{', stream_id = ?' if of_stream else ''}"
                f" WHERE {_OURS} AND ssp = ? AND epoch = ? AND commit_number = ?",
                *(offsets[ssp], number + 1, *of_stream, *self._key, str(ssp), epoch, number),
            )
            if cursor.rowcount != 1:
                self._explain(self._rows(cursor), str(ssp))
        self.commit_number = number + 1

    def _rows(self, cursor: Any) -> list[_Kept]:
        columns = "ssp, next_offset, epoch, commit_number" + (", stream_id" if self._keeps_ids else "")
        self._execute(cursor, f"SELECT {columns} FROM {TABLE} WHERE {_OURS}", *self._key)
        return [_Kept(*row) for row in cursor.fetchall()]

    def _refuse_if_newer(self, rows: list[_Kept]) -> None:
        newest = max((row.epoch for row in rows), default=0)
        if newest > self._attempt.epoch:
            raise TaskMigrated(self._newer(newest))

    def _newer(self, newest: int) -> str:
        return (
            f"{self._attempt}: a newer attempt (epoch {newest}) owns the sink '{self._sink}', "
            f"this one has epoch {self._attempt.epoch}; nothing was written"
        )

    def _explain(self, rows: list[_Kept], ssp: str) -> None:
        self._refuse_if_newer(rows)
        where = f"{self._attempt}: sink '{self._sink}', {ssp}"
        for row in rows:
            if row.ssp == ssp:
                raise RetriableError(
                    f"{where}: {TABLE} has epoch {row.epoch} and commit number "
                    f"{row.commit_number}, expected {self._attempt.epoch} "
                    f"and {self.commit_number}: an earlier transaction of this attempt was committed late"
                )
        raise EnvironmentFailure(f"{where}: the row has been deleted from {TABLE}; nothing was written")

    def _execute(self, cursor: Any, statement: str, *values: Any) -> None:
        cursor.execute(statement.replace("?", self.database.placeholder), values)


def _columns(connection: Connection, cursor: Any) -> set[str]:
    """The table's columns. If it does not exist: none, after a rollback."""
    try:
        cursor.execute(f"SELECT * FROM {TABLE} WHERE 1 = 0")
    except Exception as missing:
        if not is_database_error(missing) or is_transient(missing):
            raise
        connection.rollback()
        return set()
    return {column[0].lower() for column in cursor.description}


def _change(connection: Connection, cursor: Any, statement: str, column: str) -> Exception | None:
    """Execute a statement that gives the table this column; return the failure that has prevented it, None for none."""
    try:
        cursor.execute(statement)
        connection.commit()
    except Exception as failure:
        # If several attempts do this at the same time, all but one fail with various errors, and the column exists.
        if not is_database_error(failure) or is_transient(failure):
            raise
        connection.rollback()
        return None if column in _columns(connection, cursor) else failure
    return None
