"""Writes a job's, or a container's, series as Prometheus text.

`render` is pure: a coordinator calls it with the snapshot that it has at hand, from any thread. A Prometheus that scrapes
with its defaults renames the label `job`, which its own `job_name` takes; `honor_labels: true` keeps ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from samzapy.metrics.families import PREFIX, Kind
from samzapy.metrics.series import SERIES_LIMIT, JobSnapshot, Series, job_series

#: The type of what `render` returns.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_TYPES = {Kind.COUNTER: "counter", Kind.GAUGE: "gauge", Kind.SUMMARY: "summary", Kind.UNTYPED: "unknown"}


def render(job: JobSnapshot, limit: int = SERIES_LIMIT) -> bytes:
    """The series of a job as Prometheus text, UTF-8; `limit` as in `job_series`."""
    return as_text(job_series(job, limit))


def as_text(series: Iterable[Series]) -> bytes:
    """Series as Prometheus text, UTF-8."""
    # Imported by the first scrape: a container that nothing scrapes does not load it.
    from prometheus_client import generate_latest  # noqa: PLC0415

    text: bytes = generate_latest(Collected(lambda: series))
    return text


class Collected:
    """Gives series to the library, which asks for them at each scrape."""

    def __init__(self, series: Callable[[], Iterable[Series]]) -> None:
        self._series = series

    def collect(self) -> Iterator[Any]:
        """One metric a family."""
        from prometheus_client import Metric  # noqa: PLC0415  # as above

        for family, samples in self._series():
            metric = Metric(PREFIX + family.name, family.help, _TYPES[family.kind])
            suffix = "_total" if family.kind is Kind.COUNTER else ""
            for part, labels, value in samples:
                metric.add_sample(f"{metric.name}{part or suffix}", dict(labels), value)
            yield metric
