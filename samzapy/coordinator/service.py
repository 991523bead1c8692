"""Serves the coordinator over HTTP, in a thread of the driver.

==============================  =================================================
POST /containers/ID/attempts    register {process}: {version, epoch, lease_ms, spec, predecessor,
                                checkpoint_clock}
POST /containers/ID/heartbeat   Heartbeat: {directive, checkpoint_clock, pace_s}
POST /containers/ID/epoch       have a greater epoch {epoch, newest}: the epoch, 0 if superseded
POST /containers/ID/failure     {epoch, error, message, exit_code, permanent, user}: whether another attempt is useless
POST /stop                      stop everything: {}
GET ...                         samzapy.coordinator.views, and further routes
==============================  =================================================

A POST needs the token that acts, a GET one that reads (`samzapy.coordinator.server`).
"""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.server import Guard, HttpServer, Identity, Tokens, listening
from samzapy.coordinator.views import PROBES, Inspector, views
from samzapy.coordinator.wire import Answer, Attempt, Epochs, Heartbeat, Registration, WireError, read, read_failure
from samzapy.errors import EnvironmentFailure
from samzapy.job.files import raise_limit
from samzapy.job.lease import Directive, HttpAddress
from samzapy.strict_json import encode
from samzapy.version import VERSION

logger = logging.getLogger(__name__)


class Calls:
    """The calls with the token that acts, most of them by containers. One event loop runs them, one after another.

    The network may deliver a heartbeat after later ones of its attempt. The coordinator answers it, but it changes
    nothing and renews no lease.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._newest: dict[str, tuple[int, int]] = {}
        self._calls: dict[str, Callable[[str, bytes], bytes]] = {
            "attempts": self._register,
            "heartbeat": self._heartbeat,
            "epoch": self._epoch,
            "failure": self._failure,
        }
        self.routes = [
            Route("/stop", self._stop, methods=["POST"]),
            Route("/containers/{id}/{call}", self._answer, methods=["POST"]),
        ]

    async def _stop(self, _: Request) -> Response:
        self._coordinator.stop()
        return Response(b"{}", media_type="application/json")

    async def _answer(self, request: Request) -> Response:
        container_id, call = request.path_params["id"], self._calls.get(request.path_params["call"])
        if call is None or not self._coordinator.knows(container_id):
            return PlainTextResponse("unknown container or call\n", 404)
        try:
            return Response(call(container_id, await request.body()), media_type="application/json")
        except ClientDisconnect:
            return Response(status_code=400)
        except WireError as error:
            return PlainTextResponse(f"{error}\n", 400)
        except Exception as error:
            logger.exception("%s failed", request.url.path)
            return PlainTextResponse(f"{type(error).__name__}\n", 500)

    def _register(self, container_id: str, body: bytes) -> bytes:
        coordinator = self._coordinator
        process = read(Attempt, body).process
        # No other call comes between the two, because one event loop runs them all.
        predecessor, resumes = coordinator.predecessor(container_id), coordinator.has_run(container_id)
        return encode(
            Registration.of(
                coordinator.spec.of(container_id),
                version=VERSION,
                epoch=coordinator.register(container_id, process),
                lease_s=coordinator.lease_s,
                checkpoint_clock=coordinator.kept_checkpoint_clock,
                predecessor=predecessor,
                resumes=resumes,
            )
        )

    def _heartbeat(self, container_id: str, body: bytes) -> bytes:
        beat, coordinator = read(Heartbeat, body), self._coordinator
        epoch, sequence = self._newest.get(container_id, (None, 0))
        if epoch == beat.report.epoch and beat.sequence <= sequence:
            directive = coordinator.directive(container_id, beat.report.epoch)
        else:
            directive = coordinator.report(beat.received(container_id, coordinator.now))
            if directive is not Directive.ABANDON:
                self._newest[container_id] = beat.report.epoch, beat.sequence
        return encode(Answer(directive, coordinator.kept_checkpoint_clock, coordinator.pace_s(container_id)))

    def _epoch(self, container_id: str, body: bytes) -> bytes:
        asked = read(Epochs, body)
        return encode(self._coordinator.outgrow(container_id, asked.epoch, asked.newest) or 0)

    def _failure(self, container_id: str, body: bytes) -> bytes:
        return encode(self._coordinator.fail(read_failure(container_id, body)))


#: Open files that the process needs at most: each container holds a connection, and so may others.
OPEN_FILES = 65_536


@dataclass(frozen=True)
class Addresses:
    """The addresses of a coordinator: `host:port` (0: any free port), with the TLS of `identity` (None: without).
    `page_port`: a second port, for people, on this machine's loopback address and without TLS. `names`: its further
    host names."""

    host: str = "127.0.0.1"
    port: int = 0
    page_port: int | None = None
    identity: Identity | None = None
    names: tuple[str, ...] = ()


_ON_LOOPBACK = Addresses()


class CoordinatorService:
    """Serves one coordinator at its `addresses` until closed.

    `address` is for containers, `url` is its URL, and `page` is the URL of the page, with the token that reads.
    `pinned_page` adds the fingerprint of the page's certificate, if it has one, as a fragment, which a browser does not
    send. Raises EnvironmentFailure if it cannot listen at an address.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        token: str,
        addresses: Addresses = _ON_LOOPBACK,
        *,
        routes: Sequence[BaseRoute] = (),
        inspector: Inspector | None = None,
    ) -> None:
        """`token` is the token that acts. `routes` are further ones for readers. `inspector` looks records up for the
        page."""
        host, identity = addresses.host, addresses.identity
        self.tokens = Tokens(token)
        self._sockets = [_listening(host, addresses.port)]
        fingerprint = None if identity is None else identity.fingerprint
        self.url = page = _url("http" if identity is None else "https", host, self._sockets[0])
        self.address = HttpAddress(self.url, fingerprint)
        if addresses.page_port is not None:
            try:
                self._sockets.append(_listening("127.0.0.1", addresses.page_port))
            except EnvironmentFailure:
                self._sockets[0].close()
                raise
            page = _url("http", "127.0.0.1", self._sockets[1])
        self.page = f"{page}/?token={self.tokens.read}"
        self.pinned_page = f"{self.page}#{fingerprint}" if page == self.url and fingerprint else self.page
        raise_limit(OPEN_FILES)
        names = {host.lower(), *addresses.names, *(name for item in self._sockets for name in _names(item))}
        guard = Guard(
            Starlette(routes=Calls(coordinator).routes),
            views(coordinator, inspector, routes),
            self.tokens,
            hosts=names,
            cookie=f"samzapy-{self._sockets[0].getsockname()[1]}",
            open_to_all=PROBES,
        )
        secured = dict.fromkeys(self._sockets, None) | {self._sockets[0]: identity}
        self._server = HttpServer(guard, secured, "coordinator")

    def close(self) -> None:
        """Stop serving; closing twice is allowed."""
        self._server.close()


def _listening(host: str, port: int) -> socket.socket:
    try:
        return listening(host, port)
    except OSError as cause:
        unknown = isinstance(cause, socket.gaierror)
        # Python's text repeats the address.
        reason = cause.strerror if unknown or not cause.errno else os.strerror(cause.errno)
        way_out = (
            "name an address of this machine with job.spark.coordinator.host"
            if unknown or cause.errno == errno.EADDRNOTAVAIL
            else "choose another port with job.page.port or job.spark.coordinator.port, or 0 for any free one"
        )
        raise EnvironmentFailure(f"the driver cannot listen on {host}:{port} ({reason}): {way_out}") from cause


def _url(scheme: str, host: str, opened: socket.socket) -> str:
    return f"{scheme}://{host}:{opened.getsockname()[1]}"


def _names(opened: socket.socket) -> tuple[str, ...]:
    """The address of a socket, and this machine's name for it. No foreign page can have an address, or `localhost`, as
    its name."""
    address: str = opened.getsockname()[0]
    return (address, "localhost") if address.startswith("127.") else (address,)
