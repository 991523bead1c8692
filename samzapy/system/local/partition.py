"""What is asked of one partition, by its slot. Every function runs inside the caller's read or write."""

from __future__ import annotations

from typing import NamedTuple

from samzapy.system.local.database import Database

_BOUNDS = (
    "SELECT oldest, upcoming, coalesce((SELECT min(first) FROM open_ranges WHERE slot = :slot), upcoming) "
    "FROM partitions WHERE slot = :slot"
)
_FIRST_NOT_OLDER = "SELECT position FROM records WHERE slot = :slot AND timestamp >= :time ORDER BY position LIMIT 1"


class Bounds(NamedTuple):
    """Where a partition begins and ends; below `stable` every record is decided."""

    oldest: int
    upcoming: int
    stable: int


def bounds(database: Database, slot: int) -> Bounds | None:
    """The bounds now; None if the stream is deleted."""
    row = database.execute(_BOUNDS, {"slot": slot}).fetchone()
    return None if row is None else Bounds(*row)


def first_not_older(database: Database, slot: int, time_ms: int) -> int | None:
    """The first offset whose record is not older than `time_ms`; None if there is none."""
    row = database.execute(_FIRST_NOT_OLDER, {"slot": slot, "time": time_ms}).fetchone()
    return None if row is None else int(row[0])


def truncate(database: Database, slot: int, before: int) -> int:
    """Drop everything below `before`; returns how many records that was."""
    database.execute("UPDATE partitions SET oldest = ? WHERE slot = ?", (before, slot))
    return database.execute("DELETE FROM records WHERE slot = ? AND position < ?", (slot, before)).rowcount
