"""Gearpump's Persistent API: states folded from messages, kept by checkpoints at event times.

task      PersistentTask: process_message(state, message); PersistentBatchTask: process_messages(state, batch)
states    NonWindowState, WindowState, and their parts before and after a checkpoint time

The monoids that states fold with are in `samzapy.operators.folds`; write your own like these.
"""

from samzapy.operators.folds import Count, Distinct, HyperLogLog, Keyed, Max, Mean, Min, Monoid, Sum
from samzapy.operators.persistent.states import NonWindowState, PersistentState, WindowState
from samzapy.operators.persistent.task import PersistentBatchTask, PersistentTask

#: The names of version 0.1.0.
Average, Group = Mean, Monoid

__all__ = [
    "Average",
    "Count",
    "Distinct",
    "Group",
    "HyperLogLog",
    "Keyed",
    "Max",
    "Mean",
    "Min",
    "Monoid",
    "NonWindowState",
    "PersistentBatchTask",
    "PersistentState",
    "PersistentTask",
    "Sum",
    "WindowState",
]
