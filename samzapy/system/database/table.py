"""Connects to a database, finds a table in it, checks that it can be read with the settings of the job file, and makes
records of its rows.

1. The value is the row as a JSON object, column by column, written by orjson: times in ISO 8601, decimals as strings (a
   JSON number may lose digits), UUIDs as strings, bytes in base64, JSON columns unchanged. SQLite's times and decimals
   stay as they are stored.
2. The key is the value of its column as text (serde `string`; for integers also `json`), or unchanged bytes. Several
   columns are a JSON array. A NULL key means no key.
3. A time is a time value or, in SQLite, text.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import sqlalchemy as sa
from sqlalchemy import exc, pool

from samzapy.api.stream import SystemStreamPartition
from samzapy.config.reading.properties import without_password
from samzapy.config.streams.systems import DatabaseConfig, TableConfig
from samzapy.errors import (
    ConfigError,
    ConfigProblem,
    EnvironmentFailure,
    RetriableError,
    SamzapyError,
    SerdeError,
    UnknownPartition,
    UnknownStream,
    Unreachable,
    raise_if_any,
)

#: SQLite raises OperationalError for nearly everything, also for a missing table.
_TRANSIENT_IN_SQLITE = ("locked", "busy", "disk I/O")
#: What PostgreSQL and MySQL say of a login that they refuse.
_REFUSED_LOGIN = ("authentication", "denied", "does not exist", "pg_hba")


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
        """The connection. After any failure it is closed. Raises Unreachable if there is none,
        RetriableError if a new one may help, EnvironmentFailure for the rest."""
        if self._closed or os.getpid() != self._pid:
            raise EnvironmentFailure(f"{self}: closed, or opened by another process")
        try:
            if self._connection is None:
                self._connection = self._connect()
            yield self._connection
        except exc.SQLAlchemyError as cause:
            failure = self._translated(cause)
            self._drop()
            raise failure from cause
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
        line, is_transient = f"{self}: {without_password(text)}", self._is_transient(cause, text)
        if is_transient and self._connection is None and not any(word in text for word in _REFUSED_LOGIN):
            away = Unreachable(line)
            away.service = "the database"
            return away
        return RetriableError(line) if is_transient else EnvironmentFailure(line)

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
    raise ConfigError.of(key, without_password(config.url), problem)


def _line(cause: Exception) -> str:
    return " ".join(without_password(str(cause)).split())


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_TEXT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,9})?", re.ASCII)


def millis(value: Any, where: str) -> int:
    """Milliseconds since 1970 of a time that was read; without a time zone it is UTC. Raises EnvironmentFailure, naming
    `where`, for a value that is no time."""
    result = value
    if isinstance(value, str) and _TEXT.fullmatch(value):
        # Finer fractions than Python's are cut off.
        result = datetime.fromisoformat(value[:26] if "." not in value else value[:26].ljust(26, "0"))
    if not isinstance(result, datetime):
        raise EnvironmentFailure(f"{where}: expected a time, as text 2026-01-31 12:00:00 in UTC, got {value!r:.80}")
    if result.tzinfo is None:
        result = result.replace(tzinfo=timezone.utc)
    return (result - _EPOCH) // timedelta(milliseconds=1)


def bound(dialect: str, column: sa.ColumnElement[Any], time_ms: int) -> sa.ColumnElement[Any]:
    """A time to compare `column` with; in SQLite the shortest text of it, which comes before the longer ones of the
    same time."""
    time = _EPOCH + timedelta(milliseconds=time_ms)
    if dialect == "sqlite":
        text = time.replace(tzinfo=None).isoformat(" ")
        return sa.literal(text.rstrip("0") if "." in text else text, sa.String())
    aware = getattr(column.type, "timezone", False)
    return sa.literal(time if aware else time.replace(tzinfo=None), column.type)


Column = sa.Column[Any]
Row = Any

_UNIQUE_INTEGER = (
    "a column that grows with each new or changed row and is unique: an identity column, or a version that each change "
    "draws from a sequence"
)


@dataclass(frozen=True, kw_only=True)
class SourceTable:
    """The columns of a stream by their parts. `may_be_null`: the order column is declared nullable."""

    config: TableConfig
    where: str
    table: sa.Table
    order: Column
    key: tuple[Column, ...]
    columns: tuple[Column, ...]
    deleted: Column | None
    timestamp: Column | None
    may_be_null: bool

    def upcoming(self, connection: sa.Connection) -> int:
        """The offset after the table's last row."""
        greatest = connection.scalar(sa.select(sa.func.max(self.order)))
        return 0 if greatest is None else int(greatest) + 1


def find_table(database: Database, connection: sa.Connection, config: TableConfig) -> SourceTable:
    """The table of a stream. Raises EnvironmentFailure if it does not exist, ConfigError with every mismatch."""
    table = _reflect(database, connection, config.table)
    named = _Columns(table, config, database)
    order = named.order()
    key = named.some("key", config.key_columns) if config.key_columns else tuple(table.primary_key.columns)
    deleted = None if config.deleted_column is None else named.one("deleted.column", config.deleted_column)
    timestamp = None if config.timestamp_column is None else named.one("timestamp.column", config.timestamp_column)
    columns = named.some("columns", config.columns) or tuple(c for c in table.columns if c is not deleted)
    if not key:
        named.problem("key", None, f"required, since table {config.table} has no primary key")
    if timestamp is not None and not isinstance(timestamp.type, sa.DateTime):
        named.problem("timestamp.column", timestamp.name, f"a timestamp, this is {timestamp.type}")
    raise_if_any(named.problems)
    assert order is not None
    return SourceTable(
        config=config,
        where=f"{database.config.system}.{config.stream}",
        table=table,
        order=order,
        key=key,
        columns=columns,
        deleted=deleted,
        timestamp=timestamp,
        may_be_null=bool(order.nullable) and not order.primary_key,
    )


def sources_of(
    database: Database, connection: sa.Connection, ssps: Iterable[SystemStreamPartition]
) -> dict[str, SourceTable]:
    """By stream, the tables of the partitions. Raises UnknownStream, UnknownPartition, and as `find_table`."""
    tables: dict[str, TableConfig] = {}
    for ssp in ssps:
        table = database.config.tables.get(ssp.stream)
        if table is None:
            raise UnknownStream(ssp.system, ssp.stream, database.shown)
        if not 0 <= ssp.partition < table.partitions:
            raise UnknownPartition(ssp.system, ssp.stream, ssp.partition, table.partitions)
        tables[ssp.stream] = table
    return {stream: find_table(database, connection, table) for stream, table in tables.items()}


class _Columns:
    """Finds columns by their names in the job file, and collects the problems."""

    def __init__(self, table: sa.Table, config: TableConfig, database: Database) -> None:
        self.problems: list[ConfigProblem] = []
        self._table = table
        self._config = config
        self._shown = database.shown

    def problem(self, leaf: str, value: str | None, message: str) -> None:
        self.problems.append(ConfigProblem(f"{self._config.prefix}{leaf}", value, message))

    def one(self, leaf: str, name: str) -> Column | None:
        column = self._table.columns.get(name)
        if column is None:
            known = ", ".join(self._table.columns.keys())
            self.problem(leaf, name, f"a column of table {self._config.table} in {self._shown}: {known}")
        return column

    def some(self, leaf: str, names: Iterable[str]) -> tuple[Column, ...]:
        return tuple(column for name in names if (column := self.one(leaf, name)) is not None)

    def order(self) -> Column | None:
        """The order column; a problem unless it is a unique integer."""
        order = self.one("order.by", self._config.order_by)
        if order is None:
            return None
        if isinstance(order.type, sa.DateTime):
            message = f"rows can share a time; name {_UNIQUE_INTEGER}"
            self.problem("order.by", order.name, message)
        elif not isinstance(order.type, sa.Integer):
            self.problem("order.by", order.name, f"an integer, {_UNIQUE_INTEGER}; this is {order.type}")
        elif not self._is_unique(order.name):
            message = "an integer must be unique: the primary key, or with a unique index of its own"
            self.problem("order.by", order.name, message)
        return order

    def _is_unique(self, name: str) -> bool:
        table = self._table
        sets = [{column.name for column in table.primary_key.columns}]
        sets += [
            {c.name for c in constraint.columns}
            for constraint in table.constraints
            if isinstance(constraint, sa.UniqueConstraint)
        ]
        sets += [{c.name for c in index.columns} for index in table.indexes if index.unique and not _is_partial(index)]
        return {name} in sets


def _is_partial(index: sa.Index) -> bool:
    # An index on an expression has fewer columns than expressions.
    return any(options.get("where") is not None for options in index.dialect_options.values()) or len(
        index.columns
    ) != len(index.expressions)


def _reflect(database: Database, connection: sa.Connection, name: str) -> sa.Table:
    schema, _, bare = name.rpartition(".")
    try:
        return sa.Table(bare, sa.MetaData(), schema=schema or None, autoload_with=connection, resolve_fks=False)
    except exc.NoSuchTableError:
        tables = ", ".join(sorted(sa.inspect(connection).get_table_names(schema or None))) or "none"
    raise EnvironmentFailure(f"{database}: table {name} does not exist; there are: {tables}")


class Record(NamedTuple):
    """Key, value and time of a message; `time_ms` is -1 for none."""

    key: bytes | None
    value: bytes | None
    time_ms: int


class Rows:
    """The columns to select of a table, and the records of its rows."""

    def __init__(self, source: SourceTable, dialect: str) -> None:
        self._source = source
        parts: list[Column | None] = [source.order, source.deleted, source.timestamp]
        self.selected = [
            sa.null().label(f"none_{n}") if column is None else _read(column, dialect).label(f"{column.name}_{n}")
            for n, column in enumerate((*parts, *source.key, *source.columns))
        ]
        self._key = slice(3, 3 + len(source.key))
        self._values = slice(self._key.stop, None)
        # Plain strings: orjson accepts no subclass.
        self._names = [str(column.name) for column in source.columns]

    def record(self, row: Row, offset: int) -> Record:
        """The record. Raises SerdeError, naming stream, offset and column, for a value that JSON cannot hold."""
        where = f"{self._source.where}@{offset}"
        time_ms = -1 if row[2] is None else millis(row[2], f"{where}: {self._source.config.prefix}timestamp.column")
        value = None if row[1] else self._json(row, where)
        return Record(self.key(row), value, time_ms)

    def key(self, row: Row) -> bytes | None:
        """The record's key."""
        key = tuple(row[self._key])
        if len(key) > 1:
            return orjson.dumps(key, default=_plain)
        return _text(key[0])

    def _json(self, row: Row, where: str) -> bytes:
        values = row[self._values]
        try:
            return orjson.dumps(dict(zip(self._names, values, strict=True)), default=_plain)
        except TypeError as cause:
            for name, value in zip(self._names, values, strict=True):
                try:
                    orjson.dumps(value, default=_plain)
                except TypeError as reason:
                    shown = f"{type(value).__name__} {str(value)[:40]!r} cannot be written as JSON ({reason})"
                    raise SerdeError(
                        f"{where}: column {name}: {shown}; name the others in {self._source.config.prefix}columns"
                    ) from cause
            raise SerdeError(f"{where}: {cause}") from cause


def _read(column: Column, dialect: str) -> sa.ColumnElement[Any]:
    # SQLite stores any value in a column of such a type: text, a number.
    if dialect == "sqlite" and isinstance(column.type, (sa.DateTime, sa.Date, sa.Time, sa.Numeric)):
        return sa.type_coerce(column, sa.types.NullType())
    return column


def _text(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    plain = orjson.dumps(value, default=_plain)
    return plain[1:-1] if plain.startswith(b'"') else plain


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    if isinstance(value, timedelta):
        return value.total_seconds()
    raise TypeError(f"{type(value).__name__} has no form in JSON")
