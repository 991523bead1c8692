"""Finds a table in the database, and checks that it can be read with the settings of the job file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from samzapy.config.streams.database import TableConfig
from samzapy.errors import ConfigError, ConfigProblem, EnvironmentFailure
from samzapy.system.database.connection import Database

Column = sa.Column[Any]


@dataclass(frozen=True)
class SourceTable:
    """The columns of a stream by their parts. `ties` order rows of the same time; they are empty for a unique integer.
    `may_be_null`: the order column is declared nullable."""

    config: TableConfig
    where: str
    table: sa.Table
    order: Column
    ties: tuple[Column, ...]
    key: tuple[Column, ...]
    columns: tuple[Column, ...]
    deleted: Column | None
    timestamp: Column | None
    may_be_null: bool

    @property
    def by_time(self) -> bool:
        """Whether the order column is a timestamp."""
        return isinstance(self.order.type, sa.DateTime)


def find_table(database: Database, connection: sa.Connection, config: TableConfig) -> SourceTable:
    """The table of a stream. Raises EnvironmentFailure if it does not exist, ConfigError with every mismatch."""
    table = _reflect(database, connection, config.table)
    named = _Columns(table, config, database)
    order = named.one("order.by", config.order_by)
    key = named.some("key", config.key) if config.key else tuple(table.primary_key.columns)
    deleted = None if config.deleted_column is None else named.one("deleted.column", config.deleted_column)
    timestamp = None if config.timestamp_column is None else named.one("timestamp.column", config.timestamp_column)
    columns = named.some("columns", config.columns) or tuple(c for c in table.columns if c is not deleted)
    if not key:
        named.problem("key", None, f"required, since table {config.table} has no primary key")
    by_time = order is not None and isinstance(order.type, sa.DateTime)
    if timestamp is not None and not isinstance(timestamp.type, sa.DateTime):
        named.problem("timestamp.column", timestamp.name, f"a timestamp, this is {timestamp.type}")
    ties = named.ties(order) if order is not None else ()
    if named.problems:
        raise ConfigError(named.problems)
    assert order is not None
    return SourceTable(
        config,
        f"{database.config.system}.{config.stream}",
        table,
        order,
        ties,
        key,
        columns,
        deleted,
        timestamp if timestamp is not None else order if by_time else None,
        bool(order.nullable) and not order.primary_key,
    )


class _Columns:
    """Looks columns up, and collects the problems."""

    def __init__(self, table: sa.Table, config: TableConfig, database: Database) -> None:
        self.problems: list[ConfigProblem] = []
        self._table = table
        self._config = config
        self._shown = database.shown

    def problem(self, leaf: str, value: str | None, message: str) -> None:
        self.problems.append(ConfigProblem(f"{self._config.prefix}{leaf}", value, message))

    def one(self, leaf: str, name: str) -> Column | None:
        found = self._table.columns.get(name)
        if found is None:
            known = ", ".join(self._table.columns.keys())
            self.problem(leaf, name, f"a column of table {self._config.table} in {self._shown}: {known}")
        return found

    def some(self, leaf: str, names: Iterable[str]) -> tuple[Column, ...]:
        return tuple(found for name in names if (found := self.one(leaf, name)) is not None)

    def ties(self, order: Column) -> tuple[Column, ...]:
        """The columns that order rows with the same order column; a problem if rows stay equal."""
        primary = tuple(self._table.primary_key.columns)
        if isinstance(order.type, sa.Integer):
            if not self._is_unique((order.name,)):
                message = "an integer must be unique: the primary key, or with a unique index of its own"
                self.problem("order.by", order.name, message)
            return ()
        if not isinstance(order.type, sa.DateTime):
            self.problem("order.by", order.name, f"an integer or a timestamp, this is {order.type}")
        elif primary:
            return primary
        else:
            ties = self.some("key", self._config.key)
            if ties and not any(column.nullable for column in ties) and self._is_unique(self._config.key):
                return ties
            message = "a timestamp may repeat: the table needs a primary key, or a unique, not null key"
            self.problem("order.by", order.name, message)
        return ()

    def _is_unique(self, names: Iterable[str]) -> bool:
        table, wanted = self._table, set(names)
        sets = [{column.name for column in table.primary_key.columns}]
        sets += [
            {c.name for c in constraint.columns}
            for constraint in table.constraints
            if isinstance(constraint, sa.UniqueConstraint)
        ]
        sets += [{c.name for c in index.columns} for index in table.indexes if index.unique and not _is_partial(index)]
        return wanted in sets


def _is_partial(index: sa.Index) -> bool:
    # An index on an expression has fewer columns than expressions.
    return any(options.get("where") is not None for options in index.dialect_options.values()) or len(
        index.columns
    ) != len(index.expressions)


def _reflect(database: Database, connection: sa.Connection, name: str) -> sa.Table:
    schema, _, bare = name.rpartition(".")
    try:
        return sa.Table(bare, sa.MetaData(), schema=schema or None, autoload_with=connection, resolve_fks=False)
    except exc.NoSuchTableError:
        tables = ", ".join(sorted(sa.inspect(connection).get_table_names(schema or None))) or "none"
    raise EnvironmentFailure(f"{database}: table {name} does not exist; there are: {tables}")
