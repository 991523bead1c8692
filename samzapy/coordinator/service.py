"""Serves the coordinator over HTTP, in a thread of the driver.

POST ...    samzapy.coordinator.calls
GET ...     samzapy.coordinator.web.views, and the routes that the runner adds

A POST needs the token that acts, a GET one that reads (`samzapy.coordinator.web.access`).
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from starlette.routing import BaseRoute

from samzapy.coordinator.calls import Calls
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.web.access import Guard, Tokens
from samzapy.coordinator.web.server import HttpServer, listening
from samzapy.coordinator.web.tls import Identity
from samzapy.coordinator.web.views import Inspector, View, views
from samzapy.errors import EnvironmentFailure
from samzapy.job.files import raise_limit
from samzapy.job.lease import HttpAddress

#: Open files that the process needs at most: each container holds a connection, and so may others.
OPEN_FILES = 65_536

_NO_VIEWS: Mapping[str, View] = MappingProxyType({})


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
    send. `ports` are the port of the addresses and the second one, None without. Raises EnvironmentFailure if it cannot
    listen at an address.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        token: str,
        addresses: Addresses = _ON_LOOPBACK,
        *,
        added: Mapping[str, View] = _NO_VIEWS,
        open_to_all: Collection[str] = (),
        routes: Sequence[BaseRoute] = (),
        inspector: Inspector | None = None,
    ) -> None:
        """`token` is the token that acts. `added` are further views by path, `routes` further routes for readers; paths
        in `open_to_all` need no token. `inspector` looks records up for the page."""
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
        first, *further = (item.getsockname()[1] for item in self._sockets)
        self.ports: tuple[int, int | None] = (first, further[0] if further else None)
        self.page = f"{page}/?token={self.tokens.read}"
        self.pinned_page = f"{self.page}#{fingerprint}" if page == self.url and fingerprint else self.page
        raise_limit(OPEN_FILES)
        names = {host.lower(), *addresses.names, *(name for item in self._sockets for name in _names(item))}
        guard = Guard(
            Calls(coordinator),
            views(coordinator, inspector, added, routes),
            self.tokens,
            hosts=names,
            cookie=f"samzapy-{first}",
            open_to_all=open_to_all,
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
