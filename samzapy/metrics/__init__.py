"""Collects, names and publishes the metrics of a container and of a job.

registry        counters, gauges and timers by group and name, and snapshots of them
reporters       the reporters of a job file: `snapshots` (JSON in Samza's format) and `opentelemetry`
families        the names, types and help texts for Prometheus and OpenTelemetry
series          the labelled series of a job or of a container; their number is bounded
prometheus      the series as Prometheus text, and the port that serves a container's
dashboard       a Grafana dashboard, and the alert rules of `rules.yml`
"""

from samzapy.metrics.registry import Registry, UserMetrics
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
    "UserMetrics",
    "log_publisher",
    "reporters",
    "task_snapshots",
]
