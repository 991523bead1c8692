"""Cleans the streams of a log by their `cleanup.policy`, while others read and write.

1. A read finds the records that later ones replace. It blocks no writer, and its answer stays right: a record that is
   replaced stays replaced.
2. They are deleted some thousands at a time, each time in a separate transaction, so that a commit waits for
   milliseconds. Later records fill the free pages of the file.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from contextlib import closing
from typing import Any

from samzapy.errors import SamzapyError
from samzapy.system.local.database import Database, Log
from samzapy.system.local.streams import LEAST_DIRTY, TopicSettings, bounds, first_not_older

logger = logging.getLogger(__name__)

#: Records that one transaction deletes.
_STEP = 5_000
#: Seconds that a closing producer waits for its cleaning; the next cleaning does the rest.
_PATIENCE_S = 60.0

_REPLACED = """
INSERT INTO temp.doomed SELECT position FROM records WHERE slot = :slot AND position < :until AND position NOT IN
(SELECT max(position) FROM records WHERE slot = :slot AND position < :until GROUP BY key)
"""
_TOMBSTONES = "INSERT INTO temp.doomed SELECT position FROM records WHERE slot = ? AND position < ? AND value IS NULL"
_EXPIRED = "INSERT INTO temp.doomed SELECT position FROM records WHERE slot = ? AND position < ?"
_UP_TO = "SELECT max(position) FROM (SELECT position FROM temp.doomed WHERE position > ? ORDER BY position LIMIT ?)"
_DELETE = (
    "DELETE FROM records WHERE slot = ? AND position IN "
    "(SELECT position FROM temp.doomed WHERE position > ? AND position <= ?)"
)


def is_due(database: Database, settings: TopicSettings, slot: int) -> bool:
    """Whether the partition has grown enough since it was last cleaned."""
    with database.read():
        row = database.execute("SELECT dirty_records, clean_records FROM partitions WHERE slot = ?", (slot,)).fetchone()
    return row is not None and settings.needs_cleaning(row[0], row[0] + row[1])


def clean(database: Database, settings: TopicSettings, slot: int, now_ms: int) -> int:
    """Drop the records that the topic's policy does not keep; returns their number."""
    with database.alone():
        with database.read():
            result = bounds(database, slot)
            row = database.execute("SELECT dirty_records FROM partitions WHERE slot = ?", (slot,)).fetchone()
            kept = first_not_older(database, slot, now_ms - settings.retention_ms) if settings.expires else None
        if result is None:
            return 0
        removed = 0
        if settings.expires:
            before = max(result.oldest, min(result.upcoming if kept is None else kept, result.stable))
            with database.write():
                database.execute("UPDATE partitions SET oldest = max(oldest, ?) WHERE slot = ?", (before, slot))
            removed += _drop(database, slot, _EXPIRED, (slot, before))
        if settings.compacted:
            removed += _compact(database, settings, slot, result.stable, now_ms)
        _count(database, slot, row[0])
        return removed


def _compact(database: Database, settings: TopicSettings, slot: int, until: int, now_ms: int) -> int:
    if settings.min_compaction_lag_ms > 0:
        with database.read():
            young = first_not_older(database, slot, now_ms - settings.min_compaction_lag_ms + 1)
        until = until if young is None else min(until, young)
    removed = _drop(database, slot, _REPLACED, {"slot": slot, "until": until})
    with database.write():
        horizon = _tombstone_horizon(database, slot, until, now_ms, settings.delete_retention_ms)
    return removed + _drop(database, slot, _TOMBSTONES, (slot, horizon))


def _tombstone_horizon(database: Database, slot: int, until: int, now_ms: int, retention_ms: int) -> int:
    # The timestamp of a tombstone is its sender's. `delete.retention.ms` counts from the first compaction that covered
    # it: from then on a reader from the start misses the deleted record.
    database.execute("INSERT INTO cleanings (slot, until, time_ms) VALUES (?, ?, ?)", (slot, until, now_ms))
    (horizon,) = database.execute(
        "SELECT coalesce(max(until), 0) FROM cleanings WHERE slot = ? AND time_ms <= ?", (slot, now_ms - retention_ms)
    ).fetchone()
    database.execute("DELETE FROM cleanings WHERE slot = ? AND until < ?", (slot, horizon))
    return int(horizon)


def _drop(database: Database, slot: int, choose: str, of: Any) -> int:
    """Delete the records that the statement `choose` puts into `temp.doomed`; returns their number."""
    database.execute("CREATE TEMP TABLE IF NOT EXISTS doomed (position INTEGER PRIMARY KEY)")
    database.execute("DELETE FROM temp.doomed")
    database.execute(choose, of)
    removed, last = 0, -1
    while (upper := database.execute(_UP_TO, (last, _STEP)).fetchone()[0]) is not None:
        with database.write():
            removed += database.execute(_DELETE, (slot, last, upper)).rowcount
        last = upper
    return removed


def _count(database: Database, slot: int, dirty: int) -> None:
    """Note a cleaning in which `dirty` records were new; more may have come since."""
    with database.read():
        (left,) = database.execute("SELECT count(*) FROM records WHERE slot = ?", (slot,)).fetchone()
    with database.write():
        database.execute(
            "UPDATE partitions SET clean_records = max(0, :left - max(0, dirty_records - :dirty)), "
            "dirty_records = max(0, dirty_records - :dirty) WHERE slot = :slot",
            {"left": left, "dirty": dirty, "slot": slot},
        )


class Cleaner:
    """Cleans the partitions that one writer fills as soon as they are due, in a thread and with a connection of its
    own.

    The thread begins with the first partition that may be due, and ends when there is nothing left to do. A failure is
    logged: a log that is not cleaned is larger, and nothing else. Used by the thread of the writer.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._written: dict[int, int] = {}
        self._pending: dict[int, TopicSettings] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def note(self, settings: TopicSettings, slot: int, records: int) -> None:
        """Note the number of records written to a partition."""
        if not (settings.compacted or settings.expires):
            return
        written = self._written[slot] = self._written.get(slot, 0) + records
        if written >= LEAST_DIRTY:
            self._written[slot] = 0
            self.request(settings, slot)

    def request(self, settings: TopicSettings, slot: int) -> None:
        """Clean the partition if it is due."""
        with self._lock:
            self._pending[slot] = settings
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="samzapy-cleaner", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Wait until everything is cleaned, a minute at most."""
        thread = self._thread
        if thread is not None:
            thread.join(_PATIENCE_S)

    def _run(self) -> None:
        try:
            database = self._log.open(create=False)
            if database is not None:
                with closing(database):
                    self._clean_all(database)
        except (SamzapyError, sqlite3.Error) as cause:
            logger.warning("%s: its logs are not cleaned for now: %s", self._log, cause)
            with self._lock:
                self._pending.clear()
                self._thread = None

    def _clean_all(self, database: Database) -> None:
        while True:
            with self._lock:
                if not self._pending:
                    self._thread = None
                    return
                slot, settings = self._pending.popitem()
            if is_due(database, settings, slot):
                clean(database, settings, slot, self._log.clock.wall_ms())
