"""Serves the metrics of one container on `/metrics`.

A scrape needs the token that reads, as at the driver (`Authorization: Bearer ...`, in Prometheus `authorization`): metrics name
streams, tasks and stores, and the loopback address is open to all users of the machine.
"""

from __future__ import annotations

import hmac
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from samzapy.metrics.bounded import Series
from samzapy.metrics.prometheus import CONTENT_TYPE, Collected

logger = logging.getLogger(__package__)

#: Seconds that a connection may be silent, and connections at a time.
_SILENT_S, _MOST = 10.0, 16
#: Seconds in which the server notices its end, which is a container's: by default it takes half a second.
_END_S = 0.02

Respond = Callable[[str, list[tuple[str, str]]], object]


@contextmanager
def served(
    host: str, port: int, series: Callable[[], list[Series]], tokens: Collection[str] | None = None
) -> Iterator[None]:
    """Answer scrapes of `http://host:port/metrics` until the end of the context; each calls `series`, in a separate thread.
    If the port is taken, a warning is logged and nothing is served: metrics never end a job.

    `tokens`: a scrape needs one of them; None: it needs none. If `tokens` is empty, every scrape is refused.
    """
    # Imported only for a job file with this port.
    from prometheus_client import generate_latest  # noqa: PLC0415

    wanted = None if tokens is None else [f"Bearer {token}".encode("utf-8", "surrogateescape") for token in tokens]

    def answer(environ: dict[str, Any], respond: Respond) -> Iterable[bytes]:
        # WSGI has the bytes of a header as characters.
        given = environ.get("HTTP_AUTHORIZATION", "").encode("latin-1", "replace")
        # All are compared, whatever comes of the first.
        if wanted is not None and not sum(hmac.compare_digest(given, each) for each in wanted):
            return _said(respond, "403 Forbidden", b"token missing or wrong\n")
        if environ["REQUEST_METHOD"] not in {"GET", "HEAD"} or environ.get("PATH_INFO") != "/metrics":
            return _said(respond, "404 Not Found", b"GET /metrics\n")
        return _said(respond, "200 OK", generate_latest(Collected(series)), CONTENT_TYPE)

    try:
        server = make_server(host, port, answer, _Server, _Handler)
    except (OSError, OverflowError) as cause:
        logger.warning("metrics.prometheus.port: no metrics are served on %s:%d (%s)", host, port, cause)
        yield
        return
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


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each connection, and a limited number of connections: a silent one is closed after some seconds."""

    daemon_threads = True
    block_on_close = False
    #: Connections that come at once and are more than the system keeps are tried again after a second.
    request_queue_size = 128

    def __init__(self, *arguments: Any) -> None:
        self._free = threading.Semaphore(_MOST)
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()


class _Handler(WSGIRequestHandler):
    """Answers one request of a connection."""

    timeout = _SILENT_S

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name that the base class has
        """Nothing: a scrape is no event."""
