"""Times of one loop: start, end, and how far it was in between."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

#: Seconds between two entries of the timeline.
PACE_S = 0.1


class Stopwatch:
    """Started when it is made; `lap` is called once a batch."""

    def __init__(self) -> None:
        self._cpu = time.process_time()
        self._start = time.monotonic()
        self._due = self._start
        self._laps: list[tuple[float, int, int]] = []

    def lap(self, positions: Mapping[int, int]) -> float:
        """Note how far each partition is, if it is time to; returns the time, as `time.monotonic`."""
        now = time.monotonic()
        if now >= self._due:
            self._laps += [(now, partition, position) for partition, position in positions.items()]
            self._due = now + PACE_S
        return now

    def report(self, done: int, positions: Mapping[int, int], **more: object) -> None:
        """Print the measurement."""
        end = time.monotonic()
        cpu = time.process_time() - self._cpu
        self._laps += [(end, partition, position) for partition, position in positions.items()]
        measured = {
            "start": self._start,
            "end": end,
            "cpu_s": cpu,
            "messages": done,
            "timeline": self._laps,
            "more": more,
        }
        print(json.dumps(measured))
