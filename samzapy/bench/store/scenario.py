"""The base of every scenario, the stopwatch for the measured parts of one repeat, and Apache Samza's own scenarios.

Samza's (its kv-perf.properties) have their names, parameters and defaults. Random choices are seeded here, and data
that they make between the measured calls is made in advance. As stores belong to one thread, the threads of
rocksdb-concurrent-write-performance take turns by a lock.
"""

from __future__ import annotations

import threading
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

#: One in this many calls is timed: two readings of the clock would cost as much as a hit in the cache.
SAMPLE_EVERY = 64


class Stopwatch(AbstractContextManager["Stopwatch"]):
    """Measures everything inside `with`; several blocks add up.

    `latencies_ns` holds single calls: one in SAMPLE_EVERY through `each` and `pairs`, every one through `one`. `cpu_s`
    is user and system time of all threads of the process; `bytes_written` counts the bytes that the process wrote to
    files, 0 where the operating system does not count them.
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
        """Run one repeat; only operations inside `with watch_of(part)` are measured and counted."""

    def fill(self, target: Target, keys: Sequence[Any], values: Sequence[Any]) -> None:
        """Put every key, committed."""
        for start in range(0, len(keys), _STEP):
            end = start + _STEP
            target.store.put_all(list(zip(keys[start:end], values[start:end], strict=True)))
            if target.over_budget():
                target.commit()
        target.commit()

    def written(self, target: Target, count: int, write: Callable[[int, int], object]) -> None:
        """Call `write(start, end)` in steps up to `count`, with the commits in between and one at the end."""
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


class AllWithDeletes(Scenario):
    """Puts and deletes every key, then opens `all()`: the cost of deletions for a scan. The latencies are `all()`'s;
    an operation is a put or a delete."""

    fresh = True

    def __init__(self, material: Material, parameters: Parameters) -> None:
        super().__init__(material, parameters)
        self._loops = parameters.integer("num.loops", 100, count=True)
        self._batch = parameters.integer("messages.per.batch", 10_000)
        self._value = material.value(parameters.integer("message.size.bytes", 200))

    def run(self, target: Target, watch_of: WatchOf) -> None:
        watch, store, value = watch_of(""), target.store, self._value
        for loop in range(self._loops):
            keys = [self.material.key(str(loop * number)) for number in range(self._batch)]
            with watch:
                put, delete = store.put, store.delete
                for key in keys:
                    put(key, value)
                    delete(key)
                target.commit()
                watch.one(_first, store)
            watch.operations += 2 * len(keys)


def _first(store: Any) -> object:
    with store.all() as entries:
        return next(entries, None)


class WritePerformance(Scenario):
    """Puts the keys "0", "1", ..., one after the other."""

    fresh = True

    def __init__(self, material: Material, parameters: Parameters) -> None:
        super().__init__(material, parameters)
        size = parameters.integer("message.size", 200)
        count = parameters.integer("message.count", 10_000, count=True)
        self._keys = [material.key(str(number)) for number in range(count)]
        self._values = material.values(size, count)

    def run(self, target: Target, watch_of: WatchOf) -> None:
        keys, values, put = self._keys, self._values, target.store.put
        with watch_of("") as watch:
            self.written(target, len(keys), lambda start, end: watch.pairs(put, keys[start:end], values[start:end]))
        watch.operations += len(keys)


class ConcurrentWritePerformance(Scenario):
    """The same, by `num.threads` threads that all put the same keys."""

    fresh = True

    def __init__(self, material: Material, parameters: Parameters) -> None:
        super().__init__(material, parameters)
        self._threads = parameters.integer("num.threads", 4)
        size = parameters.integer("message.size", 200)
        count = parameters.integer("message.count", 10_000, count=True)
        self._keys = [material.key(str(number)) for number in range(count)]
        self._values = material.values(size, count)

    def run(self, target: Target, watch_of: WatchOf) -> None:
        watch, keys, values, put = watch_of(""), self._keys, self._values, target.store.put
        turn = threading.Lock()
        failures: list[BaseException] = []

        def writes() -> None:
            try:
                for number, (key, value) in enumerate(zip(keys, values, strict=True), 1):
                    with turn:
                        put(key, value)
                        if number % 1_000 == 0 and target.over_budget():
                            target.commit()
            except BaseException as failure:  # noqa: BLE001 - raised again in the thread that started these
                failures.append(failure)

        threads = [threading.Thread(target=writes, name=f"writer-{number}") for number in range(self._threads)]
        with watch:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            target.commit()
        watch.operations += len(keys) * self._threads
        if failures:
            raise failures[0]


class _GetAllVersusGet(Scenario):
    """Reads the same keys with `get_all` and one by one with `get`; the latency of `get_all` is a whole batch's."""

    fresh = True

    def __init__(self, material: Material, parameters: Parameters) -> None:
        super().__init__(material, parameters)
        self.iterations = parameters.integer("iterations.count", 100, count=True)
        self.most = parameters.integer("message.max-count-per-batch", 100_000, count=True)
        self.values = material.values(parameters.integer("message.max-size.bytes", 1_024), 1_024)

    def compare(self, target: Target, keys: list[Any], watch_of: WatchOf) -> None:
        """Both ways, over the same keys in the same order."""
        with watch_of("get_all") as watch:
            watch.one(target.store.get_all, keys)
        watch.operations += len(keys)
        with watch_of("get") as watch:
            watch.each(target.store.get, keys)
        watch.operations += len(keys)

    def put(self, target: Target, keys: list[Any]) -> None:
        """Write them, committed, not measured."""
        self.fill(target, keys, [self.values[number % len(self.values)] for number in range(len(keys))])


class WriteManyReadMany(_GetAllVersusGet):
    """Each iteration writes a batch of new keys and reads it."""

    def run(self, target: Target, watch_of: WatchOf) -> None:
        chance = self.material.chance
        for iteration in range(self.iterations):
            keys = self.material.keys(chance.randint(1, self.most), kind=f"i{iteration}-")
            self.put(target, keys)
            chance.shuffle(keys)
            self.compare(target, keys, watch_of)


class WriteOnceReadMany(_GetAllVersusGet):
    """Everything is written once; each iteration reads a random part of it."""

    def run(self, target: Target, watch_of: WatchOf) -> None:
        chance = self.material.chance
        batch = min(self.most, 10_000 + chance.randrange(20_000))
        written = self.material.keys(batch * self.iterations)
        self.put(target, written)
        for _ in range(self.iterations):
            self.compare(target, chance.sample(written, batch), watch_of)


KV_PERF: dict[str, Callable[[Material, Parameters], Scenario]] = {
    "all-with-deletes": AllWithDeletes,
    "rocksdb-write-performance": WritePerformance,
    "rocksdb-concurrent-write-performance": ConcurrentWritePerformance,
    "get-all-vs-get-write-many-read-many": WriteManyReadMany,
    "get-all-vs-get-write-once-read-many": WriteOnceReadMany,
}
