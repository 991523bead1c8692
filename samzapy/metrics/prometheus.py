"""Writes the series of a job, or of a container, as Prometheus text, and serves a container's series on `/metrics`.

1. `render` is pure and may be called by any thread. It writes the text of a job itself: a job of 1,000 containers has
   60,000 lines, and prometheus-client needs several times as long for a line.
2. `served` lets prometheus-client write the text of a container. A scrape needs the token that reads, as at the driver
   (`Authorization: Bearer ...`, in Prometheus `authorization`): metrics name streams, tasks and stores, and the
   loopback address is open to all users of the machine.

By default, a Prometheus overwrites the label `job` with its own `job_name`; with `honor_labels: true` it keeps ours.
"""

from __future__ import annotations

import hmac
import logging
import socket
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from socketserver import ThreadingMixIn
from typing import Any, cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.metrics.bounded import Bounds, Labels, Series
from samzapy.metrics.families import PREFIX, Kind
from samzapy.metrics.series import JobSnapshot, job_series

logger = logging.getLogger(__package__)

#: The media type of the text.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_TYPES = {kind: kind.value for kind in Kind}
_LIBRARY_TYPES = {**_TYPES, Kind.UNTYPED: "unknown"}
_BOUNDS = Bounds()
#: Lines of one piece of text, about half a millisecond's work.
_LINES = 500
#: Seconds in which a connection must send its request, and may be silent later; connections at a time.
_SILENT_S, _MOST = 10.0, 16
#: Seconds in which the server notices its end, which is a container's; by default it takes half a second.
_END_S = 0.02

Respond = Callable[[str, list[tuple[str, str]]], object]


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
    # Series share their labels: the labels of a place are one object, and containers share the others. All series are
    # kept meanwhile, so that no other object gets the id of one.
    known: dict[int, str] = {}
    for family, samples in list(series):
        name = PREFIX + family.name + ("_total" if family.kind is Kind.COUNTER else "")
        help_ = family.help.replace("\\", "\\\\").replace("\n", "\\n")
        yield f"# HELP {name} {help_}\n# TYPE {name} {_TYPES[family.kind]}\n".encode()
        for start in range(0, len(samples), _LINES):
            lines = []
            for part, place, own, value in samples[start : start + _LINES]:
                where = known.get(id(place))
                if where is None:
                    where = known[id(place)] = ",".join(_labels(place))
                more = known.get(-id(own))
                if more is None:
                    more = known[-id(own)] = "".join(f",{label}" for label in _labels(own))
                lines.append(f"{name}{part}{{{where}{more}}} {value!r}\n")
            yield "".join(lines).encode()


def _labels(labels: Labels) -> Iterator[str]:
    for name, value in labels:
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        yield f'{name}="{escaped}"'


@contextmanager
def served(
    host: str,
    port: int,
    series: Callable[[], list[Series]],
    tokens: Collection[str] | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Iterator[None]:
    """Answer scrapes of `http://host:port/metrics` until the end of the context; each calls `series`, in a separate
    thread. If the port is taken, a warning is logged and nothing is served: metrics never end a job.

    `tokens`: a scrape needs one of them; None: it needs none. If `tokens` is empty, every scrape is refused.
    """
    # Imported only for a job file with this port.
    from prometheus_client import generate_latest  # noqa: PLC0415

    wanted = None if tokens is None else [f"Bearer {token}".encode("utf-8", "surrogateescape") for token in tokens]

    def answer(environ: dict[str, Any], respond: Respond) -> Iterable[bytes]:
        # WSGI passes the bytes of a header as Latin-1 characters.
        given = environ.get("HTTP_AUTHORIZATION", "").encode("latin-1", "replace")
        # All are compared, so that the time does not depend on the first.
        if wanted is not None and not sum(hmac.compare_digest(given, each) for each in wanted):
            return _said(respond, "403 Forbidden", b"token missing or wrong\n")
        if environ["REQUEST_METHOD"] not in {"GET", "HEAD"} or environ.get("PATH_INFO") != "/metrics":
            return _said(respond, "404 Not Found", b"GET /metrics\n")
        return _said(respond, "200 OK", generate_latest(_Collected(series)), CONTENT_TYPE)

    try:
        server = _Server(clock, (host, port), _Handler)
    except (OSError, OverflowError) as cause:
        logger.warning("metrics.prometheus.port: no metrics are served on %s:%d (%s)", host, port, cause)
        yield
        return
    server.set_app(answer)
    logger.info("Metrics are served on http://%s:%d/metrics", host, port)
    thread = threading.Thread(target=server.serve_forever, args=(_END_S,), name="samzapy-scrapes", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _said(respond: Respond, status: str, body: bytes, kind: str = "text/plain; charset=utf-8") -> Iterable[bytes]:
    respond(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
    return [body]


class _Collected:
    """The collector that prometheus-client asks for the series at each scrape."""

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


class _Server(ThreadingMixIn, WSGIServer):
    """Serves each connection in a thread of its own, up to a limit. A connection without a whole request is closed
    after some seconds, even if it sends a byte now and then: a stranger may have opened it."""

    daemon_threads = True
    block_on_close = False
    #: Connections that come at once and are more than the system keeps are tried again after a second.
    request_queue_size = 128

    def __init__(self, clock: Clock, *arguments: Any) -> None:
        self._clock = clock
        self._free = threading.Semaphore(_MOST)
        self._unheard: dict[socket.socket, float] = {}
        super().__init__(*arguments)

    def heard(self, connection: socket.socket) -> None:
        """Note that the connection has sent its request."""
        self._unheard.pop(connection, None)

    def service_actions(self) -> None:
        """Close the connections without a request in time. The base class calls it several times a second."""
        if self._unheard:
            now = self._clock.monotonic()
            for connection, due in list(self._unheard.items()):
                if now >= due:
                    self.heard(connection)
                    with suppress(OSError):  # it has just ended
                        connection.shutdown(socket.SHUT_RDWR)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            self._unheard[request] = self._clock.monotonic() + _SILENT_S
            try:
                super().process_request(request, client_address)
            except RuntimeError:  # the system cannot start a thread now
                self._done_with(request)
                raise
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._done_with(request)

    def _done_with(self, request: Any) -> None:
        self.heard(request)
        self._free.release()


class _Handler(WSGIRequestHandler):
    """Answers one request of a connection."""

    timeout = _SILENT_S

    def parse_request(self) -> bool:
        """Read the headers."""
        parsed = super().parse_request()
        cast("_Server", self.server).heard(self.connection)
        return parsed

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name that the base class has
        """Log nothing: a scrape is not an event."""
