"""Tables of a database as streams: polled by a column that grows.

A table is a stream of changes, as Samza's state documentation asks for it: a job can be set back to zero and replays the
table as it is now. A row that is changed again and gets a new place in the order is read at
its new place only, so the stream is that of a compacted topic with a cleaner that never rests.

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
    import sqlalchemy  # noqa: F401  # the one place that reports it missing
except ImportError as cause:
    raise ImportError("needs SQLAlchemy 2; install it: pip install 'samzapy[database]'") from cause

from samzapy.system.database.factory import DatabaseSystemFactory

__all__ = ["DatabaseSystemFactory"]
