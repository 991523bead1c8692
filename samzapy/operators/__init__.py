"""Building blocks for tasks, made of the task API and stores alone.

windows        aggregations over windows of event time
joins          joins of tables, of streams, and of both
persistent     states kept by checkpoints at event times (Gearpump)
deduplicate    drops repetitions
columns        batches as columns
event_time     how far event time has come in a store, by partition; durations such as "5m"
expiry         an index of entries by the time they are due
"""

from samzapy.operators.deduplicate import DeduplicatingTask, Deduplicator

__all__ = ["DeduplicatingTask", "Deduplicator"]
