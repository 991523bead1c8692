"""The streams, transactions and record headers of a log, and its cleaning by `cleanup.policy`.

Functions run inside the caller's read or write, unless they say otherwise. A cleaning runs while others read and write:
a read, which blocks no writer, finds the records that later ones replace; they stay replaced. They are deleted some
thousands at a time, each time in a separate transaction, so that a commit waits for milliseconds. Later records fill
the free pages of the file.
"""

from __future__ import annotations

import json
import logging
import re
import sqlite3
import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import Any, NamedTuple
from uuid import uuid4

from samzapy.api.envelope import Headers
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import StreamSpec
from samzapy.errors import (
    ConfigError,
    ConfigProblem,
    ProducerFenced,
    SamzapyError,
    UnknownPartition,
    UnknownStream,
    raise_if_any,
)
from samzapy.system.local.database import Database, Log

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_POLICIES = frozenset({"delete", "compact", "compact,delete", "delete,compact"})

#: Kafka's defaults, except for `retention.ms`: by default an embedded log keeps everything.
DEFAULTS = {
    "cleanup.policy": "delete",
    "delete.retention.ms": "86400000",
    "max.message.bytes": "1000012",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "retention.ms": "-1",
}

#: With fewer new records a log is not cleaned automatically: cleaning reads the whole log.
LEAST_DIRTY = 50_000


@dataclass(frozen=True, kw_only=True)
class TopicSettings:
    """The settings of a stream; `config` has all of them, as text."""

    config: Mapping[str, str]
    max_message_bytes: int
    compacted: bool
    expires: bool
    retention_ms: int
    delete_retention_ms: int
    min_compaction_lag_ms: int
    dirty_ratio: float

    def needs_cleaning(self, dirty: int, total: int) -> bool:
        """Whether a log with `dirty` records since the last cleaning, of `total` now, should be cleaned again."""
        return (self.compacted or self.expires) and dirty >= LEAST_DIRTY and dirty >= total * self.dirty_ratio


class Topic(NamedTuple):
    """A stream that exists. Each stream that is created gets a new `stream_id`. `slots`: of its partitions, by
    number."""

    name: str
    stream_id: str
    slots: tuple[int, ...]
    settings: TopicSettings

    def slot(self, ssp: SystemStreamPartition) -> int:
        """The partition's slot. Raises UnknownPartition."""
        if not 0 <= ssp.partition < len(self.slots):
            raise UnknownPartition(ssp.system, ssp.stream, ssp.partition, len(self.slots))
        return self.slots[ssp.partition]


def checked(spec: StreamSpec) -> TopicSettings:
    """The settings of a stream to create. Raises ConfigError with every problem."""
    problems = []
    if not _NAME.fullmatch(spec.stream) or spec.stream in {".", ".."}:
        problems.append(ConfigProblem("stream", spec.stream, "a name is 1 to 249 of A-Z a-z 0-9 . _ -"))
    if spec.partitions < 1:
        problems.append(ConfigProblem(f"{spec.stream}: partitions", str(spec.partitions), "expected an integer >= 1"))
    config = {**DEFAULTS, **spec.config}
    values = {key: _number(spec.stream, key, config[key], problems) for key in DEFAULTS if key != "cleanup.policy"}
    policy = config["cleanup.policy"].replace(" ", "")
    if policy not in _POLICIES:
        problem = ConfigProblem(f"{spec.stream}: cleanup.policy", policy, "delete, compact or compact,delete")
        problems.append(problem)
    raise_if_any(problems)
    return TopicSettings(
        config=config,
        max_message_bytes=int(values["max.message.bytes"]),
        compacted="compact" in policy,
        expires="delete" in policy and values["retention.ms"] >= 0,
        retention_ms=int(values["retention.ms"]),
        delete_retention_ms=int(values["delete.retention.ms"]),
        min_compaction_lag_ms=int(values["min.compaction.lag.ms"]),
        dirty_ratio=values["min.cleanable.dirty.ratio"],
    )


@lru_cache(maxsize=256)
def _settings(config: str) -> TopicSettings:
    """The settings of a stream, as they are in the log."""
    return checked(StreamSpec("settings", 1, json.loads(config)))


def _number(stream: str, key: str, text: str, problems: list[ConfigProblem]) -> float:
    least = -1 if key == "retention.ms" else 0
    fraction = key.endswith(".ratio")
    try:
        value = float(text) if fraction else int(text)
        if value >= least and not (fraction and value > 1):
            return value
    except ValueError:
        pass
    allowed = "a number from 0 to 1" if fraction else f"an integer >= {least}"
    problems.append(ConfigProblem(f"{stream}: {key}", text, f"expected {allowed}"))
    return 0


def create_stream(database: Database, spec: StreamSpec) -> bool:
    """Create a stream, in a write of its own; False if there is one of the name. Raises ConfigError for a bad spec."""
    checked(spec)
    with database.write():
        if database.execute("SELECT 1 FROM streams WHERE name = ?", (spec.stream,)).fetchone():
            return False
        row = database.execute(
            "INSERT INTO streams (name, stream_id, partitions, config) VALUES (?, ?, ?, ?)",
            (spec.stream, str(uuid4()), spec.partitions, json.dumps(dict(spec.config))),
        ).lastrowid
        numbers = ((row, number) for number in range(spec.partitions))
        database.executemany("INSERT INTO partitions (stream, number) VALUES (?, ?)", numbers)
    return True


def find_stream(database: Database, stream: str) -> Topic | None:
    """The stream, by a read of its own; None if there is none."""
    with database.read():
        return stream_of(database, stream)


def stream_of(database: Database, stream: str) -> Topic | None:
    """The stream; None if there is none."""
    row = database.execute("SELECT id, stream_id, config FROM streams WHERE name = ?", (stream,)).fetchone()
    if row is None:
        return None
    number, stream_id, config = row
    slots = database.execute("SELECT slot FROM partitions WHERE stream = ? ORDER BY number", (number,)).fetchall()
    return Topic(stream, stream_id, tuple(slot for (slot,) in slots), _settings(config))


def grow_stream(database: Database, topic: Topic, partitions: int) -> None:
    """Add the partitions that it lacks, in a write of its own. Raises ConfigError if it has more."""
    before = len(topic.slots)
    if partitions < before:
        allowed = f"cannot shrink: it has {before}"
        raise ConfigError.of(f"{topic.name}: partitions", str(partitions), allowed)
    with database.write():
        (row,) = database.execute("SELECT id FROM streams WHERE stream_id = ?", (topic.stream_id,)).fetchone()
        database.execute("UPDATE streams SET partitions = ? WHERE id = ?", (partitions, row))
        numbers = ((row, number) for number in range(before, partitions))
        database.executemany("INSERT INTO partitions (stream, number) VALUES (?, ?)", numbers)


def stream_names(database: Database) -> list[str]:
    """All names, sorted."""
    with database.read():
        return [name for (name,) in database.execute("SELECT name FROM streams ORDER BY name").fetchall()]


def delete_stream(database: Database, system: str, stream: str) -> None:
    """Delete a stream with everything in it, in a write of its own. Raises UnknownStream."""
    with database.write():
        row = database.execute("SELECT id FROM streams WHERE name = ?", (stream,)).fetchone()
        if row is None:
            raise UnknownStream(system, stream)
        slots = database.execute("SELECT slot FROM partitions WHERE stream = ?", row).fetchall()
        for table in ("records", "open_ranges", "cleanings", "partitions"):
            database.executemany(f"DELETE FROM {table} WHERE slot = ?", slots)  # noqa: S608 (our own names)
        database.execute("DELETE FROM streams WHERE id = ?", row)


_BOUNDS = (
    "SELECT oldest, upcoming, coalesce((SELECT min(first) FROM open_ranges WHERE slot = :slot), upcoming) "
    "FROM partitions WHERE slot = :slot"
)
_FIRST_NOT_OLDER = "SELECT position FROM records WHERE slot = :slot AND timestamp >= :time ORDER BY position LIMIT 1"


class Bounds(NamedTuple):
    """The ends of a partition; below `stable` every record is decided."""

    oldest: int
    upcoming: int
    stable: int


def bounds(database: Database, slot: int) -> Bounds | None:
    """The bounds now; None if the stream is deleted."""
    row = database.execute(_BOUNDS, {"slot": slot}).fetchone()
    return None if row is None else Bounds(*row)


def first_not_older(database: Database, slot: int, time_ms: int) -> int | None:
    """The first offset with a record that is not older than `time_ms`; None if there is none."""
    row = database.execute(_FIRST_NOT_OLDER, {"slot": slot, "time": time_ms}).fetchone()
    return None if row is None else int(row[0])


def truncate(database: Database, slot: int, before: int) -> int:
    """Drop everything below `before`; returns the number of dropped records."""
    database.execute("UPDATE partitions SET oldest = ? WHERE slot = ?", (before, slot))
    return database.execute("DELETE FROM records WHERE slot = ? AND position < ?", (slot, before)).rowcount


# Transactions

_OVERDUE = "SELECT transactional_id FROM producers WHERE deadline_ms <= ?"
_MARKERS = (
    "UPDATE partitions SET upcoming = upcoming + 1 "
    "WHERE slot IN (SELECT slot FROM open_ranges WHERE transactional_id = ?)"
)


class ProducerIdentity(NamedTuple):
    """The owner of transactions: the id stays the same, the epoch grows with every take-over."""

    transactional_id: str
    epoch: int
    timeout_ms: int


def take_over(database: Database, transactional_id: str, timeout_ms: int) -> ProducerIdentity:
    """Abort the open transaction of the id and start a new epoch."""
    abort(database, transactional_id)
    database.execute(
        "INSERT INTO producers (transactional_id, epoch) VALUES (?, 1) "
        "ON CONFLICT (transactional_id) DO UPDATE SET epoch = epoch + 1, deadline_ms = NULL",
        (transactional_id,),
    )
    (epoch,) = database.execute(
        "SELECT epoch FROM producers WHERE transactional_id = ?", (transactional_id,)
    ).fetchone()
    return ProducerIdentity(transactional_id, epoch, timeout_ms)


def check_owner(database: Database, owner: ProducerIdentity) -> None:
    """Raise ProducerFenced unless the owner's epoch is the current one."""
    row = database.execute(
        "SELECT epoch FROM producers WHERE transactional_id = ?", (owner.transactional_id,)
    ).fetchone()
    if row is None or row[0] != owner.epoch:
        now = "unknown" if row is None else row[0]
        raise ProducerFenced(
            f"producer '{owner.transactional_id}' of epoch {owner.epoch} was fenced: the epoch is {now}"
        )


def note_write(database: Database, owner: ProducerIdentity, now_ms: int) -> None:
    """Start the time-out of the owner's transaction, if this is its first write."""
    database.execute(
        "UPDATE producers SET deadline_ms = ? WHERE transactional_id = ? AND deadline_ms IS NULL",
        (now_ms + owner.timeout_ms, owner.transactional_id),
    )


def end_overdue(database: Database, now_ms: int) -> None:
    """Abort the transactions that are past their time-out and fence their producers, as Kafka's coordinator does.

    Makes a separate write, or only a read if there is none.
    """
    with database.read():
        if not database.execute(_OVERDUE, (now_ms,)).fetchone():
            return
    with database.write():
        for (name,) in database.execute(_OVERDUE, (now_ms,)).fetchall():
            abort(database, name)
            database.execute("UPDATE producers SET epoch = epoch + 1 WHERE transactional_id = ?", (name,))


def abort(database: Database, transactional_id: str) -> None:
    """Remove the records of the open transaction; their offsets stay holes."""
    ranges = database.execute(
        "SELECT slot, first, end FROM open_ranges WHERE transactional_id = ?", (transactional_id,)
    ).fetchall()
    database.executemany("DELETE FROM records WHERE slot = ? AND position >= ? AND position < ?", ranges)
    commit(database, transactional_id)


def commit(database: Database, transactional_id: str) -> None:
    """End the open transaction: its records become visible.

    As in Kafka, the end of a transaction takes an offset in each of its partitions.
    """
    database.execute(_MARKERS, (transactional_id,))
    database.execute("DELETE FROM open_ranges WHERE transactional_id = ?", (transactional_id,))
    database.execute("UPDATE producers SET deadline_ms = NULL WHERE transactional_id = ?", (transactional_id,))


# Record headers: for each the name's length, the name, the value's length, the value (both lengths u32 LE). A null
# value has the length 2**32 - 1 and nothing after it.

_LENGTH = Struct("<I")
_pack, _unpack = _LENGTH.pack, _LENGTH.unpack_from
_NULL = 2**32 - 1


def encode_headers(headers: Headers) -> bytes:
    """The headers in order; names may repeat."""
    parts: list[bytes] = []
    for name, value in headers:
        text = name.encode()
        parts += (_pack(len(text)), text, _pack(_NULL if value is None else len(value)), value or b"")
    return b"".join(parts)


def decode_headers(data: bytes) -> Headers:
    """The inverse of `encode_headers`."""
    result: list[tuple[str, bytes | None]] = []
    at, end = 0, len(data)
    while at < end:
        start = at + 4
        at = start + _unpack(data, at)[0]
        name = data[start:at].decode()
        length = _unpack(data, at)[0]
        at += 4
        size = 0 if length == _NULL else length
        result.append((name, None if length == _NULL else data[at : at + size]))
        at += size
    return result


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
