"""Writes a job's, or a container's, series as Prometheus text.

`render` is pure and may be called by any thread. By default, a Prometheus overwrites the label `job` with its own `job_name`;
with `honor_labels: true` it keeps ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from samzapy.metrics.families import PREFIX, Kind
from samzapy.metrics.series import SERIES_LIMIT, JobSnapshot, Series, job_series

#: The media type of the text.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_TYPES = {Kind.COUNTER: "counter", Kind.GAUGE: "gauge", Kind.SUMMARY: "summary", Kind.UNTYPED: "unknown"}


def render(job: JobSnapshot, limit: int = SERIES_LIMIT) -> bytes:
    """The series of a job as Prometheus text, UTF-8; `limit` as in `job_series`."""
    return as_text(job_series(job, limit))


def as_text(series: Iterable[Series]) -> bytes:
    """Series as Prometheus text, UTF-8."""
    # Imported at the first scrape, because most containers are never scraped.
    from prometheus_client import generate_latest  # noqa: PLC0415

    text: bytes = generate_latest(Collected(lambda: series))
    return text


class Collected:
    """A collector of the library, which asks it for the series at each scrape."""

    def __init__(self, series: Callable[[], Iterable[Series]]) -> None:
        self._series = series

    def collect(self) -> Iterator[Any]:
        """One metric for each family."""
        from prometheus_client import Metric  # noqa: PLC0415  # as above

        for family, samples in self._series():
            metric = Metric(PREFIX + family.name, family.help, _TYPES[family.kind])
            suffix = "_total" if family.kind is Kind.COUNTER else ""
            for part, labels, value in samples:
                metric.add_sample(f"{metric.name}{part or suffix}", dict(labels), value)
            yield metric
