"""Times as databases keep them: as times, or, in SQLite, as text."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Any

import sqlalchemy as sa

from samzapy.clock import Clock
from samzapy.errors import EnvironmentFailure

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_TEXT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,9})?", re.ASCII)
_MICROSECOND = timedelta(microseconds=1)

#: Seconds since 1970 by the clock of the machine that dates the rows. SQLite has none but this machine's.
_CLOCKS = {
    "postgresql": "SELECT extract(epoch FROM clock_timestamp())",
    "mysql": "SELECT unix_timestamp(sysdate(6))",
    "mariadb": "SELECT unix_timestamp(sysdate(6))",
}


def micros(value: Any, where: str) -> int:
    """Microseconds since 1970 of a time as it was read; one without a time zone is UTC. Raises EnvironmentFailure, naming
    `where`, for what is no time."""
    found = value
    if isinstance(value, str) and _TEXT.fullmatch(value):
        # Finer fractions than Python's are cut off.
        found = datetime.fromisoformat(value[:26] if "." not in value else value[:26].ljust(26, "0"))
    if not isinstance(found, datetime):
        raise EnvironmentFailure(f"{where}: expected a time, as text 2026-01-31 12:00:00 in UTC, got {value!r:.80}")
    if found.tzinfo is None:
        found = found.replace(tzinfo=timezone.utc)
    return (found - _EPOCH) // _MICROSECOND


def bound(dialect: str, column: sa.ColumnElement[Any], time_us: int) -> sa.ColumnElement[Any]:
    """A time to compare `column` with; in SQLite the shortest text of it, which comes before the longer ones of the same
    time."""
    time = _EPOCH + time_us * _MICROSECOND
    if dialect == "sqlite":
        text = time.replace(tzinfo=None).isoformat(" ")
        return sa.literal(text.rstrip("0") if "." in text else text, sa.String())
    aware = getattr(column.type, "timezone", False)
    return sa.literal(time if aware else time.replace(tzinfo=None), column.type)


def now_s(connection: sa.Connection, clock: Clock) -> float:
    """Seconds since 1970 by the database's clock, or by `clock` where the database is this machine's, or unknown."""
    statement = _CLOCKS.get(connection.dialect.name)
    if statement is None:
        return clock.wall_ms() / 1000
    return float(connection.scalar(sa.text(statement)) or 0)
