"""The reporters of a job file: snapshots as JSON in Samza's format, to a stream or the log, and OTLP.

Samza publishes one snapshot for each task, with the source `TaskName-Partition 0`, and names a store's metrics
`STORE-PROPERTY` in the group of the class that counts them. `task_snapshots` repeats the metrics of a task's stores that
way, so that dashboards made for Samza find them. The first group has every property of a store, the others only Samza's:

    KeyValueStoreMetrics            counts-gets, counts-puts, counts-deletes, counts-flushes, ... every property
    CachedStoreMetrics              counts-gets, ..., counts-cache-hits, counts-dirty-count, counts-cache-size
    KeyValueStorageEngineMetrics    counts-gets, ..., counts-messages-restored, counts-messages-bytes
"""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from samzapy.api.stream import SystemStream
from samzapy.clock import Clock
from samzapy.config.supervision import ReporterConfig
from samzapy.errors import RetriableError, SamzapyError
from samzapy.metrics.opentelemetry import Export, metrics_data, otlp_export
from samzapy.metrics.registry import Registry
from samzapy.metrics.series import container_series
from samzapy.strict_json import encode
from samzapy.version import VERSION

logger = logging.getLogger(__package__)

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
                _add(groups, store, leaf, value)
        if groups:
            yield f"TaskName-{task}", groups


def _add(groups: Groups, store: str, leaf: str, value: float) -> None:
    groups.setdefault(_EVERYTHING, {})[f"{store}-{leaf}"] = value
    for group, names in _GROUPS.items():
        if leaf in names:
            groups.setdefault(group, {})[f"{store}-{names[leaf]}"] = value


#: Publishes the bytes of a snapshot.
Publish = Callable[[bytes], None]
#: Whether a metric is published, by group and name.
IsShown = Callable[[str, str], bool]


@dataclass(frozen=True)
class SnapshotHeader:
    """The container that reports."""

    job_name: str
    job_id: str
    container: str
    host: str


class Reporter(ABC):
    """Publishes the metrics of a container every `interval_s` seconds. Used by one thread.

    A failure to publish is logged as a warning; it never ends the job.
    """

    def __init__(self, container: str, clock: Clock, interval_s: float) -> None:
        self._container, self._clock, self._interval_s = container, clock, interval_s
        self._due = clock.monotonic() + interval_s

    @abstractmethod
    def publish(self) -> None:
        """Publish once. May raise anything."""

    def tick(self) -> bool:
        """Publish if an interval has passed; returns whether it did. Missed intervals are skipped."""
        now = self._clock.monotonic()
        if now < self._due:
            return False
        self._due = now + self._interval_s
        self.report()
        return True

    def report(self) -> None:
        """Publish now, whatever the interval. Logs a failure."""
        try:
            self.publish()
        except SamzapyError as cause:
            logger.warning("The metrics of container %s were not published: %s", self._container, cause)
        except Exception:
            # The reporters share a thread: one must not end the others.
            logger.exception("The metrics of container %s were not published", self._container)


class SnapshotReporter(Reporter):
    """Publishes snapshots in Samza's format.

    `{"header": {"job-name", "job-id", "container-name", "source", "host", "time", "reset-time", "version",
    "samza-version"}, "metrics": {group: {name: value}}}`, with times in milliseconds since 1970. One snapshot has all
    metrics under our names; one for each task has its stores under Samza's (`task_snapshots`).
    """

    def __init__(
        self,
        registry: Registry,
        header: SnapshotHeader,
        publish: Publish,
        clock: Clock,
        interval_s: float = 60,
        is_shown: IsShown = lambda group, name: True,  # noqa: ARG005
    ) -> None:
        super().__init__(header.container, clock, interval_s)
        self._registry, self._header, self._publish = registry, header, publish
        self._is_shown = is_shown
        self._reset_ms = clock.wall_ms()

    def publish(self) -> None:
        metrics = self._registry.snapshot()
        self._publish(self._snapshot(f"samza-container-{self._header.container}", metrics))
        for source, groups in task_snapshots(metrics):
            self._publish(self._snapshot(source, groups))

    def _snapshot(self, source: str, metrics: Mapping[str, Mapping[str, float]]) -> bytes:
        header = self._header
        snapshot = {
            "header": {
                "job-name": header.job_name,
                "job-id": header.job_id,
                "container-name": f"samza-container-{header.container}",
                "source": source,
                "host": header.host,
                "time": self._clock.wall_ms(),
                "reset-time": self._reset_ms,
                "version": VERSION,
                "samza-version": VERSION,
            },
            "metrics": {
                group: {name: value for name, value in values.items() if self._is_shown(group, name)}
                for group, values in metrics.items()
            },
        }
        return encode(snapshot)


class OpenTelemetryReporter(Reporter):
    """Passes a container's metrics to `export`; the resource names the job, as the service, and the container.

    Groups named in `tasks` belong to tasks.
    """

    def __init__(
        self,
        registry: Registry,
        tasks: Collection[str],
        header: SnapshotHeader,
        export: Export,
        clock: Clock,
        interval_s: float = 60,
        is_shown: IsShown = lambda group, name: True,  # noqa: ARG005
    ) -> None:
        super().__init__(header.container, clock, interval_s)
        self._registry, self._tasks, self._header, self._export = registry, tasks, header, export
        self._is_shown = is_shown
        self._since_ms = clock.wall_ms()
        self._resource = {
            "service.name": header.job_name,
            "service.namespace": header.job_id,
            "service.instance.id": f"{header.job_name}-{header.job_id}-{header.container}",
            "host.name": header.host,
        }

    def publish(self) -> None:
        header = self._header
        series = container_series(header.job_name, header.container, self._tasks, self._registry, self._is_shown)
        if not self._export(metrics_data(series.collect(), self._resource, self._since_ms, self._clock.wall_ms())):
            raise RetriableError("OpenTelemetry's exporter did not deliver them")


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

    def build(config: ReporterConfig) -> Reporter:
        is_shown = _without(config.blacklist)
        if config.kind == "otel":
            export = otlp_export(config.endpoint, f"metrics.reporter.{config.name}.class")
            return OpenTelemetryReporter(registry, tasks, header, export, clock, config.interval_s, is_shown)
        publish = _log if config.stream is None else publisher_of(config.stream)
        return SnapshotReporter(registry, header, publish, clock, config.interval_s, is_shown)

    return [build(config) for config in configs]


def _without(blacklist: str | None) -> IsShown:
    """Drops the metrics with a `group.name` that the regular expression matches as a whole."""
    if blacklist is None:
        return lambda group, name: True  # noqa: ARG005
    hidden = re.compile(blacklist)
    return lambda group, name: not hidden.fullmatch(f"{group}.{name}")


def _log(snapshot: bytes) -> None:
    logger.info("%s", snapshot.decode())
