"""The tables of a local system's file, and the check that a file has them."""

from __future__ import annotations

import sqlite3

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
