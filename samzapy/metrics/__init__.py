"""The metrics of a container and of a job: kept, named, and published.

registry        counters, gauges and timers by group and name, and snapshots of them
reporters       those that a job file asks for: `snapshots` (JSON in Samza's shape) and `opentelemetry`
families        the names, types and help texts under which Prometheus and OpenTelemetry get them
series          the series of a job or of a container, with their labels, in bounded number
prometheus      the series as Prometheus text; `endpoint` serves a container's
health          whether a job is alive, and whether it is ready
dashboard       a Grafana dashboard; `rules.yml` beside it has alert rules
"""

from samzapy.metrics.registry import Registry
from samzapy.metrics.reporters import reporters
from samzapy.metrics.snapshots import (
    Publish,
    Reporter,
    SnapshotHeader,
    SnapshotReporter,
    log_publisher,
    task_snapshots,
)

__all__ = [
    "Publish",
    "Registry",
    "Reporter",
    "SnapshotHeader",
    "SnapshotReporter",
    "log_publisher",
    "reporters",
    "task_snapshots",
]
