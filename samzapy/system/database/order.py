"""A table's rows in order, and the offsets that stand for places in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from samzapy.api.stream import SystemStreamPartition
from samzapy.errors import EnvironmentFailure
from samzapy.system.database.rows import Row, Rows
from samzapy.system.database.settled import SettledNumbers, SettledSeconds
from samzapy.system.database.table import SourceTable
from samzapy.system.database.times import bound, micros

#: Bits of a timestamp's offset that number the rows of one second.
ROW_BITS = 30
_SECOND_US = 1_000_000


class Page(NamedTuple):
    """Rows with their offsets, and the next offset to look at."""

    rows: list[tuple[int, Row]]
    position: int


class Order(ABC):
    """One table, for all partitions that are read of it."""

    @abstractmethod
    def end(self, connection: sa.Connection) -> int:
        """The offset before which everything may be read now."""

    @abstractmethod
    def page(self, connection: sa.Connection, ssp: SystemStreamPartition, span: tuple[int, int], limit: int) -> Page:
        """At most `limit` rows from the first offset of `span` on, before the second. The position is the end of the span
        if that was all."""


class ByNumber(Order):
    """By a unique integer, which is the offset."""

    def __init__(self, source: SourceTable, rows: Rows, settled: SettledNumbers) -> None:
        self._source = source
        self._rows = rows
        self._settled = settled

    def end(self, connection: sa.Connection) -> int:
        return self._settled.end(connection)

    def page(self, connection: sa.Connection, ssp: SystemStreamPartition, span: tuple[int, int], limit: int) -> Page:
        order, (position, end) = self._source.order, span
        statement = sa.select(*self._rows.selected).where(order >= position, order < end).order_by(order).limit(limit)
        rows = [(int(self._rows.order(row)), row) for row in connection.execute(statement)]
        return Page(rows, end if len(rows) < limit else rows[-1][0] + 1)


@dataclass(frozen=True)
class _Place:
    """Between two pages: the offset that comes next, and the last row, by which the database finds what follows."""

    offset: int
    after: tuple[Any, ...]


class ByTime(Order):
    """By a timestamp, then by the ties."""

    def __init__(self, source: SourceTable, rows: Rows, settled: SettledSeconds) -> None:
        self._source = source
        self._rows = rows
        self._settled = settled
        self._places: dict[SystemStreamPartition, _Place] = {}
        self._columns = (source.order, *source.ties)

    def end(self, connection: sa.Connection) -> int:
        return self._settled.end(connection) << ROW_BITS

    def page(self, connection: sa.Connection, ssp: SystemStreamPartition, span: tuple[int, int], limit: int) -> Page:
        order, (position, end) = self._source.order, span
        place = self._places.pop(ssp, None)
        dialect = connection.dialect.name
        if place is not None and place.offset == position:
            start = _after(dialect, self._columns, place.after)
        else:
            # From the beginning of the second: which of its rows were read before, nobody knows by now.
            start = order >= bound(dialect, order, (position >> ROW_BITS) * _SECOND_US)
        before = order < bound(dialect, order, (end >> ROW_BITS) * _SECOND_US)
        statement = sa.select(*self._rows.selected).where(start, before).order_by(*self._columns).limit(limit)
        found, offset = [], position
        for row in connection.execute(statement):
            offset = self._offset(row, offset)
            found.append((offset, row))
            offset += 1
        if len(found) < limit:
            return Page(found, end)
        last = found[-1][1]
        self._places[ssp] = _Place(offset, (self._rows.order(last), *self._rows.ties(last)))
        return Page(found, offset)

    def _offset(self, row: Row, upcoming: int) -> int:
        second = micros(self._rows.order(row), self._at(upcoming)) // _SECOND_US
        if second << ROW_BITS >= upcoming:
            return second << ROW_BITS
        if second != upcoming >> ROW_BITS:
            raise EnvironmentFailure(
                f"{self._at(upcoming)}: more than 2^{ROW_BITS} rows in one second, or a time before 1970"
            )
        return upcoming

    def _at(self, offset: int) -> str:
        return f"{self._source.where}@{offset}: {self._source.config.prefix}order.by"


def _after(dialect: str, columns: tuple[sa.Column[Any], ...], values: tuple[Any, ...]) -> sa.ColumnElement[bool]:
    """The rows behind `values`, in the order of `columns`; in SQLite times are compared as the texts they are."""
    given = [
        sa.literal(value, sa.String() if dialect == "sqlite" and isinstance(column.type, sa.DateTime) else column.type)
        for column, value in zip(columns, values, strict=True)
    ]
    return sa.tuple_(*columns) > sa.tuple_(*given)


def upcoming_of(connection: sa.Connection, source: SourceTable, now: float) -> int:
    """The offset behind the table's last row; rows dated after `now` (seconds) are not counted."""
    column = source.order
    shown = (
        sa.type_coerce(sa.func.max(column), sa.types.NullType())
        if connection.dialect.name == "sqlite"
        else sa.func.max(column)
    )
    greatest = connection.scalar(sa.select(shown))
    if greatest is None:
        return 0
    if not source.by_time:
        return int(greatest) + 1
    second = micros(greatest, f"{source.where}: {source.config.prefix}order.by") // _SECOND_US
    return (min(second, int(now)) + 1) << ROW_BITS
