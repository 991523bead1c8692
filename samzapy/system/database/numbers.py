"""The numbers a table has given out, where the database remembers: rows may be gone, their numbers are not given again."""

from __future__ import annotations

import sqlalchemy as sa

from samzapy.system.database.table import SourceTable

_POSTGRES = sa.text(
    "SELECT last_value FROM pg_sequences WHERE to_regclass(quote_ident(schemaname) || '.' || quote_ident(sequencename))"
    " = pg_get_serial_sequence(:table, :column)::regclass"
)
_SQLITE = sa.text("SELECT seq FROM sqlite_sequence WHERE name = :table")


def last_number(connection: sa.Connection, source: SourceTable) -> int | None:
    """The last number of the order column that was given out; None where nobody knows: the column is not filled from a
    sequence of its own, or it may not be looked at."""
    dialect = connection.dialect
    found = None
    if dialect.name == "postgresql":
        table = dialect.identifier_preparer.format_table(source.table)
        found = connection.scalar(_POSTGRES, {"table": table, "column": source.order.name})
    elif dialect.name == "sqlite" and source.order.primary_key and sa.inspect(connection).has_table("sqlite_sequence"):
        found = connection.scalar(_SQLITE, {"table": source.table.name})
    return None if found is None else int(found)
