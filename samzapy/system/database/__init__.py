"""Tables of a database as streams: polled by a column that grows.

What comes out of a table is what Samza's state documentation asks of a database: a stream of changes that can be set
back to zero, to replay the table as it is now. A row that is changed again and gets a new place in the order is read at
its new place only, so the stream is that of a compacted topic whose cleaner never rests.

    order.by a unique integer   offset = the integer
    order.by a timestamp        offset = whole seconds since 1970 x 2^30 + the row's number within its second, and
                                         2^30 - 1 as the number of the last one

Rows come in this order and each at least once; `settled` says when a row may be read, so that none that is committed
later takes a place that is already behind. With an integer, offsets are the same in every read. With a timestamp, which
rows a second holds may change between two reads, so a second is read as a whole: a commit stands between two seconds
(`boundary`), and who starts in the middle of one gets its rows again, under the numbers that follow. Rows that are
deleted are not seen, but for the offset: mark them instead.
"""

try:
    import sqlalchemy  # noqa: F401  # what is missing is said once, here
except ImportError as cause:
    raise ImportError("needs SQLAlchemy 2; install it: pip install 'samzapy[database]'") from cause

from samzapy.system.database.factory import DatabaseSystemFactory

__all__ = ["DatabaseSystemFactory"]
