"""Serves a container's metrics on `/metrics`.

A scrape needs the token that reads, as at the driver (`Authorization: Bearer ...`, in Prometheus `authorization`):
metrics name streams, tasks and stores, and the loopback address is open to all users of the machine.
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
from samzapy.metrics.series import CONTENT_TYPE

logger = logging.getLogger(__package__)

#: Seconds in which a connection must send its request, and may be silent later; connections at a time.
_SILENT_S, _MOST = 10.0, 16
#: Seconds in which the server notices its end, which is a container's; by default it takes half a second.
_END_S = 0.02

Respond = Callable[[str, list[tuple[str, str]]], object]


@contextmanager
def served(
    host: str,
    port: int,
    text: Callable[[], bytes],
    tokens: Collection[str] | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Iterator[None]:
    """Answer scrapes of `http://host:port/metrics` until the end of the context; each calls `text`, in a separate
    thread. If the port is taken, a warning is logged and nothing is served: metrics never end a job.

    `tokens`: a scrape needs one of them; None: it needs none. If `tokens` is empty, every scrape is refused.
    """
    wanted = None if tokens is None else [f"Bearer {token}".encode("utf-8", "surrogateescape") for token in tokens]

    def answer(environ: dict[str, Any], respond: Respond) -> Iterable[bytes]:
        # WSGI passes the bytes of a header as Latin-1 characters.
        given = environ.get("HTTP_AUTHORIZATION", "").encode("latin-1", "replace")
        # All are compared, so that the time does not depend on the first.
        if wanted is not None and not sum(hmac.compare_digest(given, each) for each in wanted):
            return _said(respond, "403 Forbidden", b"token missing or wrong\n")
        if environ["REQUEST_METHOD"] not in {"GET", "HEAD"} or environ.get("PATH_INFO") != "/metrics":
            return _said(respond, "404 Not Found", b"GET /metrics\n")
        return _said(respond, "200 OK", text(), CONTENT_TYPE)

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
