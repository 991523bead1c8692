"""`systems.S.database.*` and `streams.X.database.*`: database tables as streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from samzapy.api.system import StreamSettings, SystemSettings
from samzapy.config.reading.keys import LIST, TEXT, integer, key, keys_of, required
from samzapy.config.reading.reader import Reader, did_you_mean
from samzapy.config.reading.secrets import Masked
from samzapy.errors import ConfigError

_DAY_MS = 86_400_000
_TABLE = "streams.{stream}."


def _older(leaf: str) -> tuple[str, ...]:
    return (f"systems.{{system}}.streams.{{physical}}.database.{leaf}",)


@dataclass(frozen=True, kw_only=True)
class TableConfig:
    """The settings of a table that is read as a stream. `prefix` is the prefix of its keys in the job file.
    `safety_lag_ms` None: as long as the database requires."""

    stream: str
    prefix: str
    table: str = key(_TABLE + "database.table", TEXT, "", shown="the stream's name", otherwise=_older("table"))
    """database: the table, or schema.table."""
    order_by: str = required(_TABLE + "database.order.by", TEXT, "id", otherwise=_older("order.by"))
    """database: a column of unique integers that grows with each new or changed row: an id, or a version that each
    change draws from a sequence."""
    key_columns: tuple[str, ...] = key(
        _TABLE + "database.key", LIST, (), shown="the table's primary key", otherwise=_older("key")
    )
    """database: the columns of the messages' key."""
    columns: tuple[str, ...] = key(
        _TABLE + "database.columns", LIST, (), shown="all but the deleted.column", otherwise=_older("columns")
    )
    """database: the columns of a message."""
    deleted_column: str | None = key(_TABLE + "database.deleted.column", TEXT, None, otherwise=_older("deleted.column"))
    """database: a column that marks deleted rows by true, a number other than 0, or a time. Their message is null."""
    timestamp_column: str | None = key(
        _TABLE + "database.timestamp.column", TEXT, None, shown="none", otherwise=_older("timestamp.column")
    )
    """database: the messages' time, by which `samzapy checkpoint set TIME` finds a row."""
    partitions: int = key(_TABLE + "database.partitions", integer(1, 10_000), 1, otherwise=_older("partitions"))
    """database: number of partitions. Keys are assigned to them as by Kafka's producers. Each partition reads the whole
    table."""
    poll_interval_ms: int = key(
        _TABLE + "database.poll.interval.ms", integer(1, _DAY_MS), 1000, otherwise=_older("poll.interval.ms")
    )
    """database: milliseconds between two queries of a table without new rows."""
    safety_lag_ms: int | None = key(
        _TABLE + "database.safety.lag.ms",
        integer(0, _DAY_MS),
        None,
        shown="10000 where it is needed",
        otherwise=_older("safety.lag.ms"),
    )
    """database: the longest time in milliseconds from the assignment of a row's order.by to its commit. A longer
    transaction loses rows. SQLite and PostgreSQL do not need it, because open transactions are visible there."""


@dataclass(frozen=True)
class DatabaseConfig:
    """A database and its tables, by the name of the stream."""

    system: str
    tables: Mapping[str, TableConfig]
    url: str = required("systems.{system}.database.url", TEXT, "sqlite:///shop.db")
    """database: its URL for SQLAlchemy: sqlite:///shop.db, postgresql+psycopg://user:password@host/shop."""


_LEAVES = [declared.name.removeprefix(_TABLE) for declared in keys_of(TableConfig)]


def parse_database(reader: Reader, settings: SystemSettings) -> DatabaseConfig:
    """Read the database of a system; note problems in `reader`."""
    tables = {
        stream: _table(reader, settings.name, stream, table) for stream, table in sorted(settings.streams.items())
    }
    return reader.read(DatabaseConfig, {"system": settings.name}, system=settings.name, tables=tables)


def database_config(settings: SystemSettings) -> DatabaseConfig:
    """Like `parse_database`, from settings alone. Raises ConfigError with all problems."""
    values: dict[str, str] = {}
    secret: set[str] = set()
    below = {f"systems.{settings.name}.": settings.properties}
    below |= {table.prefix: table.properties for table in settings.streams.values()}
    for prefix, properties in below.items():
        values |= {f"{prefix}{leaf}": value for leaf, value in properties.items()}
        secret |= {f"{prefix}{leaf}" for leaf in getattr(properties, "secret", ())}
    reader = Reader(Masked(values), frozenset(secret))
    config = parse_database(reader, settings)
    if reader.problems:
        raise ConfigError(reader.problems)
    return config


def _table(reader: Reader, system: str, stream: str, settings: StreamSettings) -> TableConfig:
    names = {"system": system, "physical": stream}
    kind, _, rest = settings.prefix.partition(".")
    if kind == "streams":
        names["stream"] = rest.rstrip(".")
    for leaf, value in settings.properties.items():
        if leaf.startswith("database.") and leaf not in _LEAVES:
            reader.problem(f"{settings.prefix}{leaf}", f"unknown key{did_you_mean(leaf, _LEAVES)}", value)
    table = reader.value(TableConfig, "table", **names) or stream
    return reader.read(TableConfig, names, stream=stream, prefix=f"{settings.prefix}database.", table=table)
