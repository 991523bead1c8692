"""Gearpump's Persistent API: states folded from messages, kept by checkpoints at event times.

task        PersistentTask: process_message(state, message)
state       NonWindowState, and what a PersistentState is
windows     WindowState
monoids     what they fold with; yours are made like these
sketches    HyperLogLog
sides       what is before a checkpoint time, and what is after it
times       which checkpoint time is next
codec       a checkpoint's bytes
"""

from samzapy.operators.persistent.monoids import Average, Count, Distinct, Group, Keyed, Max, Min, Monoid, Sum
from samzapy.operators.persistent.sketches import HyperLogLog
from samzapy.operators.persistent.state import NonWindowState, PersistentState
from samzapy.operators.persistent.task import PersistentTask
from samzapy.operators.persistent.windows import WindowState

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
    "PersistentState",
    "PersistentTask",
    "Sum",
    "WindowState",
]
