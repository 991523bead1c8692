"""Time comes in by the constructor: nothing in samzapy reads a clock it was not given."""

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
