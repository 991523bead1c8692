"""Reads a table's rows in order, and gives them offsets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

import sqlalchemy as sa

from samzapy.api.stream import SystemStreamPartition
from samzapy.errors import EnvironmentFailure
from samzapy.system.database.connection import bound, micros
from samzapy.system.database.rows import Row, Rows
from samzapy.system.database.settled import SettledNumbers, SettledSeconds
from samzapy.system.database.table import SourceTable

#: Bits of a timestamp's offset that number the rows of one second.
ROW_BITS = 30
_SECOND_US = 1_000_000


#: Whether a row is of a partition.
IsOf = Callable[[SystemStreamPartition, Row], bool]


class Page(NamedTuple):
    """One partition's rows with their offsets, and the next offset to look at."""

    rows: list[tuple[int, Row]]
    position: int


class Order(ABC):
    """The order of one table, for all partitions that are read from it."""

    @abstractmethod
    def end(self, connection: sa.Connection, positions: Collection[int]) -> int:
        """The offset before which everything may be read now. `positions`: the readers' next offsets."""

    @abstractmethod
    def page(self, connection: sa.Connection, ssp: SystemStreamPartition, span: tuple[int, int], limit: int) -> Page:
        """The partition's rows among at most `limit` rows of the table inside `span` (first offset, end). The position is the
        end of the span if there are no more rows in it."""


class ByNumber(Order):
    """Order by a unique integer, which is the offset."""

    def __init__(self, source: SourceTable, rows: Rows, is_of: IsOf, settled: SettledNumbers) -> None:
        self._source = source
        self._rows = rows
        self._is_of = is_of
        self._settled = settled

    def end(self, connection: sa.Connection, positions: Collection[int]) -> int:
        return self._settled.end(connection)

    def page(self, connection: sa.Connection, ssp: SystemStreamPartition, span: tuple[int, int], limit: int) -> Page:
        order, (position, end) = self._source.order, span
        statement = sa.select(*self._rows.selected).where(order >= position, order < end).order_by(order).limit(limit)
        rows = [(int(self._rows.order(row)), row) for row in connection.execute(statement)]
        found = [(offset, row) for offset, row in rows if self._is_of(ssp, row)]
        return Page(found, end if len(rows) < limit else rows[-1][0] + 1)


@dataclass(frozen=True)
class _Place:
    """The place between two pages of one second: the next offset, the row that gets it once the reader knows whether it
    is the partition's last of that second, and the last row read, after which the database continues."""

    offset: int
    kept: tuple[Row, ...]
    after: tuple[Any, ...]


class ByTime(Order):
    """Order by a timestamp, then by the ties.

    The last row of a partition in a second gets the last number of that second, so the offset behind it is the beginning of
    the next second. Only there a reader can start again: rows of a second that it has read in part may have got another
    time meanwhile, or have been deleted. A page ends there as well, unless all its rows are of one second.
    """

    def __init__(self, source: SourceTable, rows: Rows, is_of: IsOf, settled: SettledSeconds) -> None:
        self._source = source
        self._rows = rows
        self._is_of = is_of
        self._settled = settled
        self._places: dict[SystemStreamPartition, _Place] = {}
        self._columns = (source.order, *source.ties)

    def end(self, connection: sa.Connection, positions: Collection[int]) -> int:
        return self._settled.end(connection, max(positions) >> ROW_BITS) << ROW_BITS

    def page(self, connection: sa.Connection, ssp: SystemStreamPartition, span: tuple[int, int], limit: int) -> Page:
        position, end = span
        place = self._places.pop(ssp, None)
        if place is None or place.offset != position:
            place = None
        kept = [] if place is None else [(position >> ROW_BITS, row) for row in place.kept]
        # One row more than the page returns, unless it is kept already: the row behind a second's last one identifies it.
        most = limit + 1 - len(kept)
        rows = self._read(connection, place, span, most)
        seconds = [self._second(row, position) for row in rows]
        own = kept + [(second, row) for second, row in zip(seconds, rows, strict=True) if self._is_of(ssp, row)]
        if len(rows) < most:
            return Page(self._numbered(own, position), end)
        last = seconds[-1]
        if last > (position >> ROW_BITS if place else seconds[0]):
            return Page(self._numbered([each for each in own if each[0] < last], position), last << ROW_BITS)
        found = self._numbered(own, position)[:-1]
        offset = found[-1][0] + 1 if found else max(position, last << ROW_BITS)
        row = rows[-1]
        after = (self._rows.order(row), *self._rows.ties(row))
        self._places[ssp] = _Place(offset, tuple(row for _, row in own[len(found) :]), after)
        return Page(found, offset)

    def _read(
        self, connection: sa.Connection, place: _Place | None, span: tuple[int, int], limit: int
    ) -> Sequence[Row]:
        order, (position, end) = self._source.order, span
        dialect = connection.dialect.name
        if place is not None:
            start = _after(dialect, self._columns, place.after)
        else:
            start = order >= bound(dialect, order, (position >> ROW_BITS) * _SECOND_US)
        before = order < bound(dialect, order, (end >> ROW_BITS) * _SECOND_US)
        statement = sa.select(*self._rows.selected).where(start, before).order_by(*self._columns).limit(limit)
        return connection.execute(statement).all()

    def _second(self, row: Row, position: int) -> int:
        second = micros(self._rows.order(row), self._at(position)) // _SECOND_US
        if second < position >> ROW_BITS:
            raise EnvironmentFailure(f"{self._at(position)}: a time before 1970")
        return second

    def _numbered(self, rows: list[tuple[int, Row]], position: int) -> list[tuple[int, Row]]:
        """The rows with their offsets instead of their seconds, every second's last one at its end."""
        found, upcoming = [], position
        for (second, row), following in zip_longest(rows, (second for second, _ in rows[1:])):
            upcoming = max(upcoming, second << ROW_BITS)
            if following != second:
                upcoming = whole_seconds(upcoming + 1) - 1
            if upcoming >> ROW_BITS != second:
                raise EnvironmentFailure(f"{self._at(upcoming)}: more than 2^{ROW_BITS} rows in one second")
            found.append((upcoming, row))
            upcoming += 1
        return found

    def _at(self, offset: int) -> str:
        return f"{self._source.where}@{offset}: {self._source.config.prefix}order.by"


def whole_seconds(offset: int) -> int:
    """The first offset from `offset` on at which a second begins."""
    return -(-offset >> ROW_BITS) << ROW_BITS


def _after(dialect: str, columns: tuple[sa.Column[Any], ...], values: tuple[Any, ...]) -> sa.ColumnElement[bool]:
    """The rows behind `values`, in the order of `columns`; SQLite compares times as text."""
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
