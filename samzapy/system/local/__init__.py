"""The embedded system: partitioned, offset-addressed, transactional logs in one SQLite file.

One file a system, shared by the processes of one machine. Tables (`database` has them in full)::

    streams      name, id, partitions, configuration
    partitions   slot of (stream, number); oldest, upcoming
    records      (slot, position) -> timestamp, key, value, headers
    producers    transactional id -> epoch, deadline of its open transaction
    open_ranges  positions written by transactions that are still open

A record of an open transaction is in `records`, takes its offset and counts in `upcoming`; readers stop at the first
open range of a partition, so they return decided records only. Commit removes the ranges, abort their records as well.
"""

from samzapy.system.local.factory import LocalSystemFactory

__all__ = ["LocalSystemFactory"]
