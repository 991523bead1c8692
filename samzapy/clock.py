"""The clock that constructors take. No other code of samzapy reads the time."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks in one: `monotonic` for intervals (seconds), `wall_ms` for time stamps (milliseconds since 1970)."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never jumps."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the epoch; may jump when the machine's clock is set."""
        ...


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    def monotonic(self) -> float:
        """Seconds of `time.monotonic`."""
        return time.monotonic()

    def wall_ms(self) -> int:
        """Milliseconds of `time.time`."""
        return time.time_ns() // 1_000_000


SYSTEM_CLOCK: Clock = SystemClock()


class Schedule:
    """A period in seconds on the monotonic clock; missed beats are skipped. A period <= 0 is never due."""

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
