"""The process that serves a broker's folder, and whether the broker answers.

The probe sends one request of Kafka's protocol by hand: a client would connect and retry in the background.
"""

from __future__ import annotations

import fcntl
import json
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psutil

_FILE = "broker.json"


class RunningBroker(NamedTuple):
    """A broker's process; `created` is its time of creation, which tells it from a later process with the same pid."""

    pid: int
    created: float
    port: int

    @property
    def bootstrap(self) -> str:
        """The value of `bootstrap.servers` for its clients."""
        return f"127.0.0.1:{self.port}"


def remember(folder: Path, pid: int, port: int) -> RunningBroker:
    """Write down that `pid` serves the folder."""
    running = RunningBroker(pid, psutil.Process(pid).create_time(), port)
    (folder / _FILE).write_text(json.dumps(running._asdict()))
    return running


def running(folder: Path) -> RunningBroker | None:
    """The broker that serves the folder now; None if it has ended, even if it left its file behind."""
    found = _remembered(folder)
    return found if found is not None and process(found) is not None else None


def last_port(folder: Path) -> int | None:
    """The port of the folder's last broker, running or not."""
    found = _remembered(folder)
    return None if found is None else found.port


def process(broker: RunningBroker) -> psutil.Process | None:
    """The broker's process; None if it has ended."""
    with suppress(psutil.Error):
        found = psutil.Process(broker.pid)
        if found.create_time() == broker.created and found.status() != psutil.STATUS_ZOMBIE:
            return found
    return None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One start or stop of a folder at a time."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _remembered(folder: Path) -> RunningBroker | None:
    try:
        return RunningBroker(**json.loads((folder / _FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None


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
    """A port of this machine that is free now."""
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
