"""Handles SIGTERM and SIGINT: the first one asks the job to stop, the second one ends the process."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, final

#: The event that an operator sees after the first signal.
STOPPING = "stopping: every task commits first; a second signal ends the job at once"

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@final
class StopSignals:
    """While entered, the first signal calls `stop`; any further one calls `abort` and ends the process with 128 + its number.

    Off the main thread it does nothing: the program around it handles signals there.
    """

    def __init__(self, stop: Callable[[], None], abort: Callable[[], None] = lambda: None) -> None:
        self._stop = stop
        self._abort = abort
        self._previous: dict[signal.Signals, Any] = {}
        self.received = False

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._handle) for number in SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _: FrameType | None) -> None:
        if not self.received:
            self.received = True
            self._stop()
            return
        try:
            self._abort()
        finally:
            os._exit(128 + number)
