"""The metrics of a container and of a job: kept, named, and published.

registry     counters, gauges and timers by group and name, and snapshots of them
snapshots    snapshots as JSON, in Samza's shape, to a stream or to the log
families     the names, types and help texts under which Prometheus and OpenTelemetry get them
series       the series of a job or of a container, with their labels, in bounded number
prometheus   the series as Prometheus text
health       whether a job is alive, and whether it is ready
"""

from samzapy.metrics.registry import Registry
from samzapy.metrics.snapshots import (
    Publish,
    SnapshotHeader,
    SnapshotReporter,
    log_publisher,
    reporters,
    task_snapshots,
)

__all__ = [
    "Publish",
    "Registry",
    "SnapshotHeader",
    "SnapshotReporter",
    "log_publisher",
    "reporters",
    "task_snapshots",
]
