"""What a broker's folder says about the process that serves it."""

from __future__ import annotations

import fcntl
import json
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
        """What clients are given as `bootstrap.servers`."""
        return f"127.0.0.1:{self.port}"


def remember(folder: Path, pid: int, port: int) -> RunningBroker:
    """Write down that `pid` serves the folder."""
    running = RunningBroker(pid, psutil.Process(pid).create_time(), port)
    (folder / _FILE).write_text(json.dumps(running._asdict()))
    return running


def running(folder: Path) -> RunningBroker | None:
    """The broker that serves the folder now; None if there is none, whatever was left behind by an earlier one."""
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
