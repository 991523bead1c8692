"""Counts, names and publishes the metrics of a container.

registry        counters, gauges, timers and histograms by group and name, snapshots of them, and their series
families        the names, types and help texts for Prometheus and OpenTelemetry
reporters       the reporters of a job file: `snapshot` and `log` (JSON in Samza's format), `otel`
dashboard       a Grafana dashboard, and the alert rules of `rules.yml`
"""

from samzapy.metrics.registry import Registry, UserMetrics
from samzapy.metrics.reporters import Publish, Reporter, SnapshotHeader, reporters

__all__ = ["Publish", "Registry", "Reporter", "SnapshotHeader", "UserMetrics", "reporters"]
