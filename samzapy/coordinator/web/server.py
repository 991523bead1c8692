"""Runs uvicorn for the coordinator: with the admission's periodic checks, and with TLS on some of its sockets.

1. uvicorn itself has TLS on all of its sockets or on none. Here a loopback port for people may do without it, and
   connections count from before their handshakes.
2. asyncio accepts as many connections in a row as the backlog of its sockets is long. Here the two differ, so that
   reports are answered between a few connections.
3. uvicorn gives every request the same time at the end. Here an answer that never ends, and a call that waits for news,
   end at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import uvicorn

from samzapy.coordinator.web.admission import BACKLOG, Admission
from samzapy.coordinator.web.tls import Handshake

_NONE: Mapping[socket.socket, ssl.SSLContext] = MappingProxyType({})

#: Turns of the event loop in which a connection that was just accepted arrives, is closed, and is gone.
_TURNS = 5
#: Seconds that requests under way get at the end.
GRACE_S = 1.0


#: The threads with a server of this module. uvicorn's lines about its start and end have one logger for all servers of
#: a process, and a program may have one of its own.
_own_threads: set[int | None] = set()


def _not_ours(line: logging.LogRecord) -> bool:
    return line.levelno >= logging.ERROR or line.thread not in _own_threads


logging.getLogger("uvicorn.error").addFilter(_not_ours)


def _nothing() -> None:
    """Wakes no loop: there is none before the server serves, and after it."""


class WatchedServer(uvicorn.Server):
    """Serves the sockets passed to `run` without TLS, and the sockets of `secured` with TLS, until `end`."""

    def __init__(
        self, config: uvicorn.Config, admission: Admission, secured: Mapping[socket.socket, ssl.SSLContext] = _NONE
    ) -> None:
        """`secured`: further listening sockets, each with its TLS context."""
        super().__init__(config)
        self._admission = admission
        self._secured = secured
        self._asked: Callable[[], object] = _nothing

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until `end`; of uvicorn's lines only errors are logged."""
        thread = threading.get_ident()
        _own_threads.add(thread)
        try:
            super().run(sockets)
        finally:
            _own_threads.discard(thread)

    def end(self) -> None:
        """Ask for the end, at once; callable from any thread, and more than once."""
        self.should_exit = True
        # The loop may be closed by now.
        with contextlib.suppress(RuntimeError):
            self._asked()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start as uvicorn does, and listen for TLS as well."""
        await super().startup(sockets)
        loop = asyncio.get_running_loop()
        for each, context in self._secured.items():
            made = partial(Handshake, context, self._connection, self._admission)
            self.servers.append(await loop.create_server(made, sock=each, backlog=self.config.backlog))
        for each in (*(sockets or ()), *self._secured):
            each.listen(BACKLOG)

    async def main_loop(self) -> None:
        """Run uvicorn's loop, with the admission's checks beside it. uvicorn looks for its end ten times a second;
        `end` wakes this loop."""
        loop, asked = asyncio.get_running_loop(), asyncio.Event()
        self._asked = partial(loop.call_soon_threadsafe, asked.set)
        serving = asyncio.ensure_future(super().main_loop())
        others = [asyncio.ensure_future(self._admission.watch()), asyncio.ensure_future(asked.wait())]
        try:
            await asyncio.wait({serving, others[1]}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
        finally:
            self._asked = _nothing
            for each in (serving, *others):
                each.cancel()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down without waiting for strangers, and without a pause if no request waits for its answer. Such
        requests get `GRACE_S` seconds."""
        self._admission.turn_away()
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        tasks = set(self.server_state.tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=GRACE_S)
        late = list(self.server_state.tasks)
        for _ in range(_TURNS):
            self._admission.close_all()
            await asyncio.sleep(0)
        for task in late:
            task.cancel()
        for each in sockets or []:
            each.close()

    def _connection(self) -> asyncio.Protocol:
        made: Any = self.config.http_protocol_class
        connection: asyncio.Protocol = made(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return connection
