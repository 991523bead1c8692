"""How long a test waits, in real time, for a task that does not come to rest: its own clock stands still meanwhile."""

from __future__ import annotations

from samzapy.clock import SYSTEM_CLOCK
from samzapy.container.asynchronous.event_loop import EventLoop


class PatientEventLoop(EventLoop):
    """Raises TimeoutError when no message has ended for `patience_s` seconds of waiting."""

    def __init__(self, patience_s: float) -> None:
        super().__init__()
        self._patience_s = patience_s
        self._waited_s = 0.0

    def run(self, timeout_s: float) -> None:
        began = SYSTEM_CLOCK.monotonic()
        super().run(timeout_s)
        self._waited_s += SYSTEM_CLOCK.monotonic() - began
        if self._waited_s > self._patience_s:
            raise TimeoutError(f"no message in flight has ended within {self._patience_s:g} s (real time)")

    def news(self) -> None:
        self._waited_s = 0.0
        super().news()
