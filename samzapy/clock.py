"""The clock that constructors take. No other code of samzapy reads the time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")

#: A figure that is older than this many of the periods in which it is measured is unknown.
STALE_AFTER = 3


class Clock(Protocol):
    """Two clocks in one: `monotonic` for intervals (seconds), `wall_ms` for time stamps (milliseconds since 1970)."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never jumps."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch; may jump when the machine's clock is set."""


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


@dataclass(frozen=True)
class Measured(Generic[T]):
    """A measured figure, and its time in seconds of this process's monotonic clock.

    Readers show only a known one. Processes send each other ages, because their clocks differ.
    """

    value: T
    at: float

    def is_known(self, now: float, period_s: float) -> bool:
        """Whether it is young enough at the time `now`. It is measured every `period_s` seconds."""
        return now - self.at <= STALE_AFTER * period_s


def process_start(pid: int) -> int:
    """The start of a process in ticks since the boot; 0 where the kernel does not say, and for no process."""
    try:
        # The name, in parentheses, may have blanks; the start is the 20th field after it.
        return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def boot_id() -> str:
    """The id of this machine's boot, empty where the kernel does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


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
