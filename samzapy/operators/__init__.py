"""Building blocks for tasks, made of the task API and stores alone."""

from samzapy.operators.deduplicate import DeduplicatingTask, Deduplicator

__all__ = ["DeduplicatingTask", "Deduplicator"]
