"""Joins of two inputs with the same keys and the same number of partitions, as parts of a task.

    TableTableJoin    the newest of each table, by key: a row in the store, whose changelog is the output
    StreamTableJoin   a message and the newest row of its key: each message, at once
    StreamStreamJoin  messages of a key that are close in event time: every pair at once, others on expiry
    AsOfJoin          a message and the last one of its key before it: each message, once nothing can come before it

The last two use event time. Their results depend only on the contents of the partitions, not on the order in which the
task reads different partitions, on the moments of `window`, or on restarts.
"""

from samzapy.operators.joins.pending import TimeRules
from samzapy.operators.joins.stream_stream import StreamStreamJoin, Within
from samzapy.operators.joins.tables import AsOfJoin, StreamTableJoin, TableTableJoin
from samzapy.operators.joins.values import Joined, Side

__all__ = ["AsOfJoin", "Joined", "Side", "StreamStreamJoin", "StreamTableJoin", "TableTableJoin", "TimeRules", "Within"]
