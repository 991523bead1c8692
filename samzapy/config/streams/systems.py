"""`systems.*`: the messaging systems a job talks to, and the topics that it creates there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from samzapy.api.system import StreamSettings, StreamSpec, SystemSettings
from samzapy.config.reading.classes import SYSTEMS
from samzapy.config.reading.keys import (
    LIST,
    TEXT,
    Reader,
    choice,
    did_you_mean,
    family,
    integer,
    is_name,
    key,
    keys_of,
    required,
)
from samzapy.config.reading.properties import Masked
from samzapy.errors import raise_if_any

OFFSETS = choice("oldest", "upcoming", "newest")


@dataclass(frozen=True, kw_only=True)
class SystemKeys:
    """The keys of a system. The system's factory checks its own."""

    factory: str = required("systems.{system}.samza.factory", SYSTEMS.kind, "kafka, local, memory or database")
    """The kind of system: kafka, local, memory, database, a SystemFactory class, or Samza's Java class name."""
    consumer: Mapping[str, str] = family("systems.{system}.consumer.*")
    """Settings of the consumer (librdkafka's names)."""
    producer: Mapping[str, str] = family("systems.{system}.producer.*")
    """Settings of the producer (librdkafka's names)."""
    default_stream: Mapping[str, str] = family("systems.{system}.default.stream.*")
    """Defaults for this system's streams: `samza.*`, and Kafka's topic settings for the streams that the job creates,
    or `samzapy topic create --job`. Streams of metrics and access logs keep cleanup.policy=delete. Topics that hold
    state take none of them but replication.factor; changelogs and the checkpoint topic max.message.bytes, too; the
    checkpoint topic segment.bytes, too."""
    path: str | None = key("systems.{system}.path", TEXT, None, shown=".samzapy/local.db")
    """local: the SQLite file of the streams."""
    synchronous: str | None = key("systems.{system}.synchronous", TEXT, None, shown="normal")
    """local: normal survives killed processes, full also survives a power cut."""
    cluster: str | None = key("systems.{system}.cluster", TEXT, None, shown="the system's name")
    """memory: the name of the cluster within this process."""
    fetch_threshold: str | None = key(
        "systems.{system}.samza.fetch.threshold", TEXT, None, shown="the client's; Kafka: 50000, at most 16 MiB"
    )
    """Number of records that a container reads ahead from this system. More are worth it for a broker far away."""
    fetch_threshold_bytes: str | None = key(
        "systems.{system}.samza.fetch.threshold.bytes", TEXT, None, shown="the client's"
    )
    """Bytes that a container reads ahead. Overrides the number of records."""


#: Kafka 4's settings of topics. A broker refuses to create a topic with another one.
TOPIC_SETTINGS = frozenset(
    {
        "cleanup.policy",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "delete.retention.ms",
        "file.delete.delay.ms",
        "flush.messages",
        "flush.ms",
        "follower.replication.throttled.replicas",
        "index.interval.bytes",
        "leader.replication.throttled.replicas",
        "local.retention.bytes",
        "local.retention.ms",
        "max.compaction.lag.ms",
        "max.message.bytes",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.type",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "min.insync.replicas",
        "preallocate",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.index.bytes",
        "segment.jitter.ms",
        "segment.ms",
        "unclean.leader.election.enable",
    }
)

#: Settings of a stream of snapshots: a compacted topic refuses a record without a key, and drops all but a key's last.
LOG = {"cleanup.policy": "delete"}
#: Of a stream between steps: its records have the times of their messages, and only commits say which may go.
BETWEEN = {**LOG, "retention.ms": "-1", "retention.bytes": "-1"}
_PREFIX = "systems."


def parse_systems(reader: Reader) -> dict[str, SystemSettings]:
    """Every system that has a key, each with a factory."""
    names = {key[len(_PREFIX) :].partition(".")[0] for key in reader.values if key.startswith(_PREFIX)}
    for name in sorted(names):
        if not is_name(name):
            reader.problem(f"systems.{name}", "expected a name of up to 100 of the characters A-Za-z0-9_-", name)
    return {name: _system(reader, name) for name in sorted(names) if is_name(name)}


def _system(reader: Reader, name: str) -> SystemSettings:
    keys = reader.read(SystemKeys, {"system": name})
    everything = reader.below(f"{_PREFIX}{name}.")
    parts = ("samza.factory", "consumer.", "producer.", "default.stream.", "streams.")
    rest = {leaf: value for leaf, value in everything.items() if not leaf.startswith(parts)}
    return SystemSettings(
        name=name,
        factory=keys.factory,
        consumer=keys.consumer,
        producer=keys.producer,
        properties=Masked(rest, everything.secret),
        default_stream=keys.default_stream,
    )


def new_stream(
    settings: SystemSettings,
    stream: str,
    partitions: int,
    own: Mapping[str, str] | None = None,
    replication_factor: int | None = None,
) -> StreamSpec:
    """A stream to create. Its topic settings are its `own` ones, else those of the job file for the stream, else those
    for all streams of the system. The same holds for the number of copies."""
    known = settings.streams.get(stream)
    given = {**settings.default_stream, **(known.properties if known else {})}
    copies = given.get("replication.factor")
    factor = replication_factor or (int(copies) if copies else None)
    shared = {key: value for key, value in given.items() if key in TOPIC_SETTINGS}
    return StreamSpec(stream, partitions, {**shared, **(own or {})}, factor)


def topic_keys(settings: SystemSettings) -> dict[str, bool]:
    """The keys for the system's topics in the job file, each with whether a topic takes it."""
    known = {*TOPIC_SETTINGS, "replication.factor"}
    given = {f"{_PREFIX}{settings.name}.default.stream.": settings.default_stream}
    given |= {stream.prefix: stream.properties for stream in settings.streams.values()}
    result: dict[str, bool] = {}
    for prefix, keys in given.items():
        # The keys of a stream `a.b` are below the prefix of a stream `a`, too.
        own = [key for key in keys if ".samza." not in f".{key}"]
        result |= {name: key in known or result.get(name, False) for key in own if (name := f"{prefix}{key}")}
    return result


_DAY_MS = 86_400_000
_TABLE = "streams.{stream}."


@dataclass(frozen=True, kw_only=True)
class TableConfig:
    """The settings of a table that is read as a stream. `prefix` is the prefix of its keys in the job file.
    `safety_lag_ms` None: as long as the database requires."""

    stream: str
    prefix: str
    table: str = key(_TABLE + "database.table", TEXT, "", shown="the stream's name")
    """database: the table, or schema.table."""
    order_by: str = required(_TABLE + "database.order.by", TEXT, "id")
    """database: a column of unique integers that grows with each new or changed row: an id, or a version that each
    change draws from a sequence."""
    key_columns: tuple[str, ...] = key(_TABLE + "database.key", LIST, (), shown="the table's primary key")
    """database: the columns of the messages' key."""
    columns: tuple[str, ...] = key(_TABLE + "database.columns", LIST, (), shown="all but the deleted.column")
    """database: the columns of a message."""
    deleted_column: str | None = key(_TABLE + "database.deleted.column", TEXT, None)
    """database: a column that marks deleted rows by true, a number other than 0, or a time. Their message is null."""
    timestamp_column: str | None = key(_TABLE + "database.timestamp.column", TEXT, None, shown="none")
    """database: the messages' time, by which `samzapy checkpoint set TIME` finds a row."""
    partitions: int = key(_TABLE + "database.partitions", integer(1, 10_000), 1)
    """database: number of partitions; keys go to them as by Kafka's producers. Each one reads the whole table."""
    poll_interval_ms: int = key(_TABLE + "database.poll.interval.ms", integer(1, _DAY_MS), 1000)
    """database: milliseconds between two queries of a table without new rows."""
    safety_lag_ms: int | None = key(
        _TABLE + "database.safety.lag.ms", integer(0, _DAY_MS), None, shown="10000 where it is needed"
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
    raise_if_any(reader.problems)
    return config


def _table(reader: Reader, system: str, stream: str, settings: StreamSettings) -> TableConfig:
    kind, _, rest = settings.prefix.partition(".")
    names = {"system": system, "stream": rest.rstrip(".") if kind == "streams" else stream}
    for leaf, value in settings.properties.items():
        if leaf.startswith("database.") and leaf not in _LEAVES:
            reader.problem(f"{settings.prefix}{leaf}", f"unknown key{did_you_mean(leaf, _LEAVES)}", value)
    table = reader.value(TableConfig, "table", **names) or stream
    return reader.read(TableConfig, names, stream=stream, prefix=f"{settings.prefix}database.", table=table)
