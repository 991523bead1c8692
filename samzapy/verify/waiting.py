"""Waiting for what another process does: looked at again and again, never longer than a deadline."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.errors import SamzapyError

#: Seconds between two looks.
PACE_S = 0.05

Found = TypeVar("Found")


class NoProgress(SamzapyError):
    """Raised when something did not come about in time: a hung job breaks its promise, too."""


def until(
    look: Callable[[], Found | None], what: Callable[[], str], timeout_s: float, clock: Clock = SYSTEM_CLOCK
) -> Found:
    """The first true answer of `look`. Raises NoProgress, saying `what` was waited for, after `timeout_s` seconds."""
    deadline = clock.monotonic() + timeout_s
    pause = threading.Event()
    while True:
        answer = look()
        if answer:
            return answer
        if clock.monotonic() > deadline:
            raise NoProgress(f"not within {timeout_s:g} s: {what()}")
        pause.wait(PACE_S)
