"""Gearpump's Persistent API: states folded from messages, kept by checkpoints at event times.

task          PersistentTask: process_message(state, message); PersistentBatchTask: process_messages(state, batch)
states        NonWindowState, WindowState, and their parts before and after a checkpoint time
monoids       the sums, counts and so on that states fold with; write your own like these
sketches      HyperLogLog
checkpoints   the time of the next checkpoint, and its bytes
"""

from samzapy.operators.persistent.monoids import (
    Average,
    Count,
    Distinct,
    Group,
    HyperLogLog,
    Keyed,
    Max,
    Min,
    Monoid,
    Sum,
)
from samzapy.operators.persistent.states import NonWindowState, PersistentState, WindowState
from samzapy.operators.persistent.task import PersistentBatchTask, PersistentTask

__all__ = [
    "Average",
    "Count",
    "Distinct",
    "Group",
    "HyperLogLog",
    "Keyed",
    "Max",
    "Min",
    "Monoid",
    "NonWindowState",
    "PersistentBatchTask",
    "PersistentState",
    "PersistentTask",
    "Sum",
    "WindowState",
]
