"""The admin of a database: it looks at tables and changes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

import sqlalchemy as sa

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange, StreamDescription, StreamSpec, SystemAdmin
from samzapy.clock import Clock
from samzapy.config.streams.database import DatabaseConfig
from samzapy.errors import EnvironmentFailure, UnknownPartition, UnknownStream
from samzapy.system.database.connection import Database, bound, micros, now_s
from samzapy.system.database.order import ROW_BITS, upcoming_of
from samzapy.system.database.table import SourceTable, find_table


class DatabaseAdmin(SystemAdmin):
    """Streams are the tables that the job file names. The log of each begins at 0, so that a job can be set back there."""

    upcoming_goes_back = True

    def __init__(self, config: DatabaseConfig, clock: Clock) -> None:
        self._config = config
        self._database = Database(config)
        self._clock = clock

    def create(self, spec: StreamSpec) -> bool:
        self._refuse(spec.stream, "create")

    def describe(self, stream: str) -> StreamDescription | None:
        table = self._config.tables.get(stream)
        if table is None:
            return None
        with self._database.connected() as connection:
            source = find_table(self._database, connection, table)
        kind = "timestamp" if source.by_time else "integer"
        config = {"database.order.by": table.order_by, "database.order.kind": kind, "database.table": table.table}
        stream_id = f"{self._database.dialect}:{source.table.fullname}"
        return StreamDescription(stream, table.partitions, stream_id, config)

    def list_streams(self) -> list[str]:
        return sorted(self._config.tables)

    def offsets(self, ssps: Iterable[SystemStreamPartition]) -> dict[SystemStreamPartition, OffsetRange]:
        wanted = list(ssps)
        upcoming = {}
        with self._database.connected() as connection:
            for stream in self._streams(wanted):
                source = find_table(self._database, connection, self._config.tables[stream])
                upcoming[stream] = upcoming_of(connection, source, now_s(connection, self._clock))
        return {ssp: OffsetRange(0, upcoming[ssp.stream]) for ssp in wanted}

    def offsets_at(self, ssps: Iterable[SystemStreamPartition], time_ms: int) -> dict[SystemStreamPartition, int]:
        wanted = list(ssps)
        first = {}
        with self._database.connected() as connection:
            for stream in self._streams(wanted):
                source = find_table(self._database, connection, self._config.tables[stream])
                now = now_s(connection, self._clock)
                found = _first_not_older(connection, source, time_ms)
                first[stream] = upcoming_of(connection, source, now) if found is None else found
        return {ssp: first[ssp.stream] for ssp in wanted}

    def delete_records(self, ssp: SystemStreamPartition, before: int) -> None:
        self._refuse(ssp.stream, "delete records of")

    def grow(self, stream: str, partitions: int) -> None:
        raise EnvironmentFailure(
            f"{self._config.system}.{stream}: its partitions are {self._prefix(stream)}partitions of the job file"
        )

    def delete(self, stream: str) -> None:
        self._refuse(stream, "delete")

    def close(self) -> None:
        self._database.close()

    def _streams(self, ssps: Iterable[SystemStreamPartition]) -> list[str]:
        """The streams of the partitions. Raises UnknownStream, UnknownPartition."""
        for ssp in ssps:
            self._check(ssp)
        return sorted({ssp.stream for ssp in ssps})

    def _check(self, ssp: SystemStreamPartition) -> None:
        table = self._config.tables.get(ssp.stream)
        if table is None:
            raise UnknownStream(ssp.system, ssp.stream, self._database.shown)
        if not 0 <= ssp.partition < table.partitions:
            raise UnknownPartition(ssp.system, ssp.stream, ssp.partition, table.partitions)

    def _prefix(self, stream: str) -> str:
        table = self._config.tables.get(stream)
        return table.prefix if table else f"streams.{stream}.database."

    def _refuse(self, stream: str, what: str) -> NoReturn:
        raise EnvironmentFailure(
            f"{self._config.system}.{stream}: cannot {what} it: tables of a database are read, never changed"
        )


def _first_not_older(connection: sa.Connection, source: SourceTable, time_ms: int) -> int | None:
    """The offset of the first row that is not older; with a timestamp as order, the beginning of its second."""
    column = source.timestamp
    if column is None:
        raise EnvironmentFailure(
            f"{source.where}: a time needs {source.config.prefix}timestamp.column, the column that says how old a row is"
        )
    not_older = column >= bound(connection.dialect.name, column, time_ms * 1000)
    first = sa.type_coerce(sa.func.min(source.order), sa.types.NullType())
    value = connection.scalar(sa.select(first).where(not_older))
    if value is None or not source.by_time:
        return value
    return micros(value, source.where) // 1_000_000 << ROW_BITS
