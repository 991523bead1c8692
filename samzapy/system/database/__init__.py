"""Tables of a database as streams: polled by a column that grows.

A table is a stream of changes, as Samza's state documentation asks for: a job that is set back to zero replays the
table's present rows. A row that is changed again moves to a new place in the order and is read there only, as in a
compacted topic that is always clean.

1. The order column is a unique integer, and the offset of a row. Offsets are the same in every read.
2. Rows come in this order, each at least once. `reader` decides when a row may be read, so that no row that is
   committed later takes a place that has already been passed.
3. Deleted rows are not seen: mark rows as deleted instead.
"""

try:
    import sqlalchemy  # noqa: F401  # the one place that reports it missing
except ImportError as cause:
    raise ImportError("needs SQLAlchemy 2; install it: pip install 'samzapy[database]'") from cause

from samzapy.system.database.factory import DatabaseSystemFactory

__all__ = ["DatabaseSystemFactory"]
