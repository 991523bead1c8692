"""Runs uvicorn for the coordinator: with the admission's periodic checks, and with TLS on some of its sockets.

uvicorn itself has TLS on all of its sockets or on none. Here a loopback port for people may do without it, and connections count
from before their handshakes.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import uvicorn

from samzapy.coordinator.web.admission import Admission
from samzapy.coordinator.web.tls import Handshake

_NONE: Mapping[socket.socket, ssl.SSLContext] = MappingProxyType({})


class WatchedServer(uvicorn.Server):
    """Serves the sockets passed to `run` without TLS, and those of `secured` with TLS, until `should_exit`."""

    def __init__(
        self, config: uvicorn.Config, admission: Admission, secured: Mapping[socket.socket, ssl.SSLContext] = _NONE
    ) -> None:
        """`secured`: further listening sockets, each with its TLS context."""
        super().__init__(config)
        self._admission = admission
        self._secured = secured

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start as uvicorn does, and listen for TLS as well."""
        await super().startup(sockets)
        loop = asyncio.get_running_loop()
        for each, context in self._secured.items():
            made = partial(Handshake, context, self._connection, self._admission)
            self.servers.append(await loop.create_server(made, sock=each, backlog=self.config.backlog))

    async def main_loop(self) -> None:
        """Run uvicorn's loop, with the admission's checks beside it, until `should_exit`."""
        looks = asyncio.ensure_future(self._admission.watch())
        try:
            await super().main_loop()
        finally:
            looks.cancel()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down as uvicorn does, without waiting for strangers."""
        self._admission.turn_away()
        await super().shutdown(sockets)

    def _connection(self) -> asyncio.Protocol:
        made: Any = self.config.http_protocol_class
        connection: asyncio.Protocol = made(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return connection
