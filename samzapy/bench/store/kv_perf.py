"""Apache Samza's scenarios (its kv-perf.properties), under their names and with their parameters and defaults.

What they leave to chance is seeded here, and what they make between the measured calls is made before. As stores belong
to one thread, the threads of rocksdb-concurrent-write-performance take turns by a lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from samzapy.bench.store.material import Material, Parameters
from samzapy.bench.store.scenario import Scenario, WatchOf
from samzapy.bench.store.targets import Target


class AllWithDeletes(Scenario):
    """Puts and deletes every key, then opens `all()`: what deletions cost a scan. The latencies are `all()`'s; an
    operation is a put or a delete."""

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
    """Each iteration writes a batch of keys of its own and reads it."""

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
