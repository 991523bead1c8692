"""The reporters of a job file: snapshots as JSON in Samza's format, to a stream or the log, and OTLP.

Samza publishes one snapshot for each task, with the source `TaskName-Partition 0`, and names a store's metrics
`STORE-PROPERTY` in the group of the class that counts them. `task_snapshots` repeats the metrics of a task's stores
that way, so that dashboards made for Samza find them. The first group has every property of a store, the others only
Samza's:

    KeyValueStoreMetrics            counts-gets, counts-puts, counts-deletes, counts-flushes, ... every property
    CachedStoreMetrics              counts-gets, ..., counts-cache-hits, counts-dirty-count, counts-cache-size
    KeyValueStorageEngineMetrics    counts-gets, ..., counts-messages-restored, counts-messages-bytes

OTLP has the names of Prometheus. A counter becomes a monotonic sum, a summary two of them (`_sum`, `_count`), a
histogram one with explicit bounds, everything else a gauge.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any, cast

from samzapy.api.stream import SystemStream, grouped
from samzapy.clock import Clock, Schedule
from samzapy.config.supervision import ReporterConfig
from samzapy.errors import EnvironmentFailure, RetriableError, SamzapyError
from samzapy.metrics.families import BOUND
from samzapy.metrics.registry import IsShown, Registry, container_series
from samzapy.strict_json import encode
from samzapy.version import VERSION

if TYPE_CHECKING:
    from prometheus_client import Metric

logger = logging.getLogger(__package__)

#: Exports OpenTelemetry's `MetricsData`; returns whether it was delivered.
Export = Callable[[Any], bool]

Groups = dict[str, dict[str, float]]

#: The prefix of a store's metrics in its task's group: `store.NAME.PROPERTY`.
STORE = "store."
_PACKAGE = "org.apache.samza.storage.kv."
_CALLS = {"gets": "gets", "puts": "puts", "deletes": "deletes", "flushes": "flushes"}
#: For each group, our name of a property and Samza's.
_GROUPS: Mapping[str, Mapping[str, str]] = {
    f"{_PACKAGE}CachedStoreMetrics": {
        **_CALLS,
        "hits": "cache-hits",
        "dirty-entries": "dirty-count",
        "cached-entries": "cache-size",
    },
    f"{_PACKAGE}KeyValueStorageEngineMetrics": {
        **_CALLS,
        "messages-restored": "messages-restored",
        "messages-bytes": "messages-bytes",
    },
}
_EVERYTHING = f"{_PACKAGE}KeyValueStoreMetrics"


def task_snapshots(metrics: Mapping[str, Mapping[str, float]]) -> Iterator[tuple[str, Groups]]:
    """The source and the groups of each task with stores; `metrics` are a container's, by group and name."""
    for task, values in metrics.items():
        groups: Groups = {}
        for name, value in values.items():
            if name.startswith(STORE):
                store, _, leaf = name.removeprefix(STORE).rpartition(".")
                groups.setdefault(_EVERYTHING, {})[f"{store}-{leaf}"] = value
                for group, names in _GROUPS.items():
                    if leaf in names:
                        groups.setdefault(group, {})[f"{store}-{names[leaf]}"] = value
        if groups:
            yield f"TaskName-{task}", groups


#: Publishes the bytes of a snapshot.
Publish = Callable[[bytes], None]


@dataclass(frozen=True)
class SnapshotHeader:
    """The container that reports."""

    job_name: str
    job_id: str
    container: str
    host: str


class Reporter:
    """Calls `publish` every `interval_s` seconds. Used by one thread.

    `publish` may raise anything: a failure is logged, and never ends the job.
    """

    def __init__(self, container: str, publish: Callable[[], None], clock: Clock, interval_s: float = 60) -> None:
        self._container, self._publish, self._clock = container, publish, clock
        self._schedule = Schedule(round(interval_s * 1000), clock.monotonic())

    def tick(self) -> bool:
        """Publish if an interval has passed; returns whether it did. Missed intervals are skipped."""
        due = self._schedule.due(self._clock.monotonic())
        if due:
            self.report()
        return due

    def report(self) -> None:
        """Publish now, whatever the interval."""
        try:
            self._publish()
        except SamzapyError as cause:
            logger.warning("The metrics of container %s were not published: %s", self._container, cause)
        except Exception:
            # The reporters share a thread: one must not end the others.
            logger.exception("The metrics of container %s were not published", self._container)


def snapshots(
    registry: Registry, header: SnapshotHeader, publish: Publish, clock: Clock, is_shown: IsShown
) -> Callable[[], None]:
    """Publishes snapshots in Samza's format.

    `{"header": {"job-name", "job-id", "container-name", "source", "host", "time", "reset-time", "version",
    "samza-version"}, "metrics": {group: {name: value}}}`, with times in milliseconds since 1970. One snapshot has all
    metrics under our names; one for each task has its stores under Samza's (`task_snapshots`).
    """
    container = f"samza-container-{header.container}"
    of_container = {
        "job-name": header.job_name,
        "job-id": header.job_id,
        "container-name": container,
        "host": header.host,
        "reset-time": clock.wall_ms(),
        "version": VERSION,
        "samza-version": VERSION,
    }

    def publish_all() -> None:
        metrics = registry.snapshot()
        for source, groups in ((container, metrics), *task_snapshots(metrics)):
            shown = {
                group: {name: value for name, value in values.items() if is_shown(group, name)}
                for group, values in groups.items()
            }
            publish(encode({"header": {**of_container, "source": source, "time": clock.wall_ms()}, "metrics": shown}))

    return publish_all


def otlp(
    registry: Registry, tasks: Collection[str], header: SnapshotHeader, export: Export, clock: Clock, is_shown: IsShown
) -> Callable[[], None]:
    """Passes the metrics to `export`; the resource names the job, as the service, and the container. Groups named in
    `tasks` belong to tasks."""
    since_ms = clock.wall_ms()
    resource = {
        "service.name": header.job_name,
        "service.namespace": header.job_id,
        "service.instance.id": f"{header.job_name}-{header.job_id}-{header.container}",
        "host.name": header.host,
    }

    def publish() -> None:
        series = container_series(header.job_name, header.container, tasks, registry, is_shown)
        if not export(metrics_data(series.collect(), resource, since_ms, clock.wall_ms())):
            raise RetriableError("OpenTelemetry's exporter did not deliver them")

    return publish


def reporters(
    configs: Iterable[ReporterConfig],
    registry: Registry,
    header: SnapshotHeader,
    publisher_of: Callable[[SystemStream], Publish],
    clock: Clock,
    tasks: Collection[str] = (),
) -> list[Reporter]:
    """The reporters of a container, in order. `publisher_of` makes a publisher for a stream; `tasks` are the
    container's.

    Raises EnvironmentFailure if a reporter needs a library that is not installed.
    """

    def publishing(config: ReporterConfig) -> Callable[[], None]:
        is_shown = without(config.blacklist or "")
        if config.kind == "otel":
            export = otlp_export(f"metrics.reporter.{config.name}.class")
            return otlp(registry, tasks, header, export, clock, is_shown)
        return snapshots(registry, header, publisher_of(config.stream) if config.stream else _log, clock, is_shown)

    return [Reporter(header.container, publishing(item), clock, item.interval_s) for item in configs]


def without(blacklist: str) -> IsShown:
    """Drops the metrics with a `group.name` that the regular expression matches as a whole."""
    hidden = re.compile(blacklist)
    return lambda group, name: not hidden.fullmatch(f"{group}.{name}")


def _log(snapshot: bytes) -> None:
    logger.info("%s", snapshot.decode())


#: Time limit of one export in seconds, retries included.
TIMEOUT_S = 5.0
_NS_PER_MS = 1_000_000


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

    for name, samples in grouped((sample.name, sample) for sample in metric.samples).items():
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
