"""The keys for watching a running job: logs, stalls, lag, queries of its stores, and metrics."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from samzapy.api.stream import SystemStream
from samzapy.config.reading.keys import BOOLEAN, FOLDER, NAMED, Kind, Reader, choice, integer, key, labels
from samzapy.config.streams.stream import StreamNames


@dataclass(frozen=True)
class LogConfig:
    """The log of a job, on the terminal and in files of up to `max_bytes`, with `files` older ones."""

    level: int = key(
        "job.log.level",
        labels(debug=logging.DEBUG, info=logging.INFO, warning=logging.WARNING, error=logging.ERROR),
        logging.INFO,
        shown="info",
    )
    """The lowest level of log lines to show and keep, including the task's own lines."""
    as_json: bool = key("job.log.format", labels(text=False, json=True), False, shown="text")
    """The form of a log line."""
    folder: Path = key("job.log.dir", FOLDER, Path(".samzapy/logs"))
    """Folder of the logs. It has a folder for the job, with a file for the driver and one for each container on the
    container's machine."""
    max_bytes: int = 10_485_760
    files: int = 5


@dataclass(frozen=True)
class QueryConfig:
    """Queries of a running job's stores."""

    enabled: bool = key("job.query.enabled", BOOLEAN, False)
    """Whether the driver answers `GET /stores/NAME?key=` from the running job's stores. It returns committed entries,
    and needs the token that reads."""


@dataclass(frozen=True)
class SupervisionConfig:
    """How a running job is watched."""

    log: LogConfig = field(default_factory=LogConfig)
    stall_ms: int = key("task.stall.ms", integer(0, 86_400_000), 30_000)
    """Milliseconds without progress after which a container counts as stalled. The status shows the reason. 0:
    never."""
    stall_fails: bool = key("task.stall.policy", labels(report=False, fail=True), False, shown="report")
    """The reaction to a stall in the user's code: report it, or fail, so that another attempt starts. With fail, a
    local run ends."""
    mirror: bool = key("job.offsets.mirror", BOOLEAN, True)
    """Whether to copy committed positions to a consumer group with the job's name (NAME-ID), for tools that show lag.
    No start reads them."""
    query: QueryConfig = field(default_factory=QueryConfig)


_SNAPSHOT, _LOG, _JMX = "snapshot", "log", "jmx"
_JAVA = {"MetricsSnapshotReporterFactory": _SNAPSHOT, "LoggingMetricsReporterFactory": _LOG, "JmxReporterFactory": _JMX}


def _regex(text: str) -> str:
    try:
        re.compile(text)
    except re.error as cause:
        raise ValueError(f"a regular expression ({cause})") from None
    return text


@dataclass(frozen=True)
class ReporterConfig:
    """One reporter: a snapshot goes to `stream`."""

    name: str
    kind: str = key("metrics.reporter.{reporter}.class", choice(_SNAPSHOT, _LOG, "otel", java=_JAVA), _LOG)
    """snapshot (JSON to a stream), log, otel (OTLP to the address in OpenTelemetry's environment variables; needs
    samzapy[otel]), or Samza's Java class name."""
    stream: SystemStream | None = key("metrics.reporter.{reporter}.stream", NAMED, None, shown="required")
    """snapshot: the stream, as system.stream."""
    interval_s: int = key("metrics.reporter.{reporter}.interval", integer(1, 86_400), 60)
    """Seconds between two reports."""
    blacklist: str | None = key("metrics.reporter.{reporter}.blacklist", Kind("a regular expression", _regex), None)
    """Excluded metrics, by `group.name`."""


def parse_reporters(reader: Reader, listed: Iterable[str], names: StreamNames) -> tuple[ReporterConfig, ...]:
    """Read the `listed` reporters, in order, without JMX reporters (with a warning)."""
    reporters = [_read_reporter(reader, name, names) for name in listed]
    for reporter in reporters:
        if reporter.kind == _JMX:
            reader.warn(f"metrics.reporter.{reporter.name}.class: has no effect in samzapy, which has no JMX")
    return tuple(reporter for reporter in reporters if reporter.kind != _JMX)


def _read_reporter(reader: Reader, name: str, names: StreamNames) -> ReporterConfig:
    place = {"reporter": name}
    stream, text = None, reader.value(ReporterConfig, "stream", **place)
    if reader.value(ReporterConfig, "kind", **place) == _SNAPSHOT:
        where = f"metrics.reporter.{name}.stream"
        if text is None:
            reader.missing(where, "kafka.metrics")
        else:
            stream = names.find(reader, where, text)
    return reader.read(ReporterConfig, place, name=name, stream=stream)
