"""When to submit again after Spark has given up."""

from __future__ import annotations

#: A run that lasted this many times the longest delay was sound; what ends it is a new trouble.
SOUND = 10


class Backoff:
    """Delays that double from `first_s` to `longest_s`, at most `limit` in a row.

    A run that has lasted ten times the longest delay starts the count over. How far it got says less: beside a
    partition with a message that cannot be processed, the others get further with every attempt.
    """

    def __init__(self, limit: int, first_s: float, longest_s: float) -> None:
        self.limit = limit
        self._first_s = first_s
        self._longest_s = longest_s
        self.failures = 0

    def after(self, lasted_s: float) -> float | None:
        """Seconds to wait after a run that failed and had lasted `lasted_s`; None to give up."""
        if lasted_s >= SOUND * self._longest_s:
            self.failures = 0
        if self.failures >= self.limit:
            return None
        self.failures += 1
        return float(min(self._longest_s, self._first_s * 2 ** (self.failures - 1)))
