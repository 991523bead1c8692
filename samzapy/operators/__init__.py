"""Building blocks for tasks, made of the task API and stores alone. Joins are in `samzapy.operators.joins`."""

from samzapy.operators.deduplicate import DeduplicatingTask, Deduplicator

__all__ = ["DeduplicatingTask", "Deduplicator"]
