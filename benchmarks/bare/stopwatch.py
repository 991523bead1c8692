"""Times of one loop."""

from __future__ import annotations

import json
import time


class Stopwatch:
    """Started when it is made."""

    def __init__(self) -> None:
        self._cpu = time.process_time()
        self._start = time.monotonic()

    def report(self, done: int, **more: object) -> None:
        """Print the measurement."""
        cpu_s = time.process_time() - self._cpu
        measured = {"start": self._start, "end": time.monotonic(), "cpu_s": cpu_s, "messages": done, "more": more}
        print(json.dumps(measured))
