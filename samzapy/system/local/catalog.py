"""Creates, finds and deletes the streams of the file, and reads their partitions by slot."""

from __future__ import annotations

import json
from typing import NamedTuple
from uuid import uuid4

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import StreamSpec
from samzapy.errors import UnknownPartition, UnknownStream
from samzapy.system.embedded.topic import Topic, grown, topic
from samzapy.system.local.database import Database


class StreamEntry(NamedTuple):
    """A stream and the slots of its partitions, by number."""

    topic: Topic
    slots: tuple[int, ...]

    def slot(self, ssp: SystemStreamPartition) -> int:
        """The partition's slot. Raises UnknownPartition."""
        if not 0 <= ssp.partition < len(self.slots):
            raise UnknownPartition(ssp.system, ssp.stream, ssp.partition, len(self.slots))
        return self.slots[ssp.partition]


def create_stream(database: Database, spec: StreamSpec) -> bool:
    """Create a stream; False if there is one of the name. Raises ConfigError for a bad spec."""
    made = topic(spec, str(uuid4()))
    with database.write():
        if database.execute("SELECT 1 FROM streams WHERE name = ?", (spec.stream,)).fetchone():
            return False
        row = database.execute(
            "INSERT INTO streams (name, stream_id, partitions, config) VALUES (?, ?, ?, ?)",
            (made.name, made.stream_id, made.partitions, json.dumps(dict(spec.config))),
        ).lastrowid
        numbers = ((row, number) for number in range(made.partitions))
        database.executemany("INSERT INTO partitions (stream, number) VALUES (?, ?)", numbers)
    return True


def find_stream(database: Database, stream: str) -> StreamEntry | None:
    """The stream; None if there is none."""
    with database.read():
        row = database.execute(
            "SELECT id, stream_id, partitions, config FROM streams WHERE name = ?", (stream,)
        ).fetchone()
        if row is None:
            return None
        number, stream_id, partitions, config = row
        found = database.execute("SELECT slot FROM partitions WHERE stream = ? ORDER BY number", (number,)).fetchall()
    spec = StreamSpec(stream, partitions, json.loads(config))
    return StreamEntry(topic(spec, stream_id), tuple(slot for (slot,) in found))


def grow_stream(database: Database, found: StreamEntry, partitions: int) -> None:
    """Add the partitions it lacks. Raises ConfigError if it has more."""
    made = grown(found.topic, partitions)
    with database.write():
        (row,) = database.execute("SELECT id FROM streams WHERE stream_id = ?", (made.stream_id,)).fetchone()
        database.execute("UPDATE streams SET partitions = ? WHERE id = ?", (partitions, row))
        numbers = ((row, number) for number in range(len(found.slots), partitions))
        database.executemany("INSERT INTO partitions (stream, number) VALUES (?, ?)", numbers)


def stream_names(database: Database) -> list[str]:
    """All names, sorted."""
    with database.read():
        return [name for (name,) in database.execute("SELECT name FROM streams ORDER BY name").fetchall()]


def delete_stream(database: Database, system: str, stream: str) -> None:
    """Delete a stream with everything in it. Raises UnknownStream."""
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
