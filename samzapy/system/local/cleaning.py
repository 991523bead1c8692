"""Compaction and retention of one partition, in one write each."""

from __future__ import annotations

from samzapy.system.embedded.topic import Topic
from samzapy.system.local.catalog import bounds, first_not_older, truncate
from samzapy.system.local.database import Database


def is_due(database: Database, topic: Topic, slot: int) -> bool:
    """Whether the partition has grown enough since it was last cleaned."""
    row = database.execute("SELECT dirty_records, clean_records FROM partitions WHERE slot = ?", (slot,)).fetchone()
    return row is not None and topic.needs_cleaning(row[0], row[0] + row[1])


def clean(database: Database, topic: Topic, slot: int, now_ms: int) -> int:
    """Drop what the topic's policy lets go; returns how many records that was."""
    with database.write():
        found = bounds(database, slot)
        if found is None:
            return 0
        oldest, upcoming, stable = found
        removed = 0
        if topic.expires:
            kept = first_not_older(database, slot, now_ms - topic.retention_ms)
            removed += truncate(database, slot, max(oldest, min(upcoming if kept is None else kept, stable)))
        if topic.compacted:
            removed += _compact(database, topic, slot, stable, now_ms)
        (left,) = database.execute("SELECT count(*) FROM records WHERE slot = ?", (slot,)).fetchone()
        database.execute(
            "UPDATE partitions SET clean_records = ?, dirty_records = 0 WHERE slot = ?",
            (left, slot),
        )
        return removed


def _compact(database: Database, topic: Topic, slot: int, until: int, now_ms: int) -> int:
    if topic.min_compaction_lag_ms > 0:
        young = first_not_older(database, slot, now_ms - topic.min_compaction_lag_ms + 1)
        until = until if young is None else min(until, young)
    removed = database.execute(
        "DELETE FROM records WHERE slot = :slot AND position < :until AND position NOT IN "
        "(SELECT max(position) FROM records WHERE slot = :slot AND position < :until GROUP BY key)",
        {"slot": slot, "until": until},
    ).rowcount
    horizon = _tombstone_horizon(database, slot, until, now_ms, topic.delete_retention_ms)
    return (
        removed
        + database.execute(
            "DELETE FROM records WHERE slot = ? AND position < ? AND value IS NULL", (slot, horizon)
        ).rowcount
    )


def _tombstone_horizon(database: Database, slot: int, until: int, now_ms: int, retention_ms: int) -> int:
    # A tombstone's own timestamp is its sender's. What counts is when a reader from the start could first have missed
    # what it deletes: the first compaction that covered it.
    database.execute("INSERT INTO cleanings (slot, until, time_ms) VALUES (?, ?, ?)", (slot, until, now_ms))
    (horizon,) = database.execute(
        "SELECT coalesce(max(until), 0) FROM cleanings WHERE slot = ? AND time_ms <= ?", (slot, now_ms - retention_ms)
    ).fetchone()
    database.execute("DELETE FROM cleanings WHERE slot = ? AND until < ?", (slot, horizon))
    return int(horizon)
