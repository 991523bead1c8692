"""When to submit again after Spark has given up."""

from __future__ import annotations


class Backoff:
    """Delays that double from `first_s` to `longest_s`, at most `limit` in a row.

    A job that has got further than ever before since the last failure starts over: its trouble is a new one. A message
    that cannot be processed stops it at the same place each time, so that counts.
    """

    def __init__(self, limit: int, first_s: float, longest_s: float) -> None:
        self._limit = limit
        self._first_s = first_s
        self._longest_s = longest_s
        self._furthest = 0
        self.failures = 0

    def after(self, furthest: int) -> float | None:
        """Seconds to wait after a failure; None to give up. `furthest`: how far the job has got, in any measure that
        only grows with progress."""
        if furthest > self._furthest and self.failures:
            self.failures = 0
        self._furthest = max(self._furthest, furthest)
        if self.failures >= self._limit:
            return None
        self.failures += 1
        return float(min(self._longest_s, self._first_s * 2 ** (self.failures - 1)))
