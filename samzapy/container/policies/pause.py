"""Waiting before a repetition, for as long as nobody asks the container to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable

from samzapy.errors import SamzapyError

_LONGEST_WAIT_S = 0.05


class RetryInterrupted(SamzapyError):
    """Raised instead of a repetition when the container is to stop: the message stays unprocessed."""


class InterruptiblePause:
    """Call it with seconds. `should_stop` is asked several times a second and may itself raise; `wait` waits."""

    __slots__ = ("_should_stop", "_wait")

    def __init__(self, should_stop: Callable[[], bool], wait: Callable[[float], object] | None = None) -> None:
        self._should_stop = should_stop
        self._wait = wait or threading.Event().wait

    def __call__(self, seconds: float) -> None:
        """Wait. Raises RetryInterrupted when the container is to stop."""
        left = seconds
        while True:
            if self._should_stop():
                raise RetryInterrupted("the container stops before the message could be tried again")
            if left <= 0:
                return
            self._wait(min(left, _LONGEST_WAIT_S))
            left -= _LONGEST_WAIT_S
