"""Writes a job's, or a container's, series as Prometheus text.

`render` is pure and may be called by any thread. By default, a Prometheus overwrites the label `job` with its own `job_name`;
with `honor_labels: true` it keeps ours.

The text of a job is written here, because a job of 1,000 containers has 60,000 lines. prometheus-client, which needs several times
as long for a line, writes the text of a container and serves it (`samzapy.metrics.endpoint`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from samzapy.metrics.bounded import Bounds, Labels, Series
from samzapy.metrics.families import PREFIX, Kind
from samzapy.metrics.series import JobSnapshot, job_series

#: The media type of the text.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_TYPES = {Kind.COUNTER: "counter", Kind.GAUGE: "gauge", Kind.SUMMARY: "summary", Kind.UNTYPED: "untyped"}
_BOUNDS = Bounds()
#: Lines of one piece of text, about half a millisecond's work.
_LINES = 500


def _go_on() -> None:
    """The default of `pause`."""


def render(job: JobSnapshot, bounds: Bounds = _BOUNDS, pause: Callable[[], None] = _go_on) -> bytes:
    """The series of a job as Prometheus text, UTF-8; `bounds` and `pause` as in `job_series`."""
    parts = []
    for piece in as_text(job_series(job, bounds, pause)):
        parts.append(piece)
        pause()
    return b"".join(parts)


def as_text(series: Iterable[Series]) -> Iterator[bytes]:
    """Series as Prometheus text, UTF-8, in pieces of some ten kilobytes."""
    # Containers share the labels that do not say where.
    known: dict[Labels, str] = {(): ""}
    for family, samples in series:
        name = PREFIX + family.name + ("_total" if family.kind is Kind.COUNTER else "")
        help_ = family.help.replace("\\", "\\\\").replace("\n", "\\n")
        yield f"# HELP {name} {help_}\n# TYPE {name} {_TYPES[family.kind]}\n".encode()
        for start in range(0, len(samples), _LINES):
            lines = []
            for part, place, own, value in samples[start : start + _LINES]:
                where = known.get(place)
                if where is None:
                    where = known[place] = ",".join(_labels(place))
                more = known.get(own)
                if more is None:
                    more = known[own] = "".join(f",{label}" for label in _labels(own))
                lines.append(f"{name}{part}{{{where}{more}}} {value!r}\n")
            yield "".join(lines).encode()


def _labels(labels: Labels) -> Iterator[str]:
    for name, value in labels:
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        yield f'{name}="{escaped}"'


class Collected:
    """A collector of the library, which asks it for the series at each scrape."""

    def __init__(self, series: Callable[[], Iterable[Series]]) -> None:
        self._series = series

    def collect(self) -> Iterator[Any]:
        """One metric for each family."""
        from prometheus_client import Metric  # noqa: PLC0415  # most containers are never scraped

        for family, samples in self._series():
            metric = Metric(PREFIX + family.name, family.help, _LIBRARY_TYPES[family.kind])
            suffix = "_total" if family.kind is Kind.COUNTER else ""
            for sample in samples:
                metric.add_sample(f"{metric.name}{sample.part or suffix}", dict(sample.labels), sample.value)
            yield metric


_LIBRARY_TYPES = {**_TYPES, Kind.UNTYPED: "unknown"}
