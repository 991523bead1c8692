"""Times the measured parts of one repeat."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

import psutil

#: Calls of which one is timed: two readings of the clock a call would cost as much as a hit in the cache.
SAMPLE_EVERY = 64


class Stopwatch(AbstractContextManager["Stopwatch"]):
    """Inside `with` everything counts; several times add up.

    `latencies_ns` are those of single calls: of one in SAMPLE_EVERY through `each` and `pairs`, of every one through
    `one`. `cpu_s` is the process's, user and system, all threads; `bytes_written` what it wrote to files (0 where
    the system does not say).
    """

    def __init__(self) -> None:
        #: What was done, in the scenario's unit; whoever calls counts.
        self.operations = 0
        self.seconds = 0.0
        self.cpu_s = 0.0
        self.bytes_written = 0
        self.latencies_ns = array("q")
        self._process = psutil.Process()

    def __enter__(self) -> Stopwatch:  # noqa: PYI034 - not meant to be extended
        self._written = self._bytes()
        self._cpu = time.process_time()
        self._start = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.seconds += time.perf_counter() - self._start
        self.cpu_s += time.process_time() - self._cpu
        self.bytes_written += self._bytes() - self._written

    def each(self, call: Callable[[Any], object], arguments: Sequence[Any]) -> None:
        """`call` with every argument."""
        now, note = time.perf_counter_ns, self.latencies_ns.append
        for start in range(0, len(arguments), SAMPLE_EVERY):
            begin = now()
            call(arguments[start])
            note(now() - begin)
            for argument in arguments[start + 1 : start + SAMPLE_EVERY]:
                call(argument)

    def pairs(self, call: Callable[[Any, Any], object], keys: Sequence[Any], values: Sequence[Any]) -> None:
        """`call` with every key and its value."""
        now, note = time.perf_counter_ns, self.latencies_ns.append
        for start in range(0, len(keys), SAMPLE_EVERY):
            begin = now()
            call(keys[start], values[start])
            note(now() - begin)
            end = start + SAMPLE_EVERY
            for key, value in zip(keys[start + 1 : end], values[start + 1 : end], strict=True):
                call(key, value)

    def rewrite(
        self,
        get: Callable[[Any], object],
        put: Callable[[Any, Any], object],
        keys: Sequence[Any],
        values: Sequence[Any],
    ) -> None:
        """`get` of every key, and then `put` of its new value."""
        now, note = time.perf_counter_ns, self.latencies_ns.append
        for start in range(0, len(keys), SAMPLE_EVERY):
            begin = now()
            get(keys[start])
            put(keys[start], values[start])
            note(now() - begin)
            end = start + SAMPLE_EVERY
            for key, value in zip(keys[start + 1 : end], values[start + 1 : end], strict=True):
                get(key)
                put(key, value)

    def one(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """One call, timed."""
        begin = time.perf_counter_ns()
        result = call(*arguments)
        self.latencies_ns.append(time.perf_counter_ns() - begin)
        return result

    def percentile_us(self, share: float) -> float | None:
        """The latency in microseconds that this share of the timed calls did not exceed; None without any."""
        if not self.latencies_ns:
            return None
        ordered = sorted(self.latencies_ns)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] / 1e3

    def _bytes(self) -> int:
        counters = getattr(self._process, "io_counters", None)
        return int(counters().write_bytes) if counters else 0
