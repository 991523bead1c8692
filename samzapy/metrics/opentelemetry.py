"""Exports metrics over OTLP, under the same names as for Prometheus.

A counter becomes a monotonic sum, a summary two of them (`_sum`, `_count`), a histogram one with explicit bounds,
everything else a gauge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any, cast

from samzapy.errors import EnvironmentFailure, RetriableError
from samzapy.metrics.families import BOUND
from samzapy.version import VERSION

if TYPE_CHECKING:
    from prometheus_client import Metric
    from prometheus_client.samples import Sample

#: Time limit of one export in seconds, retries included.
TIMEOUT_S = 5.0
_NS_PER_MS = 1_000_000

#: Exports OpenTelemetry's `MetricsData`; returns whether it was delivered.
Export = Callable[[Any], bool]


def otlp_export(key: str) -> Export:
    """Exports over OTLP/HTTP to the endpoint of OpenTelemetry's environment variables.

    Raises EnvironmentFailure, naming `key`, without the extra `samzapy[otel]`.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415
        from opentelemetry.sdk.metrics.export import MetricExportResult  # noqa: PLC0415
    except ImportError as cause:
        raise EnvironmentFailure(f"{key}=otel: needs OpenTelemetry ({cause}): pip install 'samzapy[otel]'") from cause
    exporter = OTLPMetricExporter(timeout=TIMEOUT_S)

    def export(data: Any) -> bool:
        try:
            delivered = exporter.export(data, timeout_millis=TIMEOUT_S * 1000)
        except Exception as cause:  # metrics never end a job
            raise RetriableError(f"OpenTelemetry's exporter failed ({type(cause).__name__}: {cause})") from cause
        return bool(delivered is MetricExportResult.SUCCESS)

    return export


def metrics_data(metrics: Iterable[Metric], resource: Mapping[str, str], since_ms: int, now_ms: int) -> Any:
    """Metrics as `MetricsData`. Times are in milliseconds since 1970."""
    from opentelemetry.sdk.metrics.export import Metric as Exported  # noqa: PLC0415
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415

    times = since_ms * _NS_PER_MS, now_ms * _NS_PER_MS
    exported = [
        Exported(name, metric.documentation, _unit(name), data)
        for metric in metrics
        for name, data in (_histogram if metric.type == "histogram" else _numbers)(metric, times)
    ]
    scope = ScopeMetrics(InstrumentationScope("samzapy", VERSION), exported, "")
    return MetricsData([ResourceMetrics(Resource(dict(resource)), [scope], "")])


def _numbers(metric: Metric, times: tuple[int, int]) -> Iterator[tuple[str, Any]]:
    from opentelemetry.sdk.metrics.export import AggregationTemporality, Gauge, NumberDataPoint, Sum  # noqa: PLC0415

    by_name: dict[str, list[Sample]] = {}
    for sample in metric.samples:
        by_name.setdefault(sample.name, []).append(sample)
    for name, samples in by_name.items():
        points = [NumberDataPoint(sample.labels, *times, sample.value) for sample in samples]
        if metric.type == "counter":
            yield metric.name, Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
        elif metric.type == "summary":
            yield name, Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
        else:
            yield name, Gauge(points)


def _histogram(metric: Metric, times: tuple[int, int]) -> Iterator[tuple[str, Any]]:
    """A histogram: its data points count the values of each bucket, Prometheus counts the values up to each bound."""
    from opentelemetry.sdk.metrics.export import AggregationTemporality, Histogram, HistogramDataPoint  # noqa: PLC0415

    by_labels: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
    for sample in metric.samples:
        labels = tuple([pair for pair in sample.labels.items() if pair[0] != BOUND])
        by_labels.setdefault(labels, {})[sample.labels.get(BOUND, sample.name)] = sample.value
    points, unknown = [], cast("float", None)
    for labels, values in by_labels.items():
        # A reporter's blacklist may have left some of them out.
        total, count = values.pop(f"{metric.name}_sum", 0.0), int(values.pop(f"{metric.name}_count", 0))
        below = {float(bound): int(number) for bound, number in values.items()}
        bounds = sorted(below.keys() - {inf})
        counts = [high - low for low, high in pairwise([0, *(below[bound] for bound in bounds), count])]
        points.append(HistogramDataPoint(dict(labels), *times, count, total, counts, bounds, unknown, unknown))
    yield metric.name, Histogram(points, AggregationTemporality.CUMULATIVE)


def _unit(name: str) -> str:
    """The unit in UCUM notation, as OpenTelemetry expects it."""
    seconds, size = ("_seconds", "_seconds_sum"), ("_bytes", "_bytes_sum")
    return "s" if name.endswith(seconds) else "By" if name.endswith(size) else "1"
