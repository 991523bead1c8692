"""Joins of two inputs that are keyed alike and have the same number of partitions, as parts of a task.

===================== ================================================ ===================================================
join                  what meets                                       what comes out
===================== ================================================ ===================================================
`TableTableJoin`      the newest of each table, by key                 a row in the store; its changelog is the output
`StreamTableJoin`     a message and the newest row of its key          each message, at once
`StreamStreamJoin`    messages of a key that are close in event time   every pair at once, what found none when it expires
`AsOfJoin`            a message and the last one of its key before it  each message, once nothing can come before it
===================== ================================================ ===================================================

The last two go by event time. What comes out of them is a function of what is in the partitions: not of the order in
which these were read from different partitions, of when `window` was called, or of where the task was restarted.
"""

from samzapy.operators.joins.as_of import AsOfJoin
from samzapy.operators.joins.pending import TimeRules
from samzapy.operators.joins.results import Joined, Side
from samzapy.operators.joins.stream_stream import StreamStreamJoin, Within
from samzapy.operators.joins.stream_table import StreamTableJoin
from samzapy.operators.joins.table_table import TableTableJoin

__all__ = [
    "AsOfJoin",
    "Joined",
    "Side",
    "StreamStreamJoin",
    "StreamTableJoin",
    "TableTableJoin",
    "TimeRules",
    "Within",
]
