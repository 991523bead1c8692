"""Publishes snapshots of a container's metrics as JSON lines, in Samza's format.

1. `SnapshotReporter` publishes them to a stream or to the log at a fixed interval.
2. `task_snapshots` repeats the metrics of a task's stores under Samza's groups and names, so that dashboards made for
   Samza find them. Samza publishes one snapshot for each task, with the source `TaskName-Partition 0`, and names a
   store's metrics `STORE-PROPERTY` in the group of the class that counts them. The first group has every property of a
   store, the others only Samza's:

    KeyValueStoreMetrics            counts-gets, counts-puts, counts-deletes, counts-flushes, ... every property
    CachedStoreMetrics              counts-gets, ..., counts-cache-hits, counts-dirty-count, counts-cache-size
    KeyValueStorageEngineMetrics    counts-gets, ..., counts-messages-restored, counts-messages-bytes
"""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import orjson

from samzapy.api.metrics import MetricsRegistry
from samzapy.clock import Clock
from samzapy.errors import SamzapyError
from samzapy.metrics.columns import Snapshot, counters_of
from samzapy.version import VERSION

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


logger = logging.getLogger(__package__)

#: Publishes the bytes of a snapshot.
Publish = Callable[[bytes], None]


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


class Shown:
    """Drops the metrics with a `group.name` that the regular expression `blacklist` matches as a whole."""

    def __init__(self, blacklist: str | None) -> None:
        self._hidden = re.compile(blacklist) if blacklist else None

    def __call__(self, metrics: Mapping[str, Mapping[str, float]]) -> Mapping[str, Mapping[str, float]]:
        """`metrics` without the matching ones."""
        hidden = self._hidden
        if hidden is None:
            return metrics
        shown = {
            group: {name: value for name, value in values.items() if not hidden.fullmatch(f"{group}.{name}")}
            for group, values in metrics.items()
        }
        return Snapshot(shown, counters_of(metrics))


class SnapshotReporter(Reporter):
    """Publishes snapshots in Samza's format.

    `{"header": {"job-name", "job-id", "container-name", "source", "host", "time", "reset-time", "version",
    "samza-version"}, "metrics": {group: {name: value}}}`, with times in milliseconds since 1970. One snapshot has all
    metrics under our names; one for each task has its stores under Samza's (`task_snapshots`).
    """

    def __init__(
        self,
        registry: MetricsRegistry,
        header: SnapshotHeader,
        publish: Publish,
        clock: Clock,
        interval_s: float = 60,
        blacklist: str | None = None,
    ) -> None:
        super().__init__(header.container, clock, interval_s)
        self._registry, self._header, self._publish = registry, header, publish
        self._shown = Shown(blacklist)
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
            "metrics": self._shown(metrics),
        }
        return orjson.dumps(snapshot)


def log_publisher(target: logging.Logger = logger) -> Publish:
    """Publishes to the log, at level INFO."""
    return lambda snapshot: target.info("%s", snapshot.decode())
