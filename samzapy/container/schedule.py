"""When the next window and the next commit of a task are due."""

from __future__ import annotations


class Schedule:
    """A period in seconds on the monotonic clock; a missed beat is not made up for. A period <= 0 is never due."""

    __slots__ = ("_period", "due_at")

    def __init__(self, period_ms: int, now: float) -> None:
        self._period = period_ms / 1000.0
        self.due_at = now + self._period if period_ms > 0 else float("inf")

    def due(self, now: float) -> bool:
        """Whether the time has come; if so, the next time is one period from now on."""
        if now < self.due_at:
            return False
        self.due_at = now + self._period
        return True
