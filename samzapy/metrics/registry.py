"""Holds the counters, gauges, timers and histograms of one container, by group and name.

The registry counts in plain attributes, once per batch: `inc` of a metric of prometheus_client takes a lock. The
metrics of prometheus_client, with the names of `families`, are made from a snapshot, at a scrape or an export
(`Series`).
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, zip_longest
from math import inf, isfinite, isnan, nan
from typing import TYPE_CHECKING, Any, TypeVar

from samzapy.api.context import Counter, Gauge, Histogram, MetricsRegistry, Timer
from samzapy.clock import Clock
from samzapy.config.guarantee_warnings import COUNTS, ERRORS, GUARANTEE
from samzapy.errors import SamzapyError
from samzapy.metrics.families import BUCKET, LE, MARK, OF_CONTAINER, PREFIX, Family, Kind, container_metric, task_metric

if TYPE_CHECKING:
    from prometheus_client import Metric

logger = logging.getLogger(__name__)

#: Returns values by name. Called by any thread that takes a snapshot.
Source = Callable[[], Mapping[str, float]]

M = TypeVar("M", Counter, Gauge, Timer, Histogram)
_Metric = Counter | Gauge | Timer | Histogram

#: A double represents every integer up to this one exactly.
_EXACT = 2**53


class Registry(MetricsRegistry):
    """Creates a metric at the first request for it, and never resets or removes one: readers take differences.

    One thread writes the metrics. Any thread may call `snapshot`, which returns each number as of some moment during
    the call. A request for a name as another kind of metric raises SamzapyError.
    """

    def __init__(self) -> None:
        self._metrics: dict[tuple[str, str], _Metric] = {}
        # A list may be walked while another thread appends to it; a dict may not, and even copying one can be
        # interrupted.
        self._in_order: list[tuple[str, str, _Metric]] = []
        self.counters: set[tuple[str, str]] = set()
        """Group and name of each counter."""
        self._sources: dict[str, Source] = {}
        self._watched: list[str] = []
        self._asking = threading.Lock()

    def counter(self, group: str, name: str) -> Counter:
        return self._metric(group, name, Counter)

    def gauge(self, group: str, name: str) -> Gauge:
        return self._metric(group, name, Gauge)

    def timer(self, group: str, name: str) -> Timer:
        return self._metric(group, name, Timer)

    def histogram(self, group: str, name: str, bounds: Sequence[float]) -> Histogram:
        """The histogram with this name. Its bounds come from the first request. A timer may have the same name."""
        return self._metric(group, f"{name}{LE}", Histogram, bounds)

    def watch(self, group: str, source: Source) -> None:
        """Call `source` for the values of a group at every snapshot, one thread at a time. It replaces the group's
        previous source. A source that fails is left out and counted in `metrics.source-failures`."""
        new = group not in self._sources
        self._sources[group] = source
        if new:
            self._watched.append(group)

    def snapshot(self) -> dict[str, dict[str, float]]:
        """All current values as plain numbers, by group and name; NaN for a value that is not a number."""
        return self._values(self._in_order, self._watched)

    def numbers(self) -> dict[str, dict[str, float]]:
        """The first `MOST_NUMBERS` finite ones of `NUMBERS`; no other metric is looked at."""
        known = [(group, name) for group, names in NUMBERS.items() for name in names]
        held = [(*at, self._metrics[at]) for at in known if at in self._metrics]
        metrics = self._values(held, [group for group in NUMBERS if group in self._sources])
        found = [(of, name) for of, name in known if isfinite(metrics.get(of, {}).get(name, nan))][:MOST_NUMBERS]
        return {of: {name: metrics[of][name] for group, name in found if group == of} for of, _ in found}

    def _values(self, metrics: Iterable[tuple[str, str, _Metric]], watched: list[str]) -> dict[str, dict[str, float]]:
        groups: dict[str, dict[str, float]] = {}
        for group, name, metric in metrics:
            values = groups.setdefault(group, {})
            if isinstance(metric, Counter):
                values[name] = metric.count
            elif isinstance(metric, Gauge):
                values[name] = metric.value
            elif isinstance(metric, Histogram):
                values.update(_buckets(name, metric))
            else:
                values |= {f"{name}.count": metric.count, f"{name}.total-s": metric.total, f"{name}.max-s": metric.max}
        with self._asking:
            for group in watched:
                try:
                    groups.setdefault(group, {}).update(self._sources[group]())
                except Exception as cause:  # noqa: BLE001  # one failing source must not cost the others
                    self.counter("metrics", "source-failures").inc()
                    logger.debug("The metrics of '%s' cannot be read: %s", group, cause)
        return {group: {name: _plain(value) for name, value in values.items()} for group, values in groups.items()}

    def _metric(self, group: str, name: str, kind: type[M], *made_of: Any) -> M:
        metric = self._metrics.get((group, name))
        if metric is None:
            metric = self._metrics[group, name] = kind(*made_of)
            if kind is Counter:
                self.counters.add((group, name))
            self._in_order.append((group, name, metric))
        if not isinstance(metric, kind):
            is_, asked = type(metric).__name__.lower(), kind.__name__.lower()
            raise SamzapyError(f"metric {group}.{name} is a {is_}, not a {asked}")
        return metric


class UserMetrics(MetricsRegistry):
    """The registry as the user's code sees it: no group of that code is one of the container's."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._registry = registry

    def counter(self, group: str, name: str) -> Counter:
        return self._registry.counter(_own_group(group), name)

    def gauge(self, group: str, name: str) -> Gauge:
        return self._registry.gauge(_own_group(group), name)

    def timer(self, group: str, name: str) -> Timer:
        return self._registry.timer(_own_group(group), name)

    def histogram(self, group: str, name: str, bounds: Sequence[float]) -> Histogram:
        return self._registry.histogram(_own_group(group), name, bounds)

    def snapshot(self) -> dict[str, dict[str, float]]:
        return self._registry.snapshot()


def _own_group(group: str) -> str:
    return f"{MARK}{group}" if group in OF_CONTAINER else group


def _buckets(prefix: str, histogram: Histogram) -> Iterator[tuple[str, float]]:
    below = list(accumulate(histogram.counts))
    for bound, count in zip((*histogram.bounds, inf), below, strict=True):
        yield f"{prefix}{'+Inf' if bound == inf else bound}", count
    yield f"{prefix}sum", histogram.total
    yield f"{prefix}count", below[-1]


def _plain(value: object) -> float:
    """A value as a plain number; NaN if it is none, since a task may set a gauge to any object."""
    if type(value) is float or (type(value) is int and -_EXACT < value < _EXACT):
        return value
    try:
        return float(value)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001  # the object may raise anything
        return nan


Labels = tuple[tuple[str, str], ...]

#: The group of `recent`; its names have the steps of a commit that take time, and percentiles of process.
RECENT = "recent"
COMMIT_STEPS = ("serialize", "outputs", "changelog", "checkpoint", "stores")
PERCENTILES = {"p50": 0.5, "p99": 0.99}
#: Seconds that the numbers of `RECENT` are about.
RECENT_S = 10.0
#: The metrics of a container that its reports to the driver carry, the most important ones first: every counter of a
#: weakened guarantee, where the time goes, how the process is. All others are at the container's own port.
NUMBERS: Mapping[str, tuple[str, ...]] = {
    **{
        group: tuple(name.removeprefix(f"{group}.") for name in COUNTS if name.startswith(f"{group}."))
        for group in (ERRORS, GUARANTEE)
    },
    RECENT: ("busy", *PERCENTILES, *COMMIT_STEPS),
    "container": ("resident-bytes", "cpu-s", "starts"),
    "standby": ("lag",),
}
#: How many of them a report carries. A policy has one action for a stage, so few containers have as many.
MOST_NUMBERS = 20


def recent(metrics: MetricsRegistry, times: Histogram, clock: Clock, slots: int = 1) -> Source:
    """The numbers of `RECENT`: where the last `RECENT_S` seconds went. The mean seconds of the steps of a commit; by
    `times`, those of messages in `process`, percentiles as bounds of buckets, and `busy`, the share of time in
    `process` and commits, where `slots` messages may be in `process` at once. What is not known is absent."""
    in_flight = metrics.gauge("container", "in-flight-s")  # back to 0 in a new attempt

    def spans() -> Iterator[Mapping[str, float]]:
        at, spent, counts, result = clock.monotonic(), 0.0, [0], dict[str, float]()
        timers = {step: metrics.timer("commit", f"step.{step}") for step in COMMIT_STEPS}
        steps = dict.fromkeys(COMMIT_STEPS, (0, 0.0))
        while True:
            yield result
            if (now := clock.monotonic()) - at < RECENT_S:
                continue
            before, steps = steps, {step: (timer.count, timer.total) for step, timer in timers.items()}
            grown = {step: (count - before[step][0], sum_ - before[step][1]) for step, (count, sum_) in steps.items()}
            result = {step: sum_ / count for step, (count, sum_) in grown.items() if count}
            old, counts = counts, list(times.counts)
            below = list(accumulate(new - then for new, then in zip_longest(counts, old, fillvalue=0)))
            for name, part in PERCENTILES.items() if below[-1] else ():
                result[name] = times.bounds[min(bisect_left(below, part * below[-1]), len(times.bounds) - 1)]
            spent, then = (times.total + in_flight.value) / slots + sum(sum_ for _, sum_ in steps.values()), spent
            result["busy"], at = min(1.0, max(0.0, spent - then) / (now - at)), now

    return spans().__next__


def is_at_container(group: str, name: str) -> bool:
    """Whether a container serves a metric at its own port. The driver serves the others, so that no sum counts them
    twice."""
    return name not in NUMBERS.get(group, ())


#: The media type of the text.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Series:
    """Samples by family: a collector of prometheus_client. Values with equal names and labels are added up."""

    def __init__(self) -> None:
        self._families: dict[str, tuple[Family, dict[tuple[str, Labels], float]]] = {}

    def add(self, family: Family, value: float, labels: Labels, part: str = "") -> None:
        """Add a value in base units; `part` as in `Named`."""
        _, values = self._families.setdefault(family.name, (family, {}))
        values[part, labels] = values.get((part, labels), 0.0) + value

    def collect(self) -> list[Metric]:
        # Most containers are never scraped, and the import takes a twentieth of a second.
        from prometheus_client import Metric  # noqa: PLC0415

        metrics = []
        for _, (family, values) in sorted(self._families.items()):
            metric = Metric(PREFIX + family.name, family.help, family.kind.value)
            for (part, labels), value in values.items():
                name = f"{metric.name}{part or ('_total' if family.kind is Kind.COUNTER else '')}"
                metric.add_sample(name, dict(labels), value)
            metrics.append(metric)
        # A timer of the user's code may have the name of a histogram: no line appears twice.
        parts = {m.name + part for m in metrics if m.type == "histogram" for part in ("_sum", "_count", BUCKET)}
        return [metric for metric in metrics if metric.name not in parts]


#: Whether a metric is published, by group and name.
IsShown = Callable[[str, str], bool]


def container_series(job: str, container: str, tasks: Collection[str], registry: Registry, is_shown: IsShown) -> Series:
    """The series of a container. Groups named in `tasks` belong to tasks; `is_shown` gets group and name."""
    series, place = Series(), (("job", job), ("container", container))
    for group, values in registry.snapshot().items():
        where = (*place, ("task", group)) if group in tasks else place
        for name, value in values.items():
            if isnan(value) or not is_shown(group, name):
                continue
            counts = (group, name) in registry.counters
            named = task_metric(name, counts=counts) if group in tasks else container_metric(group, name, counts=counts)
            if named is not None:
                series.add(named.family, value * named.family.scale, (*where, *named.labels), named.part)
    return series


def as_text(series: Series) -> bytes:
    """Series as Prometheus text."""
    from prometheus_client import generate_latest  # noqa: PLC0415

    return bytes(generate_latest(series))
