"""Serves an application over HTTP with uvicorn, in a thread of its own.

uvicorn limits a request's headers, the time of an idle connection and the time of its own end. It waits for a first
request without a limit, so connections that have made none are closed after `SILENT_S` to twice as many seconds.
Nothing limits the number of connections: a container that gets no answer for the length of its lease stops, so a flood
of other connections must not be answered in its place.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Mapping
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from samzapy.coordinator.web.tls import Identity

#: Seconds in which a new connection has to make a request, until an idle one is closed, and for requests in progress at
#: the end.
SILENT_S, IDLE_S, GRACE_S = 10, 90, 1
#: Connections that the system keeps until they are accepted: all containers of a job may come at once.
BACKLOG = 2_048
_THREAD = "samzapy-http-"


def _is_foreign(line: logging.LogRecord) -> bool:
    """Whether a line of uvicorn is of a server that is not ours. The application logs its own failures; of the rest, a
    client without a token could fill the job's log."""
    return not str(line.threadName).startswith(_THREAD)


logging.getLogger("uvicorn.error").addFilter(_is_foreign)


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens at the address; port 0: any free one. Raises OSError."""
    return socket.create_server((host, port), backlog=BACKLOG)


class HttpServer:
    """Serves `app` until closed, at listening sockets; those with an identity have TLS."""

    def __init__(self, app: ASGIApp, sockets: Mapping[socket.socket, Identity | None], name: str) -> None:
        """`name` is for the thread. The sockets are closed with the server."""
        self._servers = [(_server(app, identity), listening) for listening, identity in sockets.items()]
        self._thread = threading.Thread(target=self._run, name=f"{_THREAD}{name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving; closing twice is allowed."""
        for server, _ in self._servers:
            server.should_exit = True
        self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        watch = asyncio.ensure_future(self._close_silent())
        await asyncio.gather(*(server.serve([listening]) for server, listening in self._servers))
        watch.cancel()

    async def _close_silent(self) -> None:
        before: set[Any] = set()
        while True:
            await asyncio.sleep(SILENT_S)
            connections: list[Any] = [
                connection for server, _ in self._servers for connection in server.server_state.connections
            ]
            silent = {connection for connection in connections if connection.cycle is None}
            for connection in silent & before:
                connection.transport.abort()
            before = silent


def _server(app: ASGIApp, identity: Identity | None) -> uvicorn.Server:
    settings = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        loop="asyncio",
        http="h11",
        ws="none",
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=GRACE_S,
    )
    settings.load()
    settings.ssl = None if identity is None else identity.context()
    return uvicorn.Server(settings)
