"""Building blocks for tasks, built only on the task API and stores.

windows        aggregations over windows of event time
joins          joins of tables, of streams, and of both
persistent     states kept by checkpoints at event times (Gearpump)
folds          counts, sums and so on, for windows and persistent states
deduplicate    drops repetitions
columns        batches as columns
event_time     the progress of event time in a store, by partition; durations such as "5m"
expiry         an index of entries by time
"""

from samzapy.operators.deduplicate import DeduplicatingTask, Deduplicator

__all__ = ["DeduplicatingTask", "Deduplicator"]
