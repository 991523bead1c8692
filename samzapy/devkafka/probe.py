"""Whether a broker answers: one request of Kafka's protocol, by hand, so that nothing has to connect and retry."""

from __future__ import annotations

import socket
import struct

HOST = "127.0.0.1"

#: Metadata, version 1, correlation id 1, client id "probe", of no topics.
_METADATA = struct.pack(">hhih5si", 3, 1, 1, 5, b"probe", 0)


def answers(port: int, timeout_s: float = 1.0) -> bool:
    """Whether the broker on that port of this machine is up and counts itself as ready for clients."""
    try:
        with socket.create_connection((HOST, port), timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(struct.pack(">i", len(_METADATA)) + _METADATA)
            head = _read(connection, 12)
    except OSError:
        return False
    # Size, correlation id, number of brokers.
    return len(head) == 12 and struct.unpack(">iii", head)[2] > 0


def free_port() -> int:
    """A port of this machine that nobody listens on now."""
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        port: int = taken.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    """Whether a server could listen on the port."""
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((HOST, port))
            attempt.listen()
        except OSError:
            return False
        return True


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            break
        data += more
    return data
