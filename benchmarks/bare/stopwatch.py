"""Times of one loop: start, end, and how far it was in between."""

from __future__ import annotations

import json
import time

#: Seconds between two entries of the timeline.
PACE_S = 0.25


class Stopwatch:
    """Started when it is made; `lap` is called once a batch."""

    def __init__(self) -> None:
        self._cpu = time.process_time()
        self._start = time.monotonic()
        self._due = self._start
        self._laps: list[tuple[float, int]] = []

    def lap(self, done: int) -> float:
        """Note that `done` messages are done; returns the time, as `time.monotonic`."""
        now = time.monotonic()
        if now >= self._due:
            self._laps.append((now, done))
            self._due = now + PACE_S
        return now

    def report(self, done: int, **more: object) -> None:
        """Print the measurement."""
        end = time.monotonic()
        measured = {
            "start": self._start,
            "end": end,
            "cpu_s": time.process_time() - self._cpu,
            "messages": done,
            "timeline": [*self._laps, (end, done)],
            **more,
        }
        print(json.dumps(measured))
