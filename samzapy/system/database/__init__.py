"""Tables of a database as streams: polled by a column that grows.

A table is a stream of changes, as Samza's state documentation asks for: a job that is set back to zero replays the
table's present rows. A row that is changed again moves to a new place in the order and is read there only, as in a
compacted topic that is always clean.

1. The order column is a unique integer, and the offset of a row. Offsets are the same in every read.
2. Rows come in this order, each at least once. `reader` decides when a row may be read, so that no row that is
   committed later takes a place that has already been passed.
3. Deleted rows are not seen: mark rows as deleted instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing

try:
    import sqlalchemy as sa
except ImportError as cause:  # the one place that reports it
    raise ImportError("needs SQLAlchemy 2; install it: pip install 'samzapy[database]'") from cause

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import (
    OffsetRange,
    StreamDescription,
    StreamSpec,
    SystemAdmin,
    SystemConsumer,
    SystemFactory,
    SystemProducer,
    SystemSettings,
    SystemTraits,
)
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.streams.systems import DatabaseConfig, database_config
from samzapy.errors import EnvironmentFailure
from samzapy.system.database.reader import DatabaseConsumer
from samzapy.system.database.table import Database, SourceTable, bound, find_table, sources_of

__all__ = ["DatabaseSystemFactory"]


class DatabaseSystemFactory(SystemFactory):
    """Clients of the database at `systems.NAME.database.url`. `clock` decides when to poll again."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock

    def check(self, settings: SystemSettings) -> None:
        Database(database_config(settings)).close()

    def traits(self, settings: SystemSettings) -> SystemTraits:
        with closing(Database(database_config(settings))) as database:
            place = "a file of SQLite" if database.dialect == "sqlite" else None
        return SystemTraits(place=place, upcoming_goes_back=True, read_only=True)

    def consumer(self, settings: SystemSettings, client_id: str) -> SystemConsumer:
        return DatabaseConsumer(database_config(settings), self._clock)

    def producer(
        self, settings: SystemSettings, client_id: str, transactional_id: str | None = None, timeout_ms: int = 60_000
    ) -> SystemProducer:
        raise EnvironmentFailure(
            f"system '{settings.name}' is a database, which is read only; "
            "to write rows register a samzapy.sinks.SqlSink"
        )

    def admin(self, settings: SystemSettings, client_id: str) -> DatabaseAdmin:
        return DatabaseAdmin(database_config(settings))


class DatabaseAdmin(SystemAdmin):
    """Streams are the tables that the job file names. The log of each begins at 0, so that a job can be set back
    there."""

    def __init__(self, config: DatabaseConfig) -> None:
        self._config = config
        self._database = Database(config)

    def create(self, spec: StreamSpec) -> bool:
        raise EnvironmentFailure(
            f"{self._config.system}.{spec.stream}: cannot create it: tables of a database are read, never changed"
        )

    def describe(self, stream: str) -> StreamDescription | None:
        table = self._config.tables.get(stream)
        if table is None:
            return None
        with self._database.connected() as connection:
            source = find_table(self._database, connection, table)
        config = {"database.order.by": table.order_by, "database.table": table.table}
        stream_id = f"{self._database.dialect}:{source.table.fullname}"
        return StreamDescription(stream, table.partitions, stream_id, config)

    def list_streams(self) -> list[str]:
        return sorted(self._config.tables)

    def offsets(
        self, ssps: Iterable[SystemStreamPartition], *, committed: bool = False
    ) -> dict[SystemStreamPartition, OffsetRange]:
        asked = list(ssps)
        with self._database.connected() as connection:
            sources = sources_of(self._database, connection, asked)
            upcoming = {stream: source.upcoming(connection) for stream, source in sources.items()}
        return {ssp: OffsetRange(0, upcoming[ssp.stream]) for ssp in asked}

    def offsets_at(self, ssps: Iterable[SystemStreamPartition], time_ms: int) -> dict[SystemStreamPartition, int]:
        asked = list(ssps)
        with self._database.connected() as connection:
            sources = sources_of(self._database, connection, asked)
            first = {stream: _first_not_older(connection, source, time_ms) for stream, source in sources.items()}
        return {ssp: first[ssp.stream] for ssp in asked}

    def close(self) -> None:
        self._database.close()


def _first_not_older(connection: sa.Connection, source: SourceTable, time_ms: int) -> int:
    """The offset of the first row that is not older; after the last row if there is none."""
    column = source.timestamp
    if column is None:
        raise EnvironmentFailure(
            f"{source.where}: a time needs {source.config.prefix}timestamp.column, "
            "the column that says how old a row is"
        )
    not_older = column >= bound(connection.dialect.name, column, time_ms)
    offset = connection.scalar(sa.select(sa.func.min(source.order)).where(not_older))
    return source.upcoming(connection) if offset is None else int(offset)
