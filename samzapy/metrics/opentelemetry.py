"""Exports a container's metrics over OTLP, under the same names as for Prometheus.

Only the registry counts. Each report converts the series of a snapshot to OpenTelemetry's data points and passes them
to its exporter. A counter becomes a monotonic sum, a summary two of them (`_sum`, `_count`), a histogram one with
explicit bounds, everything else a gauge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from math import inf
from typing import Any, cast

from samzapy.api.metrics import MetricsRegistry
from samzapy.clock import Clock
from samzapy.errors import EnvironmentFailure, RetriableError
from samzapy.metrics.bounded import Labels, Sample, Series
from samzapy.metrics.families import BOUND, BUCKET, PREFIX, Kind
from samzapy.metrics.series import ContainerSnapshot, container_series
from samzapy.metrics.snapshots import Reporter, Shown, SnapshotHeader
from samzapy.version import VERSION

#: Time limit of one export in seconds, retries included.
TIMEOUT_S = 5.0
_NS_A_MS = 1_000_000

#: Exports OpenTelemetry's `MetricsData`; returns whether it was delivered.
Export = Callable[[Any], bool]


def otlp_export(endpoint: str | None, key: str) -> Export:
    """Exports over OTLP/HTTP to `endpoint`; by default, to the endpoint of OpenTelemetry's environment variables.

    Raises EnvironmentFailure, naming `key`, without the extra `samzapy[otel]`.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415
        from opentelemetry.sdk.metrics.export import MetricExportResult  # noqa: PLC0415
    except ImportError as cause:
        raise EnvironmentFailure(f"{key}=otel: needs OpenTelemetry ({cause}): pip install 'samzapy[otel]'") from cause
    exporter = OTLPMetricExporter(endpoint=endpoint, timeout=TIMEOUT_S)

    def export(data: Any) -> bool:
        try:
            delivered = exporter.export(data, timeout_millis=TIMEOUT_S * 1000)
        except Exception as cause:  # metrics never end a job
            raise RetriableError(f"OpenTelemetry's exporter failed ({type(cause).__name__}: {cause})") from cause
        return bool(delivered is MetricExportResult.SUCCESS)

    return export


class OpenTelemetryReporter(Reporter):
    """Passes a container's metrics to `export`; the resource names the job, as the service, and the container.

    Groups named in `tasks` belong to tasks. `blacklist` is as in SnapshotReporter.
    """

    def __init__(
        self,
        registry: MetricsRegistry,
        tasks: frozenset[str],
        header: SnapshotHeader,
        export: Export,
        clock: Clock,
        interval_s: float = 60,
        blacklist: str | None = None,
    ) -> None:
        super().__init__(header.container, clock, interval_s)
        self._registry, self._tasks, self._header, self._export = registry, tasks, header, export
        self._shown = Shown(blacklist)
        self._since_ns = clock.wall_ms() * _NS_A_MS
        self._resource = {
            "service.name": header.job_name,
            "service.namespace": header.job_id,
            "service.instance.id": f"{header.job_name}-{header.job_id}-{header.container}",
            "host.name": header.host,
        }

    def publish(self) -> None:
        header = self._header
        container = ContainerSnapshot(header.container, self._tasks, self._shown(self._registry.snapshot()))
        series = container_series(header.job_name, container)
        data = metrics_data(series, self._resource, self._since_ns, self._clock.wall_ms() * _NS_A_MS)
        if not self._export(data):
            raise RetriableError("OpenTelemetry's exporter did not deliver them")


def metrics_data(series: Iterable[Series], resource: Mapping[str, str], since_ns: int, now_ns: int) -> Any:
    """Series as `MetricsData`. Times are in nanoseconds since 1970."""
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415

    metrics = [metric for each in series for metric in _metrics(each, since_ns, now_ns)]
    scope = ScopeMetrics(InstrumentationScope("samzapy", VERSION), metrics, "")
    return MetricsData([ResourceMetrics(Resource(dict(resource)), [scope], "")])


def _metrics(series: Series, since_ns: int, now_ns: int) -> Iterator[Any]:
    from opentelemetry.sdk.metrics.export import (  # noqa: PLC0415
        AggregationTemporality,
        Gauge,
        Metric,
        NumberDataPoint,
        Sum,
    )

    family, samples = series
    if family.kind is Kind.HISTOGRAM:
        yield _histogram(series, since_ns, now_ns)
        return
    by_part: dict[str, list[Sample]] = {}
    for sample in samples:
        by_part.setdefault(sample.part, []).append(sample)
    for part, values in by_part.items():
        points = [NumberDataPoint(dict(each.labels), since_ns, now_ns, each.value) for each in values]
        grows = family.kind in {Kind.COUNTER, Kind.SUMMARY}
        data = Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True) if grows else Gauge(points)
        yield Metric(f"{PREFIX}{family.name}{part}", family.help, _unit(family.name, part), data)


def _histogram(series: Series, since_ns: int, now_ns: int) -> Any:
    """A histogram: its data points count the values of each bucket, Prometheus counts the values up to each bound."""
    from opentelemetry.sdk.metrics.export import (  # noqa: PLC0415
        AggregationTemporality,
        Histogram,
        HistogramDataPoint,
        Metric,
    )

    family, samples = series
    of_one: dict[Labels, dict[str, float]] = {}
    for sample in samples:
        labels = tuple([pair for pair in sample.labels if pair[0] != BOUND])
        part = dict(sample.labels)[BOUND] if sample.part == BUCKET else sample.part
        of_one.setdefault(labels, {})[part] = sample.value
    points, unknown = [], cast("float", None)
    for labels, values in of_one.items():
        # A reporter's blacklist may have left some of them out.
        total, count = values.pop("_sum", 0.0), int(values.pop("_count", 0))
        found = {float(bound): int(below) for bound, below in values.items()}
        bounds = sorted(found.keys() - {inf})
        counts = [high - low for low, high in pairwise([0, *(found[bound] for bound in bounds), count])]
        points.append(
            HistogramDataPoint(dict(labels), since_ns, now_ns, count, total, counts, bounds, unknown, unknown)
        )
    data = Histogram(points, AggregationTemporality.CUMULATIVE)
    return Metric(f"{PREFIX}{family.name}", family.help, _unit(family.name, ""), data)


def _unit(name: str, part: str) -> str:
    """The unit in UCUM notation, as OpenTelemetry expects it."""
    if part == "_count":
        return "1"
    return "s" if name.endswith("_seconds") else "By" if name.endswith("_bytes") else "1"
