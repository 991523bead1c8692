"""Connects to a database: holds one connection, translates its errors, reads its times.

A time is a time value or, in SQLite, text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc, pool

from samzapy.config.reading.properties import without_password
from samzapy.config.streams.systems import DatabaseConfig
from samzapy.errors import ConfigError, ConfigProblem, EnvironmentFailure, RetriableError, SamzapyError

#: SQLite raises OperationalError for nearly everything, also for a missing table.
_TRANSIENT_IN_SQLITE = ("locked", "busy", "disk I/O")


class Database:
    """Connects when first used, and again after a failure. Every statement is a separate transaction, so no transaction
    stays open between two polls. One thread, and only in the process that connected.
    """

    def __init__(self, config: DatabaseConfig) -> None:
        """Raises ConfigError for a bad URL, or for a driver that is not installed."""
        self.config = config
        self.shown = without_password(config.url)
        self._engine = _engine(config)
        self.dialect: str = self._engine.dialect.name
        self._connection: sa.Connection | None = None
        self._pid = os.getpid()
        self._closed = False

    def __str__(self) -> str:
        return f"system '{self.config.system}' ({self.shown})"

    @contextmanager
    def connected(self) -> Iterator[sa.Connection]:
        """The connection. After any failure it is closed. Raises RetriableError if a new connection may help,
        EnvironmentFailure for the rest."""
        if self._closed or os.getpid() != self._pid:
            raise EnvironmentFailure(f"{self}: closed, or opened by another process")
        try:
            if self._connection is None:
                self._connection = self._connect()
            yield self._connection
        except exc.SQLAlchemyError as cause:
            self._drop()
            raise self._translated(cause) from cause
        except SamzapyError:
            raise
        except BaseException:
            self._drop()
            raise

    def close(self) -> None:
        """Disconnect; closing twice is allowed."""
        self._closed = True
        self._drop()

    def _connect(self) -> sa.Connection:
        path = self._engine.url.database
        if self.dialect == "sqlite" and path and not path.startswith("file:") and not Path(path).exists():
            raise EnvironmentFailure(f"{self}: there is no such file")
        return self._engine.connect()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and os.getpid() == self._pid:
            with suppress(exc.SQLAlchemyError):
                connection.invalidate()
                connection.close()

    def _translated(self, cause: exc.SQLAlchemyError) -> SamzapyError:
        driver = getattr(cause, "orig", None)
        text = " ".join(str(driver or cause).split()) or type(cause).__name__
        kind = RetriableError if self._is_transient(cause, text) else EnvironmentFailure
        return kind(f"{self}: {without_password(text)}")

    def _is_transient(self, cause: exc.SQLAlchemyError, text: str) -> bool:
        if self.dialect == "sqlite":
            return any(word in text for word in _TRANSIENT_IN_SQLITE)
        lost = isinstance(cause, exc.DBAPIError) and cause.connection_invalidated
        return lost or isinstance(cause, (exc.OperationalError, exc.InterfaceError))


def _engine(config: DatabaseConfig) -> sa.Engine:
    key = f"systems.{config.system}.database.url"
    options: dict[str, Any] = {"poolclass": pool.NullPool, "isolation_level": "AUTOCOMMIT"}
    try:
        return sa.create_engine(config.url, **options)
    except (ImportError, exc.NoSuchModuleError) as cause:
        problem = f"needs a database driver that is not installed ({_line(cause)})"
    except (exc.ArgumentError, ValueError) as cause:
        problem = f"a URL like sqlite:///shop.db or postgresql+psycopg://user:password@host/shop ({_line(cause)})"
    raise ConfigError([ConfigProblem(key, without_password(config.url), problem)])


def _line(cause: Exception) -> str:
    return " ".join(without_password(str(cause)).split())


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_TEXT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,9})?", re.ASCII)
_MICROSECOND = timedelta(microseconds=1)


def micros(value: Any, where: str) -> int:
    """Microseconds since 1970 of a time that was read; without a time zone it is UTC. Raises EnvironmentFailure, naming
    `where`, for a value that is no time."""
    result = value
    if isinstance(value, str) and _TEXT.fullmatch(value):
        # Finer fractions than Python's are cut off.
        result = datetime.fromisoformat(value[:26] if "." not in value else value[:26].ljust(26, "0"))
    if not isinstance(result, datetime):
        raise EnvironmentFailure(f"{where}: expected a time, as text 2026-01-31 12:00:00 in UTC, got {value!r:.80}")
    if result.tzinfo is None:
        result = result.replace(tzinfo=timezone.utc)
    return (result - _EPOCH) // _MICROSECOND


def bound(dialect: str, column: sa.ColumnElement[Any], time_us: int) -> sa.ColumnElement[Any]:
    """A time to compare `column` with; in SQLite the shortest text of it, which comes before the longer ones of the
    same time."""
    time = _EPOCH + time_us * _MICROSECOND
    if dialect == "sqlite":
        text = time.replace(tzinfo=None).isoformat(" ")
        return sa.literal(text.rstrip("0") if "." in text else text, sa.String())
    aware = getattr(column.type, "timezone", False)
    return sa.literal(time if aware else time.replace(tzinfo=None), column.type)
