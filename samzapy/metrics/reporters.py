"""Builds the metrics reporters of a job file."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from samzapy.api.metrics import MetricsRegistry
from samzapy.api.stream import SystemStream
from samzapy.clock import Clock
from samzapy.config.supervision import ReporterConfig
from samzapy.metrics.opentelemetry import OpenTelemetryReporter, otlp_export
from samzapy.metrics.snapshots import Publish, Reporter, SnapshotHeader, SnapshotReporter, log_publisher


def reporters(
    configs: Iterable[ReporterConfig],
    registry: MetricsRegistry,
    header: SnapshotHeader,
    publisher_of: Callable[[SystemStream], Publish],
    clock: Clock,
    tasks: Iterable[str] = (),
) -> list[Reporter]:
    """The reporters of a container, in order. `publisher_of` makes a publisher for a stream; `tasks` are the
    container's.

    Raises EnvironmentFailure if a reporter needs a library that is not installed.
    """
    names = frozenset(tasks)

    def made(config: ReporterConfig) -> Reporter:
        if config.kind == "otel":
            export = otlp_export(config.endpoint, f"metrics.reporter.{config.name}.class")
            return OpenTelemetryReporter(registry, names, header, export, clock, config.interval_s, config.blacklist)
        publish = log_publisher() if config.stream is None else publisher_of(config.stream)
        return SnapshotReporter(registry, header, publish, clock, config.interval_s, config.blacklist)

    return [made(config) for config in configs]
