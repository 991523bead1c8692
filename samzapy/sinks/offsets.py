"""The table `samzapy_offsets`: from where on a sink lacks each partition's inputs, and which attempt may write.

    job, task, sink, ssp    one partition of one task and one sink
    next_offset             the first input without rows in the sink; null until the first commit
    epoch                   the newest attempt that has opened the sink
    commit_number           counts the transactions of the task's sink; with `task` it identifies a batch of rows

Each commit begins with an update of these rows that must find the epoch and the commit number it left there. It takes
the rows' locks, so no two transactions of a task interleave; and an attempt (or a transaction still on its way from a
connection that was given up) that has been overtaken finds others and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from samzapy.api.sink import TaskAttempt
from samzapy.api.stream import SystemStreamPartition
from samzapy.errors import EnvironmentFailure, RetriableError, StaleEpoch, TaskMigrated
from samzapy.sinks.database import Connection, Database, is_database_error, is_transient

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
                # Of attempts that make it at the same time all but one fail, in several ways; it is there for all.
                if not is_database_error(failure) or is_transient(failure):
                    raise
                connection.rollback()
                if not _exists(connection, cursor):
                    raise

    def claim(self, cursor: Any) -> dict[SystemStreamPartition, int]:
        """Lock every earlier attempt out, then read the offsets. Raises StaleEpoch if the sink has seen a greater epoch:
        that of a newer attempt, or of an earlier one with an epoch that only the sink has."""
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
