"""Reads and writes of single keys and of batches."""

from __future__ import annotations

from typing import Any

from samzapy.bench.store.material import Material
from samzapy.bench.store.parameters import Parameters
from samzapy.bench.store.scenario import Scenario, WatchOf
from samzapy.bench.store.targets import Target


class _Load(Scenario):
    """`count` operations on `keys` keys with values of `value.bytes`."""

    def __init__(self, material: Material, parameters: Parameters) -> None:
        super().__init__(material, parameters)
        self.keys = material.keys(parameters.integer("keys", 100_000, count=True), shuffled=True)
        self.count = parameters.integer("count", 200_000, count=True)
        self.values = material.values(parameters.integer("value.bytes", 100), max(self.count, len(self.keys)))

    def prepare(self, target: Target) -> None:
        """Every key has a value, and is in the cache if it has room."""
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
        """Nothing: it begins empty."""

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
    """Gets of keys that are not there."""

    def run(self, target: Target, watch_of: WatchOf) -> None:
        absent = self.material.keys(len(self.keys), kind="absent-")
        self.get(target, watch_of, self.material.drawn(absent, self.count))


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
