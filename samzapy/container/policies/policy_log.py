"""A line for what a policy does to a message, and not a line for each of a million."""

from __future__ import annotations

import logging

from samzapy.clock import Clock

logger = logging.getLogger(__name__)


class PolicyLog:
    """Warns at most once a period for each kind of action; the next line says how many were left out."""

    __slots__ = ("_clock", "_left_out", "_next", "_period_s")

    def __init__(self, clock: Clock, period_s: float = 10.0) -> None:
        self._clock = clock
        self._period_s = period_s
        self._next: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def warn(self, kind: str, line: str) -> None:
        """Log `line`, or count it if one of its kind was logged within the period."""
        now = self._clock.monotonic()
        if now < self._next.get(kind, now):
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return
        self._next[kind] = now + self._period_s
        more = self._left_out.pop(kind, 0)
        logger.warning("%s%s", line, f" (and {more} more like it since the last line)" if more else "")
