"""Joins two tables of a database by user, in one store. The store's changelog is the output of the job.

python -m samzapy.examples.users users.db             create the database
python -m samzapy.examples.users users.db --change    change some of its rows

Each insert and each update takes a new version, which orders the changes of both tables. A user is marked as deleted
and never removed, because the job cannot read a row that is gone. The triggers are for SQLite. In PostgreSQL, the
column is `version BIGINT NOT NULL UNIQUE DEFAULT nextval('versions')`, and a trigger before UPDATE sets it again.
"""

from __future__ import annotations

import argparse
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.task import InitableTask, StreamTask


class JoinUsersTask(StreamTask, InitableTask):
    """Keeps the rows of both tables in the store `users`, by user and table; deletes a user who is in neither table.

    Reading a row twice changes nothing.
    """

    _users: KeyValueStore[str, dict[str, Any]]

    def init(self, context: Context) -> None:
        self._users = context.get_store("users")

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        user = dict(self._users.get(envelope.key) or {})
        if envelope.message is None:
            user.pop(envelope.ssp.stream, None)
        else:
            user[envelope.ssp.stream] = envelope.message
        if user:
            self._users.put(envelope.key, user)
        else:
            self._users.delete(envelope.key)


_TABLE = """
CREATE TABLE {table} ({columns}, deleted BOOLEAN NOT NULL DEFAULT 0, version INTEGER UNIQUE);
CREATE TRIGGER {table}_inserted AFTER INSERT ON {table} BEGIN {next} END;
CREATE TRIGGER {table}_updated AFTER UPDATE ON {table} WHEN new.version IS old.version BEGIN {next} END;
"""
_NEXT = """
UPDATE versions SET last = last + 1;
UPDATE {table} SET version = (SELECT last FROM versions) WHERE user_id = new.user_id;
"""
#: The columns of each table, besides the common ones.
TABLES = {
    "profiles": "user_id TEXT PRIMARY KEY, name TEXT NOT NULL, city TEXT",
    "settings": "user_id TEXT PRIMARY KEY, theme TEXT NOT NULL, mails BOOLEAN NOT NULL",
}


def create(path: Path | str) -> None:
    """Create the empty tables in a new database file."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE versions (last INTEGER); INSERT INTO versions VALUES (0);")
        for table, columns in TABLES.items():
            change = _NEXT.format(table=table)
            connection.executescript(_TABLE.format(table=table, columns=columns, next=change))


def fill(path: Path | str) -> None:
    """Insert three users, one of them without settings."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany(
            "INSERT INTO profiles (user_id, name, city) VALUES (?, ?, ?)",
            [("ann", "Ann", "Oslo"), ("bob", "Bob", "Rome"), ("dan", "Dan", None)],
        )
        connection.executemany(
            "INSERT INTO settings (user_id, theme, mails) VALUES (?, ?, ?)",
            [("ann", "dark", True), ("bob", "light", False)],
        )


def change(path: Path | str) -> None:
    """One user moves, one gets settings, one is marked as deleted."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE profiles SET city = 'Lima' WHERE user_id = 'ann'")
        connection.execute("INSERT INTO settings (user_id, theme, mails) VALUES ('dan', 'dark', 1)")
        for table in TABLES:
            connection.execute(f"UPDATE {table} SET deleted = 1 WHERE user_id = 'bob'")  # noqa: S608 (our own names)


def main() -> None:
    """Create and fill the database; with `--change`, change some of its rows."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--change", action="store_true")
    given = parser.parse_args()
    if given.change:
        change(given.path)
    else:
        create(given.path)
        fill(given.path)


if __name__ == "__main__":
    main()
