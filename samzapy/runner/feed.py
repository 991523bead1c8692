"""Tells a listener how a job stands, while something else blocks the main thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import final

from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.progress import JobStatus

#: Seconds between two looks at the status.
PACE_S = 0.25


@final
class StatusFeed:
    """While entered, passes the coordinator's status to `listener` at a steady pace, and once more at the end."""

    def __init__(self, coordinator: Coordinator, listener: Callable[[JobStatus], None]) -> None:
        self._coordinator = coordinator
        self._listener = listener
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="status-feed", daemon=True)

    def __enter__(self) -> StatusFeed:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._closed.set()
        self._thread.join()
        self._listener(self._coordinator.status())

    def _run(self) -> None:
        while not self._closed.wait(PACE_S):
            self._listener(self._coordinator.status())
