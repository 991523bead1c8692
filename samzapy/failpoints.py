"""Fail points: named places at which tests make a process fail. `reach("commit.3")` does nothing unless armed.

Armed by `arm(...)` in the same process, or for child processes by the environment:
`SAMZAPY_FAIL=name:nth:action[,name:nth:action...]`, read by `arm_from_environment` when a container is built.
Actions: `raise` (FailPointReached), `kill` (SIGKILL to itself), `stop` (SIGSTOP to itself). Reached once a commit or a
restore step, never once a message.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping

ENVIRONMENT = "SAMZAPY_FAIL"


class FailPointReached(Exception):
    """Raised by an armed point with action `raise`; not a SamzapyError, as no crash announces itself."""


class _Point:
    __slots__ = ("action", "left")

    def __init__(self, nth: int, action: str | Callable[[str], None]) -> None:
        self.left = nth
        self.action = action


_armed: dict[str, _Point] = {}


def reach(name: str) -> None:
    """Pass the point `name`; fail if it is armed and this is the armed passage."""
    if _armed:
        _reach(name)


def _reach(name: str) -> None:
    point = _armed.get(name)
    if point is None:
        return
    point.left -= 1
    if point.left:
        return
    del _armed[name]
    if callable(point.action):
        point.action(name)
    elif point.action == "raise":
        raise FailPointReached(name)
    elif point.action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        # Sent to the process, the signal may be taken by another thread, and this one would go on until then.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def arm(name: str, nth: int = 1, action: str | Callable[[str], None] = "raise") -> None:
    """Make the `nth` next passage of `name` fail."""
    if not callable(action) and action not in {"raise", "kill", "stop"}:
        raise ValueError(f"fail point {name}: action is raise, kill or stop, got {action!r}")
    _armed[name] = _Point(nth, action)


def disarm(name: str | None = None) -> None:
    """Disarm all points, or one."""
    if name is None:
        _armed.clear()
    else:
        _armed.pop(name, None)


def arm_from_environment(environ: Mapping[str, str]) -> None:
    """Arm the points that `SAMZAPY_FAIL` names, if it is set."""
    for part in filter(None, environ.get(ENVIRONMENT, "").split(",")):
        name, nth, action = part.split(":")
        arm(name, int(nth), action)
