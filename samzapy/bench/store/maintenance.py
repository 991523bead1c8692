"""Scans, commits and restores."""

from __future__ import annotations

from typing import Any

from samzapy.bench.store.material import Material
from samzapy.bench.store.parameters import Parameters
from samzapy.bench.store.scenario import Scenario, WatchOf
from samzapy.bench.store.targets import Target


class RangeScan(Scenario):
    """`count` ranges of `length` entries at random places. The latency is a range's; an operation is an entry."""

    def __init__(self, material: Material, parameters: Parameters) -> None:
        super().__init__(material, parameters)
        self._keys = material.keys(parameters.integer("keys", 100_000, count=True))
        self._length = min(parameters.integer("length", 100), len(self._keys) - 1)
        self._count = parameters.integer("count", 1_000, count=True)
        self._values = material.values(parameters.integer("value.bytes", 100), len(self._keys))

    def prepare(self, target: Target) -> None:
        """Every key has a value."""
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
        """Every key has a value."""
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
    """Loses the local state and reads a changelog of `count` records over `keys` keys. An operation is a record that was
    read: a system that compacts has fewer left."""

    def __init__(self, material: Material, parameters: Parameters) -> None:
        super().__init__(material, parameters)
        self._keys = material.keys(parameters.integer("keys", 20_000, count=True), shuffled=True)
        self._count = parameters.integer("count", 200_000, count=True)
        self._values = material.values(parameters.integer("value.bytes", 100), len(self._keys))

    def prepare(self, target: Target) -> None:
        """Every key in turn, over and over, a record for each."""
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
