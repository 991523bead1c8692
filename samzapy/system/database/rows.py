"""Turns rows into records: key and value as bytes, time as a number.

1. The value is the row as a JSON object, column by column, written by orjson: times in ISO 8601, decimals as strings (a JSON
   number may lose digits), UUIDs as strings, bytes in base64, JSON columns unchanged. SQLite's times and decimals stay as
   they are stored.
2. The key is the value of its column as text (serde `string`; for integers also `json`), or unchanged bytes. Several
   columns are a JSON array. A NULL key means no key.
"""

from __future__ import annotations

import base64
from datetime import timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import orjson
import sqlalchemy as sa

from samzapy.errors import SerdeError
from samzapy.system.database.connection import micros
from samzapy.system.database.table import Column, SourceTable

Row = Any


class Record(NamedTuple):
    """Key, value and time of a message; `time_ms` is -1 for none."""

    key: bytes | None
    value: bytes | None
    time_ms: int


class Rows:
    """The columns to select of a table, and the meaning of its rows."""

    def __init__(self, source: SourceTable, dialect: str) -> None:
        self._source = source
        parts: list[Column | None] = [source.order, source.deleted, source.timestamp]
        self.selected = [
            sa.null().label(f"none_{n}") if column is None else _read(column, dialect).label(f"{column.name}_{n}")
            for n, column in enumerate((*parts, *source.ties, *source.key, *source.columns))
        ]
        self._ties = slice(3, 3 + len(source.ties))
        self._key = slice(self._ties.stop, self._ties.stop + len(source.key))
        self._values = slice(self._key.stop, None)
        # Plain strings: orjson accepts no subclass.
        self._names = [str(column.name) for column in source.columns]

    def order(self, row: Row) -> Any:
        """The value of the order column."""
        return row[0]

    def ties(self, row: Row) -> tuple[Any, ...]:
        """The values that order rows of one time."""
        return tuple(row[self._ties])

    def record(self, row: Row, offset: int) -> Record:
        """The record. Raises SerdeError, naming stream, offset and column, for a value that JSON cannot hold."""
        where = f"{self._source.where}@{offset}"
        time_ms = (
            -1 if row[2] is None else micros(row[2], f"{where}: {self._source.config.prefix}timestamp.column") // 1000
        )
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
