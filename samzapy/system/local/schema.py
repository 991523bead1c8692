"""Defines the file's tables, checks that a file has them, and encodes record headers.

Headers: for each the name's length, the name, the value's length, the value (both lengths u32 LE). A null value has the
length 2**32 - 1 and nothing behind it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from functools import lru_cache
from struct import Struct

from samzapy.api.envelope import Headers

FORMAT = 1
_APPLICATION_ID = 0x53414D5A

_TABLES = """
CREATE TABLE streams (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    stream_id TEXT NOT NULL,
    partitions INTEGER NOT NULL,
    config TEXT NOT NULL
);
CREATE TABLE partitions (
    slot INTEGER PRIMARY KEY AUTOINCREMENT,
    stream INTEGER NOT NULL REFERENCES streams (id),
    number INTEGER NOT NULL,
    oldest INTEGER NOT NULL DEFAULT 0,
    upcoming INTEGER NOT NULL DEFAULT 0,
    clean_records INTEGER NOT NULL DEFAULT 0,
    dirty_records INTEGER NOT NULL DEFAULT 0,
    UNIQUE (stream, number)
);
CREATE TABLE records (
    slot INTEGER NOT NULL,
    position INTEGER NOT NULL,
    timestamp INTEGER NOT NULL,
    key BLOB,
    value BLOB,
    headers BLOB,
    PRIMARY KEY (slot, position)
) WITHOUT ROWID;
CREATE TABLE producers (
    transactional_id TEXT PRIMARY KEY,
    epoch INTEGER NOT NULL,
    deadline_ms INTEGER
) WITHOUT ROWID;
CREATE TABLE open_ranges (
    slot INTEGER NOT NULL,
    first INTEGER NOT NULL,
    end INTEGER NOT NULL,
    transactional_id TEXT NOT NULL,
    PRIMARY KEY (slot, first)
) WITHOUT ROWID;
CREATE TABLE cleanings (
    slot INTEGER NOT NULL,
    until INTEGER NOT NULL,
    time_ms INTEGER NOT NULL
);
"""


def is_ready(connection: sqlite3.Connection) -> bool:
    """Whether the file has the tables; False if it is empty. Raises ValueError for any other file."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if (application, version) == (_APPLICATION_ID, FORMAT):
        return True
    if application == _APPLICATION_ID:
        raise ValueError(f"written in format {version}, this version reads {FORMAT}")
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables or application:
        raise ValueError("a SQLite file of some other program")
    return False


def create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables; inside the caller's transaction."""
    for statement in _TABLES.split(";"):
        if statement.strip():
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id={_APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={FORMAT}")


_LENGTH = Struct("<I")
_pack, _unpack = _LENGTH.pack, _LENGTH.unpack_from
_NULL = 2**32 - 1
_NO_VALUE = _pack(_NULL)


@lru_cache(maxsize=256)
def _written_name(name: str) -> bytes:
    text = name.encode()
    return _pack(len(text)) + text


def encode_headers(headers: Headers) -> bytes:
    """The headers in order; names may repeat."""
    parts: list[bytes] = []
    for name, value in headers:
        if value is None:
            parts += (_written_name(name), _NO_VALUE)
        else:
            parts += (_written_name(name), _pack(len(value)), value)
    return b"".join(parts)


def encode_header_column(column: Iterable[Headers | None]) -> Iterator[bytes | None]:
    """The headers of records, None where a record has none. Records next to one another often share one object, which
    is encoded once."""
    last, packed = None, None
    for headers in column:
        if headers is not last:
            last, packed = headers, encode_headers(headers) if headers else None
        yield packed


def decode_headers(data: bytes) -> Headers:
    """The inverse of `encode_headers`."""
    result: list[tuple[str, bytes | None]] = []
    at, end = 0, len(data)
    while at < end:
        start = at + 4
        at = start + _unpack(data, at)[0]
        name = data[start:at].decode()
        length = _unpack(data, at)[0]
        at += 4
        if length == _NULL:
            result.append((name, None))
        else:
            result.append((name, data[at : at + length]))
            at += length
    return result
