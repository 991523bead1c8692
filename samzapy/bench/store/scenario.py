"""The base of every scenario, and the stopwatch for the measured parts of one repeat."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

import psutil

from samzapy.bench.store.material import Material, Parameters
from samzapy.bench.store.targets import Target

#: One in so many calls is timed: two readings of the clock a call would cost as much as a hit in the cache.
SAMPLE_EVERY = 64


class Stopwatch(AbstractContextManager["Stopwatch"]):
    """Measures everything inside `with`; several blocks add up.

    `latencies_ns` holds single calls: one in SAMPLE_EVERY through `each` and `pairs`, every one through `one`. `cpu_s` is
    user and system time of all threads of the process; `bytes_written` is what the process wrote to files, 0 where the
    operating system does not count it.
    """

    def __init__(self) -> None:
        #: Counted by the caller, in the scenario's unit.
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


#: The stopwatch of a part of the scenario; most have one part, "".
WatchOf = Callable[[str], Stopwatch]

#: Writes between two looks at the budget.
_STEP = 1_000


class Scenario(ABC):
    """One load. The constructor reads its parameters, `prepare` fills the target, `run` is one repeat.

    Every scenario takes `commit.every`: writes between two commits (0: when the store is over its budget, as a
    container does, and at the end).
    """

    #: Whether each repeat starts with an empty target.
    fresh = False

    def __init__(self, material: Material, parameters: Parameters) -> None:
        self.material = material
        self.commit_every = parameters.integer("commit.every", 0, least=0)

    def prepare(self, target: Target) -> None:  # noqa: B027
        """Before the first repeat, not measured; nothing by default."""

    @abstractmethod
    def run(self, target: Target, watch_of: WatchOf) -> None:
        """One repeat: what counts happens inside `with watch_of(part)`, and its operations are counted there."""

    def fill(self, target: Target, keys: Sequence[Any], values: Sequence[Any]) -> None:
        """Put every key, committed."""
        for start in range(0, len(keys), _STEP):
            end = start + _STEP
            target.store.put_all(list(zip(keys[start:end], values[start:end], strict=True)))
            if target.over_budget():
                target.commit()
        target.commit()

    def written(self, target: Target, count: int, write: Callable[[int, int], object]) -> None:
        """`write(start, end)` in steps up to `count`, with the commits between and one at the end."""
        step = min(_STEP, self.commit_every or _STEP)
        since = 0
        for start in range(0, count, step):
            end = min(start + step, count)
            write(start, end)
            since += end - start
            if (self.commit_every and since >= self.commit_every) or target.over_budget():
                target.commit()
                since = 0
        if since:
            target.commit()
