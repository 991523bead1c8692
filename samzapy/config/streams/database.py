"""`systems.S.database.*` and `streams.X.database.*`: database tables as streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from samzapy.api.system import StreamSettings, SystemSettings
from samzapy.config.reading.keys import LIST, TEXT, Key, collect, integer, optional
from samzapy.config.reading.reader import Reader, did_you_mean
from samzapy.config.reading.secrets import Masked
from samzapy.errors import ConfigError

_DAY_MS = 86_400_000


def _older(leaf: str) -> tuple[str, ...]:
    return (f"systems.{{system}}.streams.{{physical}}.database.{leaf}",)


URL = Key(
    "systems.{system}.database.url",
    TEXT,
    None,
    "database: its URL for SQLAlchemy: sqlite:///shop.db, postgresql+psycopg://user:password@host/shop.",
    "required",
)
TABLE = Key(
    "streams.{stream}.database.table",
    TEXT,
    None,
    "database: the table, or schema.table.",
    "the stream's name",
    _older("table"),
)
ORDER_BY = Key(
    "streams.{stream}.database.order.by",
    TEXT,
    None,
    "database: a column of unique integers that grows with each new or changed row: an id, or a version that each "
    "change draws from a sequence.",
    "required",
    _older("order.by"),
)
KEY = Key(
    "streams.{stream}.database.key",
    LIST,
    (),
    "database: the columns of the messages' key.",
    "the table's primary key",
    _older("key"),
)
COLUMNS = Key(
    "streams.{stream}.database.columns",
    LIST,
    (),
    "database: the columns of a message.",
    "all but the deleted.column",
    _older("columns"),
)
DELETED_COLUMN = Key(
    "streams.{stream}.database.deleted.column",
    TEXT,
    None,
    "database: a column that marks deleted rows by true, a number other than 0, or a time. Their message is null.",
    otherwise=_older("deleted.column"),
)
TIMESTAMP_COLUMN = Key(
    "streams.{stream}.database.timestamp.column",
    TEXT,
    None,
    "database: the messages' time, by which `samzapy checkpoint set TIME` finds a row.",
    "none",
    _older("timestamp.column"),
)
PARTITIONS = Key(
    "streams.{stream}.database.partitions",
    integer(1, 10_000),
    1,
    "database: number of partitions. Keys are assigned to them as by Kafka's producers. Each partition reads the "
    "whole table.",
    otherwise=_older("partitions"),
)
POLL_INTERVAL_MS = Key(
    "streams.{stream}.database.poll.interval.ms",
    integer(1, _DAY_MS),
    1000,
    "database: milliseconds between two queries of a table without new rows.",
    otherwise=_older("poll.interval.ms"),
)
SAFETY_LAG_MS = Key(
    "streams.{stream}.database.safety.lag.ms",
    optional(integer(0, _DAY_MS)),
    None,
    "database: the longest time in milliseconds from the assignment of a row's order.by to its commit. A longer "
    "transaction loses rows. SQLite and PostgreSQL do not need it, because open transactions are visible there.",
    "10000 where it is needed",
    _older("safety.lag.ms"),
)
KEYS = collect(globals())

_LEAVES = [key.name.removeprefix("streams.{stream}.") for key in KEYS if key is not URL]


@dataclass(frozen=True)
class TableConfig:
    """The settings of a table that is read as a stream. `prefix` is the prefix of its keys in the job file.
    `safety_lag_ms` None: as long as the database requires."""

    stream: str
    prefix: str
    table: str
    order_by: str
    key: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    deleted_column: str | None = None
    timestamp_column: str | None = None
    partitions: int = 1
    poll_interval_ms: int = 1000
    safety_lag_ms: int | None = None


@dataclass(frozen=True)
class DatabaseConfig:
    """A database and its tables, by the name of the stream."""

    system: str
    url: str
    tables: Mapping[str, TableConfig]


def parse_database(reader: Reader, settings: SystemSettings) -> DatabaseConfig:
    """Read the database of a system; note problems in `reader`."""
    url = reader.require(URL, "sqlite:///shop.db", system=settings.name)
    tables = {
        stream: _table(reader, settings.name, stream, found) for stream, found in sorted(settings.streams.items())
    }
    return DatabaseConfig(settings.name, url, tables)


def database_config(settings: SystemSettings) -> DatabaseConfig:
    """Like `parse_database`, from settings alone. Raises ConfigError with all problems."""
    prefix = f"systems.{settings.name}."
    values = {f"{prefix}{key}": value for key, value in settings.properties.items()}
    secret = {f"{prefix}{key}" for key in getattr(settings.properties, "secret", ())}
    for found in settings.streams.values():
        values |= {f"{found.prefix}{key}": value for key, value in found.properties.items()}
        secret |= {f"{found.prefix}{key}" for key in getattr(found.properties, "secret", ())}
    reader = Reader(Masked(values), frozenset(secret))
    config = parse_database(reader, settings)
    if reader.problems:
        raise ConfigError(reader.problems)
    return config


def _table(reader: Reader, system: str, stream: str, found: StreamSettings) -> TableConfig:
    names = {"system": system, "physical": stream}
    kind, _, rest = found.prefix.partition(".")
    if kind == "streams":
        names["stream"] = rest.rstrip(".")
    for key in found.properties:
        if key.startswith("database.") and key not in _LEAVES:
            reader.problem(f"{found.prefix}{key}", f"unknown key{did_you_mean(key, _LEAVES)}", found.properties[key])
    return TableConfig(
        stream,
        f"{found.prefix}database.",
        table=reader.get(TABLE, **names) or stream,
        order_by=reader.require(ORDER_BY, "id", **names),
        key=reader.get(KEY, **names),
        columns=reader.get(COLUMNS, **names),
        deleted_column=reader.get(DELETED_COLUMN, **names),
        timestamp_column=reader.get(TIMESTAMP_COLUMN, **names),
        partitions=reader.get(PARTITIONS, **names),
        poll_interval_ms=reader.get(POLL_INTERVAL_MS, **names),
        safety_lag_ms=reader.get(SAFETY_LAG_MS, **names),
    )
