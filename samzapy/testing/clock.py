"""A clock that a test moves."""

from __future__ import annotations


class ManualClock:
    """Stands still until it is moved; a `samzapy.clock.Clock`."""

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        """`wall_ms`: the time of day to begin with, in milliseconds since 1970; `monotonic` begins at 0."""
        self._began_ms = wall_ms
        self._now = 0.0

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._now

    def wall_ms(self) -> int:
        """Milliseconds since 1970; moves with `monotonic`."""
        return self._began_ms + round(self._now * 1000)

    def advance(self, seconds: float) -> None:
        """Move both on. Raises ValueError for less than nothing: time does not go back."""
        self.advance_to(self._now + seconds)

    def advance_to(self, monotonic: float) -> None:
        """Move both on until `monotonic()` is that. Raises ValueError if it is past already."""
        if monotonic < self._now:
            raise ValueError(f"the clock is at {self._now} s and cannot go back to {monotonic}")
        self._now = monotonic

    def set_wall(self, wall_ms: int) -> None:
        """Set the time of day alone, as an operator may, in either direction."""
        self._began_ms = wall_ms - round(self._now * 1000)
