"""The scenarios of samzapy: reads and writes of keys and batches, scans, commits, restores.

`SCENARIOS` names all scenarios, including Samza's (`kv_perf`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from samzapy.bench.store.material import Material, Parameters
from samzapy.bench.store.scenario import KV_PERF, Scenario, WatchOf
from samzapy.bench.store.targets import Target


class _Load(Scenario):
    """`count` operations on `keys` keys with values of `value.bytes`."""

    def __init__(self, material: Material, parameters: Parameters) -> None:
        super().__init__(material, parameters)
        self.keys = material.keys(parameters.integer("keys", 100_000, count=True), shuffled=True)
        self.count = parameters.integer("count", 200_000, count=True)
        self.values = material.values(parameters.integer("value.bytes", 100), max(self.count, len(self.keys)))

    def prepare(self, target: Target) -> None:
        """Give every key a value; the cache holds as many as it has room for."""
        self.fill(target, self.keys, self.values[: len(self.keys)])

    def put(self, target: Target, watch_of: WatchOf, keys: list[Any]) -> None:
        """Put them all, measured."""
        values, put = self.values, target.store.put
        with watch_of("") as watch:
            self.written(target, len(keys), lambda start, end: watch.pairs(put, keys[start:end], values[start:end]))
        watch.operations += len(keys)

    def get(self, target: Target, watch_of: WatchOf, keys: list[Any]) -> None:
        """Get them all, measured."""
        with watch_of("") as watch:
            watch.each(target.store.get, keys)
        watch.operations += len(keys)


class FillSequentially(_Load):
    """New keys in order (`count` is not used)."""

    fresh = True

    def prepare(self, target: Target) -> None:
        """Do nothing: the target begins empty."""

    def run(self, target: Target, watch_of: WatchOf) -> None:
        self.put(target, watch_of, sorted(self.keys))


class FillRandomly(FillSequentially):
    """New keys in a random order (`count` is not used)."""

    def run(self, target: Target, watch_of: WatchOf) -> None:
        self.put(target, watch_of, self.keys)


class Overwrite(_Load):
    """Puts to random keys that are there."""

    def run(self, target: Target, watch_of: WatchOf) -> None:
        self.put(target, watch_of, self.material.drawn(self.keys, self.count))


class ReadRandom(_Load):
    """Gets of random keys that are there; `exponent` (0) skews them by Zipf's law."""

    def __init__(self, material: Material, parameters: Parameters) -> None:
        super().__init__(material, parameters)
        self._exponent = parameters.number("exponent", 0.0)

    def run(self, target: Target, watch_of: WatchOf) -> None:
        self.get(target, watch_of, self.material.drawn(self.keys, self.count, self._exponent))


class ReadMissing(_Load):
    """Gets of absent keys, each next to a key that is there."""

    def run(self, target: Target, watch_of: WatchOf) -> None:
        self.get(target, watch_of, self.material.drawn(self.material.absent(len(self.keys)), self.count))


class ReadModifyWrite(_Load):
    """A get and a put of the same key, the keys skewed by Zipf's law (`exponent`, 1.1). An operation is both calls."""

    def __init__(self, material: Material, parameters: Parameters) -> None:
        super().__init__(material, parameters)
        self._exponent = parameters.number("exponent", 1.1)

    def run(self, target: Target, watch_of: WatchOf) -> None:
        keys, values = self.material.drawn(self.keys, self.count, self._exponent), self.values
        get, put = target.store.get, target.store.put
        with watch_of("") as watch:
            self.written(
                target, len(keys), lambda start, end: watch.rewrite(get, put, keys[start:end], values[start:end])
            )
        watch.operations += len(keys)


class PutAll(_Load):
    """`put_all` of `batch` (500) random keys, and a commit after each unless `commit.every` says otherwise. The latency
    is a batch's, its commit left out; an operation is one entry."""

    def __init__(self, material: Material, parameters: Parameters) -> None:
        super().__init__(material, parameters)
        self._batch = parameters.integer("batch", 500)
        self.commit_every = max(self.commit_every, self._batch)

    def run(self, target: Target, watch_of: WatchOf) -> None:
        pairs = list(zip(self.material.drawn(self.keys, self.count), self.values, strict=False))
        batches = [pairs[start : start + self._batch] for start in range(0, len(pairs), self._batch)]
        watch, put_all, since = watch_of(""), target.store.put_all, 0
        with watch:
            for batch in batches:
                watch.one(put_all, batch)
                since += len(batch)
                if since >= self.commit_every or target.over_budget():
                    target.commit()
                    since = 0
            target.commit()
        watch.operations += len(pairs)


class GetAll(_Load):
    """`get_all` of `batch` (500) random keys. The latency is a batch's; an operation is one key."""

    def __init__(self, material: Material, parameters: Parameters) -> None:
        super().__init__(material, parameters)
        self._batch = parameters.integer("batch", 500)

    def run(self, target: Target, watch_of: WatchOf) -> None:
        keys = self.material.drawn(self.keys, self.count)
        batches = [keys[start : start + self._batch] for start in range(0, len(keys), self._batch)]
        with watch_of("") as watch:
            for batch in batches:
                watch.one(target.store.get_all, batch)
        watch.operations += len(keys)


LOADS: dict[str, type[Scenario]] = {
    "fillseq": FillSequentially,
    "fillrandom": FillRandomly,
    "overwrite": Overwrite,
    "readrandom": ReadRandom,
    "readmissing": ReadMissing,
    "read-modify-write": ReadModifyWrite,
    "put-all": PutAll,
    "get-all": GetAll,
}


class RangeScan(Scenario):
    """`count` ranges of `length` entries at random places. The latency is a range's; an operation is an entry."""

    def __init__(self, material: Material, parameters: Parameters) -> None:
        super().__init__(material, parameters)
        self._keys = material.keys(parameters.integer("keys", 100_000, count=True))
        self._length = min(parameters.integer("length", 100), len(self._keys) - 1)
        self._count = parameters.integer("count", 1_000, count=True)
        self._values = material.values(parameters.integer("value.bytes", 100), len(self._keys))

    def prepare(self, target: Target) -> None:
        """Give every key a value."""
        self.fill(target, self._keys, self._values)

    def run(self, target: Target, watch_of: WatchOf) -> None:
        keys, length = self._keys, self._length
        starts = [self.material.chance.randrange(len(keys) - length) for _ in range(self._count)]
        with watch_of("") as watch:
            for start in starts:
                watch.operations += watch.one(_entries_between, target.store, keys[start], keys[start + length])


def _entries_between(store: Any, lower: Any, upper: Any) -> int:
    with store.range(lower, upper) as entries:
        return sum(1 for _ in entries)


class DeleteScan(Scenario):
    """`count` scans of everything after the share `deleted` (0.9) of the keys was deleted. The latency is a scan's; an
    operation is an entry that is left."""

    def __init__(self, material: Material, parameters: Parameters) -> None:
        super().__init__(material, parameters)
        self._keys = material.keys(parameters.integer("keys", 100_000, count=True), shuffled=True)
        self._deleted = int(len(self._keys) * min(1.0, parameters.number("deleted", 0.9)))
        self._count = parameters.integer("count", 10, count=True)
        self._values = material.values(parameters.integer("value.bytes", 100), len(self._keys))

    def prepare(self, target: Target) -> None:
        """Put them all, commit, delete most, commit."""
        self.fill(target, self._keys, self._values)
        target.store.delete_all(self._keys[: self._deleted])
        target.commit()

    def run(self, target: Target, watch_of: WatchOf) -> None:
        with watch_of("") as watch:
            for _ in range(self._count):
                watch.operations += watch.one(_entries, target.store)


def _entries(store: Any) -> int:
    with store.all() as entries:
        return sum(1 for _ in entries)


class Commit(Scenario):
    """`count` commits after `batch` (1,000) puts to random keys each; only the commits are measured. The latency is a
    commit's; an operation is an entry."""

    def __init__(self, material: Material, parameters: Parameters) -> None:
        super().__init__(material, parameters)
        self._keys = material.keys(parameters.integer("keys", 100_000, count=True), shuffled=True)
        self._batch = min(parameters.integer("batch", 1_000), len(self._keys))
        self._count = parameters.integer("count", 100, count=True)
        self._values = material.values(parameters.integer("value.bytes", 100), len(self._keys))

    def prepare(self, target: Target) -> None:
        """Give every key a value."""
        self.fill(target, self._keys, self._values)

    def run(self, target: Target, watch_of: WatchOf) -> None:
        watch, put = watch_of(""), target.store.put
        for _ in range(self._count):
            for key, value in zip(self.material.chance.sample(self._keys, self._batch), self._values, strict=False):
                put(key, value)
            with watch:
                watch.one(target.commit)
            watch.operations += self._batch


class Restore(Scenario):
    """Loses the local state and reads a changelog of `count` records over `keys` keys. An operation is a record that
    was read: a system that compacts has fewer left."""

    def __init__(self, material: Material, parameters: Parameters) -> None:
        super().__init__(material, parameters)
        self._keys = material.keys(parameters.integer("keys", 20_000, count=True), shuffled=True)
        self._count = parameters.integer("count", 200_000, count=True)
        self._values = material.values(parameters.integer("value.bytes", 100), len(self._keys))

    def prepare(self, target: Target) -> None:
        """Write the keys in turn, again and again, one record for each write."""
        left = self._count
        while left > 0:
            part = self._keys[:left]
            self.fill(target, part, self._values[: len(part)])
            left -= len(part)

    def run(self, target: Target, watch_of: WatchOf) -> None:
        with watch_of("") as watch:
            watch.operations += watch.one(target.restore)


MAINTENANCE: dict[str, type[Scenario]] = {
    "range-scan": RangeScan,
    "delete-scan": DeleteScan,
    "commit": Commit,
    "restore": Restore,
}


SCENARIOS: Mapping[str, Callable[[Material, Parameters], Scenario]] = {**KV_PERF, **LOADS, **MAINTENANCE}
