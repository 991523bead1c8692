"""Makes prometheus_client's metrics from the numbers of a registry, with the names of `families`.

The registry counts in plain attributes, once a batch: `inc` of a metric of prometheus_client takes a lock. Its metrics
are made from a snapshot, at a scrape or an export.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import isfinite, isnan, nan
from typing import TYPE_CHECKING

from samzapy.config.guarantee_warnings import COUNTS, ERRORS, GUARANTEE
from samzapy.metrics.families import BUCKET, PREFIX, Family, Kind, container_metric, task_metric
from samzapy.metrics.registry import Registry

if TYPE_CHECKING:
    from prometheus_client import Metric

Labels = tuple[tuple[str, str], ...]

#: The metrics of a container that its reports to the driver carry, by group: what says how the process is, and every
#: counter of a weakened guarantee. All others are at the container's own port.
NUMBERS: Mapping[str, tuple[str, ...]] = {
    "container": ("resident-bytes", "cpu-s", "threads", "open-files", "starts"),
    "standby": ("lag",),
    **{
        group: tuple(name.removeprefix(f"{group}.") for name in COUNTS if name.startswith(f"{group}."))
        for group in (ERRORS, GUARANTEE)
    },
}


def numbers_of(metrics: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """The finite ones of `NUMBERS` in a registry's snapshot."""
    found = {
        group: {name: metrics[group][name] for name in names if isfinite(metrics[group].get(name, nan))}
        for group, names in NUMBERS.items()
        if group in metrics
    }
    return {group: values for group, values in found.items() if values}


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
        """The metrics in order of name."""
        # Most containers are never scraped, and the import takes a twentieth of a second.
        from prometheus_client import Metric  # noqa: PLC0415

        metrics = []
        for _, (family, values) in sorted(self._families.items()):
            metric = Metric(PREFIX + family.name, family.help, family.kind.value)
            for (part, labels), value in values.items():
                name = f"{metric.name}{part or ('_total' if family.kind is Kind.COUNTER else '')}"
                metric.add_sample(name, dict(labels), value)
            metrics.append(metric)
        return self._without_repeated_names(metrics)

    def _without_repeated_names(self, metrics: list[Metric]) -> list[Metric]:
        # A timer of the user's code may have the name of a histogram: no line appears twice.
        parts = {m.name + part for m in metrics if m.type == "histogram" for part in ("_sum", "_count", BUCKET)}
        return [metric for metric in metrics if metric.name not in parts]


def container_series(
    job: str,
    container: str,
    tasks: Collection[str],
    registry: Registry,
    is_shown: Callable[[str, str], bool] = lambda group, name: True,  # noqa: ARG005
) -> Series:
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

    text: bytes = generate_latest(series)
    return text
