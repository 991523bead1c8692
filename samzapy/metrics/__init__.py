"""Counts, names and publishes the metrics of a container.

registry        counters, gauges, timers and histograms by group and name, and snapshots of them
families        the names, types and help texts for Prometheus and OpenTelemetry
series          the metrics of a container, as prometheus_client writes them
reporters       the reporters of a job file: `snapshot` and `log` (JSON in Samza's format), `otel`
opentelemetry   the export of OTLP
prometheus      the port of a container that serves them
dashboard       a Grafana dashboard, and the alert rules of `rules.yml`
"""

from samzapy.metrics.registry import Registry, UserMetrics
from samzapy.metrics.reporters import Publish, Reporter, SnapshotHeader, reporters

__all__ = [
    "Publish",
    "Registry",
    "Reporter",
    "SnapshotHeader",
    "UserMetrics",
    "reporters",
]
