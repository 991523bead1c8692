"""Numbers about a running container: kept by name, told as snapshots."""

from samzapy.metrics.registry import Registry
from samzapy.metrics.reporter import Publish, SnapshotHeader, SnapshotReporter, log_publisher, reporters

__all__ = ["Publish", "Registry", "SnapshotHeader", "SnapshotReporter", "log_publisher", "reporters"]
