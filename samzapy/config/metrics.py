"""`metrics.*`: the reporters that publish metrics, and the port on which a container serves its own."""

from __future__ import annotations

import re
from dataclasses import dataclass

from samzapy.api.stream import SystemStream
from samzapy.config.reading.keys import BOOLEAN, LIST, TEXT, Key, Kind, choice, collect, integer
from samzapy.config.reading.reader import Reader
from samzapy.config.streams.stream import StreamNames

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class ReporterConfig:
    """One reporter. `kind` is `snapshot` (JSON to `stream`), `log` or `otel` (OTLP to `endpoint`, None: where
    OpenTelemetry's environment variables say); it reports every `interval_s` seconds, without the metrics with a
    `group.name` that matches `blacklist`."""

    name: str
    kind: str
    stream: SystemStream | None = None
    interval_s: int = 60
    blacklist: str | None = None
    endpoint: str | None = None


@dataclass(frozen=True)
class PrometheusConfig:
    """The addresses at which containers serve their metrics to Prometheus: container N on `port` + N of `host`, none if
    `port` is 0, and without a token if `open_to_all`; and the most series that the driver serves of the whole job."""

    host: str = LOOPBACK
    port: int = 0
    max_series: int = 100_000
    open_to_all: bool = False


_JAVA = {
    "MetricsSnapshotReporterFactory": "snapshot",
    "LoggingMetricsReporterFactory": "log",
    "JmxReporterFactory": "jmx",
}
_KIND = choice("snapshot", "log", "otel")
_JMX = "jmx"


def _kind(text: str) -> str:
    simple = text.rpartition(".")[2] if text.startswith("org.apache.samza.") else text
    found = _JAVA.get(simple, text)
    return _JMX if found == _JMX else _KIND.parse(found)


def _pattern(text: str) -> str | None:
    try:
        re.compile(text)
    except re.error as cause:
        raise ValueError(f"a regular expression ({cause})") from None
    return text or None


REPORTERS = Key("metrics.reporters", LIST, (), "Names of the reporters.")
CLASS = Key(
    "metrics.reporter.{reporter}.class",
    Kind(_KIND.allowed, _kind),
    "log",
    "snapshot (JSON to a stream), log, otel (OTLP; needs samzapy[otel]), or Samza's Java class name.",
)
STREAM = Key("metrics.reporter.{reporter}.stream", TEXT, None, "snapshot: the stream, as system.stream.", "required")
INTERVAL = Key("metrics.reporter.{reporter}.interval", integer(1, 86_400), 60, "Seconds between two reports.")
BLACKLIST = Key(
    "metrics.reporter.{reporter}.blacklist",
    Kind("a regular expression", _pattern),
    None,
    "Excluded metrics, by `group.name`.",
)
ENDPOINT = Key(
    "metrics.reporter.{reporter}.endpoint",
    TEXT,
    None,
    "otel: the address for the export, such as http://host:4318/v1/metrics.",
    "OpenTelemetry's environment variables",
)
PORT = Key(
    "metrics.prometheus.port",
    integer(0, 65_535),
    0,
    "Container N serves its metrics to Prometheus on this port + N. 0: on no port. The driver always serves the "
    "metrics of the whole job.",
)
HOST = Key(
    "metrics.prometheus.host",
    TEXT,
    LOOPBACK,
    "The address of the containers' ports.",
)
OPEN = Key(
    "metrics.prometheus.open",
    BOOLEAN,
    False,
    "Whether the containers' ports answer without a token. Otherwise a scrape sends the token that reads "
    "(`Authorization: Bearer`).",
)
MAX_SERIES = Key(
    "metrics.prometheus.max.series",
    integer(1_000, 10_000_000),
    100_000,
    "Maximum number of series that the driver serves. Beyond it the driver omits whole families: first of "
    "clients, then of stores, then of tasks.",
)
KEYS = collect(globals())


def parse_metrics(reader: Reader, names: StreamNames) -> tuple[ReporterConfig, ...]:
    """The reporters, in order. JMX reporters are left out with a warning."""
    found = tuple(_reporter(reader, name, names) for name in reader.get(REPORTERS))
    for reporter in found:
        if reporter.kind == _JMX:
            reader.warn(f"{CLASS.at(reporter=reporter.name)}: has no effect in samzapy, which has no JMX")
    return tuple(reporter for reporter in found if reporter.kind != _JMX)


def _reporter(reader: Reader, name: str, names: StreamNames) -> ReporterConfig:
    kind = reader.get(CLASS, reporter=name)
    stream = None
    if kind == "snapshot":
        text = reader.require(STREAM, "kafka.metrics", reporter=name)
        stream = names.find(reader, STREAM.at(reporter=name), text) if text else None
    interval, blacklist = reader.get(INTERVAL, reporter=name), reader.get(BLACKLIST, reporter=name)
    return ReporterConfig(name, kind, stream, interval, blacklist, reader.get(ENDPOINT, reporter=name))


def parse_prometheus(reader: Reader) -> PrometheusConfig:
    """Read the addresses of the containers' metrics, and the limit of the driver's series."""
    return PrometheusConfig(reader.get(HOST) or LOOPBACK, reader.get(PORT), reader.get(MAX_SERIES), reader.get(OPEN))
