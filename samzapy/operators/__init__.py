"""Building blocks for tasks, made of the task API and stores alone.

windows        aggregation over windows of event time
joins          of tables, of streams, and of both
persistent     states kept by checkpoints at event times (Gearpump)
deduplicate    dropping repetitions
event_time     how far event time has come, by partition; who is late
expiry         what is due when
durations      "5m"
"""

from samzapy.operators.deduplicate import DeduplicatingTask, Deduplicator

__all__ = ["DeduplicatingTask", "Deduplicator"]
