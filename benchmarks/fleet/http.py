"""The simulated side's HTTP: one connection that is kept, on asyncio's protocols alone.

The clients share the machine with the coordinator, so a request of theirs has to cost a fraction of what it costs
there.
"""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit


class _Exchange(asyncio.Protocol):
    """Waits for one answer at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[tuple[bytes, bytes]] | None = None
        self._received = bytearray()
        self._length = -1
        self._body_at = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionResetError("the coordinator has closed the connection"))

    def ask(self, request: bytes) -> asyncio.Future[tuple[bytes, bytes]]:
        """Send a request: the head and the body of its answer."""
        assert self.transport is not None
        self._received.clear()
        self._length = -1
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        if self._length < 0:
            end = received.find(b"\r\n\r\n")
            if end < 0:
                return
            at = received.lower().index(b"content-length:", 0, end)
            self._length = int(received[at + 15 : received.index(b"\r\n", at)])
            self._body_at = end + 4
        if len(received) - self._body_at >= self._length and self._answer is not None and not self._answer.done():
            self._answer.set_result((bytes(received[: self._body_at]), bytes(received[self._body_at :])))


class Caller:
    """One connection to the coordinator, made anew after an error. One request at a time."""

    def __init__(self, address: str, token: str) -> None:
        self._host, self._port = place_of(address)
        self._head = f"Host: {self._host}:{self._port}\r\nauthorization: Bearer {token}\r\n".encode()
        self._exchange: _Exchange | None = None

    async def call(self, method: str, path: str, body: bytes = b"") -> bytes:
        """One request. Raises OSError, and ValueError for an answer that is not 200."""
        if self._exchange is None:
            loop = asyncio.get_running_loop()
            self._exchange = (await loop.create_connection(_Exchange, self._host, self._port))[1]
        request = b"%s %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n" % (
            method.encode(),
            path.encode(),
            self._head,
            len(body),
        )
        try:
            head, found = await self._exchange.ask(request + body)
        except OSError:
            self._exchange = None
            raise
        if not head.startswith(b"HTTP/1.1 200"):
            raise ValueError(f"{path}: {head.splitlines()[0].decode()}")
        return found


def place_of(address: str) -> tuple[str, int]:
    """Host and port of an address."""
    parts = urlsplit(address)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port
