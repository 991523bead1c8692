"""The scenarios of a store benchmark, with their parameters, keys and values: `SCENARIOS` names all of them."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from array import array
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import accumulate
from typing import Any, ClassVar

import orjson

from samzapy.bench.targets import Target
from samzapy.config.reading.keys import did_you_mean
from samzapy.errors import ConfigError, ConfigProblem, raise_if_any


class Parameters:
    """The keys `prefix`PARAM of a file.

    Reading a parameter fills in its default and multiplies counts (`count=True`) by `scale`. `check` comes after all
    reads and refuses the keys that are left: a misspelt key would otherwise measure the default.
    """

    def __init__(self, prefix: str, given: Mapping[str, str], scale: float = 1.0) -> None:
        self._prefix = prefix
        self._given = dict(given)
        self._scale = scale
        #: The parameters that were read, defaults included.
        self.values: dict[str, int | float] = {}

    def integer(self, name: str, default: int, *, count: bool = False, least: int = 1) -> int:
        """A whole number. Raises ConfigError."""
        value = int(self._read(name, default, int, f"integer >= {least}", least))
        if count:
            value = max(least, int(value * self._scale))
        self.values[name] = value
        return value

    def number(self, name: str, default: float) -> float:
        """A number >= 0. Raises ConfigError."""
        self.values[name] = value = self._read(name, default, float, "number >= 0", 0)
        return value

    def check(self) -> None:
        """Raise ConfigError for every parameter that nothing has read."""
        known = list(self.values)
        raise_if_any(
            ConfigProblem(f"{self._prefix}{name}", text, f"unknown parameter{did_you_mean(name, known)}")
            for name, text in sorted(self._given.items())
            if name not in known
        )

    def _read(self, name: str, default: float, kind: Callable[[str], float], allowed: str, least: int) -> float:
        text = self._given.get(name)
        if text is None:
            return default
        try:
            value = kind(text)
        except ValueError:
            value = least - 1
        if not value >= least:
            raise ConfigError.of(f"{self._prefix}{name}", text, allowed)
        return value


#: Different values; a put takes one after the other.
_POOL = 1_024


class Material:
    """Keys and values as a store with these serdes takes them. The same seed gives the same ones.

    Key serdes: string, bytes. Value serdes: bytes, string, json (an object with a counter and a text).
    """

    def __init__(self, key_serde: str, msg_serde: str, seed: int) -> None:
        for kind, serde, known in (("key", key_serde, ("string", "bytes")), ("msg", msg_serde, _MAKERS)):
            if serde not in known:
                raise ConfigError.of(f"{kind}.serde", serde, f"to measure, one of {', '.join(known)}")
        self._key_serde = key_serde
        self._make = _MAKERS[msg_serde]
        self._seed = seed
        self.chance = random.Random(seed)

    def keys(self, count: int, end: str = "") -> list[Any]:
        """Distinct keys in a random order. With an `end`, each sorts right after one of the others: a store does not
        search its tables for a key outside of their range."""
        keys = [f"k{number:09d}{end}" for number in range(count)]
        random.Random(self._seed + 1).shuffle(keys)
        return keys if self._key_serde == "string" else [key.encode() for key in keys]

    def drawn(self, keys: list[Any], count: int, exponent: float = 0.0) -> list[Any]:
        """`count` of the keys: the n-th has the weight 1 / n ** exponent (0: all alike)."""
        weights = list(accumulate(1.0 / rank**exponent for rank in range(1, len(keys) + 1))) if exponent else None
        return self.chance.choices(keys, cum_weights=weights, k=count)

    def values(self, size: int, count: int) -> list[Any]:
        """`count` values out of a pool, each of about `size` bytes."""
        pool = [self._make(size, self.chance) for _ in range(min(count, _POOL))]
        return [pool[number % len(pool)] for number in range(count)]


def _text(size: int, chance: random.Random) -> str:
    return chance.randbytes((size + 1) // 2).hex()[:size]


def _object(size: int, chance: random.Random) -> dict[str, Any]:
    value = {"count": chance.randrange(1_000_000), "text": ""}
    value["text"] = _text(max(0, size - len(orjson.dumps(value))), chance)
    return value


_MAKERS: Mapping[str, Callable[[int, random.Random], Any]] = {
    "bytes": lambda size, chance: chance.randbytes(size),
    "string": _text,
    "json": _object,
}

#: One in this many calls is timed: two readings of the clock would cost as much as a hit in the cache.
SAMPLE_EVERY = 64


class Stopwatch(AbstractContextManager["Stopwatch"]):
    """Measures everything inside `with`; several blocks add up.

    `latencies_ns` holds single calls: one in SAMPLE_EVERY through `each`, every one through `one`. `cpu_s` is user and
    system time of all threads of the process.
    """

    def __init__(self) -> None:
        #: Counted by the caller, in the scenario's unit.
        self.operations = 0
        self.seconds = 0.0
        self.cpu_s = 0.0
        self.latencies_ns = array("q")

    def __enter__(self) -> Stopwatch:  # noqa: PYI034 - not meant to be extended
        self._cpu = time.process_time()
        self._start = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._start
        self.cpu_s += time.process_time() - self._cpu

    def each(self, call: Callable[..., object], *columns: Sequence[Any]) -> None:
        """`call` with every row of the columns."""
        for start in range(0, len(columns[0]), SAMPLE_EVERY):
            self.one(call, *(column[start] for column in columns))
            rest = (column[start + 1 : start + SAMPLE_EVERY] for column in columns)
            deque(map(call, *rest), maxlen=0)

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


#: Writes between two checks of the budget.
_STEP = 1_000


class Scenario(ABC):
    """One load: `count` operations on `keys` keys with values of `value.bytes`. `run` is one repeat.

    `commit.every`: writes between two commits (0: when the store is over its budget, as a container does, and at the
    end).
    """

    #: Whether each repeat starts with an empty target.
    fresh: ClassVar[bool] = False
    #: Defaults, and further whole and fractional parameters.
    key_count: ClassVar[int] = 100_000
    operations: ClassVar[int] = 200_000
    integers: ClassVar[Mapping[str, int]] = {}
    numbers: ClassVar[Mapping[str, float]] = {}

    def __init__(self, material: Material, parameters: Parameters) -> None:
        self.material = material
        self.commit_every = parameters.integer("commit.every", 0, least=0)
        self.keys = material.keys(parameters.integer("keys", self.key_count, count=True))
        self.count = parameters.integer("count", self.operations, count=True)
        self.values = material.values(parameters.integer("value.bytes", 100), max(self.count, len(self.keys)))
        self.integer = {name: parameters.integer(name, default) for name, default in self.integers.items()}
        self.number = {name: parameters.number(name, default) for name, default in self.numbers.items()}

    def prepare(self, target: Target) -> None:
        """Before the first repeat, not measured: give every key a value."""
        self.fill(target, self.keys)

    @abstractmethod
    def run(self, target: Target, watch: Stopwatch) -> None:
        """Run one repeat; only operations inside `with watch` are measured, and the scenario counts them."""

    def fill(self, target: Target, keys: Sequence[Any]) -> None:
        """Put every key, committed."""
        pairs = list(zip(keys, self.values, strict=False))
        self.written(target, len(pairs), lambda start, end: target.store.put_all(pairs[start:end]))

    def written(self, target: Target, count: int, write: Callable[[int, int], object], step: int = _STEP) -> None:
        """Call `write(start, end)` in steps up to `count`, with the commits in between and one at the end."""
        step = min(step, self.commit_every or step)
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

    def put(self, target: Target, watch: Stopwatch, keys: list[Any], call: Callable[[Any, Any], object]) -> None:
        """`call` with each of the keys and a new value, measured."""
        values = self.values
        with watch:
            self.written(target, len(keys), lambda start, end: watch.each(call, keys[start:end], values[start:end]))
        watch.operations += len(keys)

    def get(self, target: Target, watch: Stopwatch, keys: list[Any]) -> None:
        """Get each of the keys, measured."""
        with watch:
            watch.each(target.store.get, keys)
        watch.operations += len(keys)


class FillSequentially(Scenario):
    """New keys in order (`count` is not used)."""

    fresh = True

    def prepare(self, target: Target) -> None:
        """Do nothing: the target begins empty."""

    def run(self, target: Target, watch: Stopwatch) -> None:
        self.put(target, watch, sorted(self.keys), target.store.put)


class FillRandomly(FillSequentially):
    """New keys in a random order (`count` is not used)."""

    def run(self, target: Target, watch: Stopwatch) -> None:
        self.put(target, watch, self.keys, target.store.put)


class Overwrite(Scenario):
    """Puts to random keys that are there."""

    def run(self, target: Target, watch: Stopwatch) -> None:
        self.put(target, watch, self.material.drawn(self.keys, self.count), target.store.put)


class ReadRandom(Scenario):
    """Gets of random keys that are there; `exponent` (0) skews them by Zipf's law."""

    numbers: ClassVar = {"exponent": 0.0}

    def run(self, target: Target, watch: Stopwatch) -> None:
        self.get(target, watch, self.material.drawn(self.keys, self.count, self.number["exponent"]))


class ReadMissing(Scenario):
    """Gets of absent keys, each next to a key that is there."""

    def run(self, target: Target, watch: Stopwatch) -> None:
        self.get(target, watch, self.material.drawn(self.material.keys(len(self.keys), "-"), self.count))


class ReadModifyWrite(Scenario):
    """A get and a put of the same key, the keys skewed by Zipf's law (`exponent`, 1.1). An operation is both calls."""

    numbers: ClassVar = {"exponent": 1.1}

    def run(self, target: Target, watch: Stopwatch) -> None:
        get, put = target.store.get, target.store.put

        def rewrite(key: Any, value: Any) -> None:
            get(key)
            put(key, value)

        self.put(target, watch, self.material.drawn(self.keys, self.count, self.number["exponent"]), rewrite)


class PutAll(Scenario):
    """`put_all` of `batch` (500) random keys, and a commit after each unless `commit.every` says otherwise. The latency
    is a batch's, its commit left out; an operation is one entry."""

    integers: ClassVar = {"batch": 500}

    def run(self, target: Target, watch: Stopwatch) -> None:
        batch, put_all = self.integer["batch"], target.store.put_all
        self.commit_every = max(self.commit_every, batch)
        pairs = list(zip(self.material.drawn(self.keys, self.count), self.values, strict=False))
        with watch:
            self.written(target, len(pairs), lambda start, end: watch.one(put_all, pairs[start:end]), batch)
        watch.operations += len(pairs)


class GetAll(Scenario):
    """`get_all` of `batch` (500) random keys. The latency is a batch's; an operation is one key."""

    integers: ClassVar = {"batch": 500}

    def run(self, target: Target, watch: Stopwatch) -> None:
        keys, batch = self.material.drawn(self.keys, self.count), self.integer["batch"]
        batches = [keys[start : start + batch] for start in range(0, len(keys), batch)]
        with watch:
            for batched in batches:
                watch.one(target.store.get_all, batched)
        watch.operations += len(keys)


class RangeScan(Scenario):
    """`count` ranges of `length` entries at random places. The latency is a range's; an operation is an entry."""

    operations = 1_000
    integers: ClassVar = {"length": 100}

    def run(self, target: Target, watch: Stopwatch) -> None:
        keys = sorted(self.keys)
        length = min(self.integer["length"], len(keys) - 1)
        starts = [self.material.chance.randrange(len(keys) - length) for _ in range(self.count)]
        with watch:
            for start in starts:
                watch.operations += watch.one(_scanned, target.store.range, keys[start], keys[start + length])


class DeleteScan(Scenario):
    """`count` scans of everything after the share `deleted` (0.9) of the keys was deleted. The latency is a scan's; an
    operation is an entry that is left."""

    operations = 10
    numbers: ClassVar = {"deleted": 0.9}

    def prepare(self, target: Target) -> None:
        """Put them all, commit, delete most, commit."""
        super().prepare(target)
        target.store.delete_all(self.keys[: int(len(self.keys) * min(1.0, self.number["deleted"]))])
        target.commit()

    def run(self, target: Target, watch: Stopwatch) -> None:
        with watch:
            for _ in range(self.count):
                watch.operations += watch.one(_scanned, target.store.all)


def _scanned(scan: Callable[..., Any], *bounds: Any) -> int:
    with scan(*bounds) as entries:
        return sum(1 for _ in entries)


class Commit(Scenario):
    """`count` commits after `batch` (1,000) puts to random keys each; only the commits are measured. The latency is a
    commit's; an operation is an entry."""

    operations = 100
    integers: ClassVar = {"batch": 1_000}

    def run(self, target: Target, watch: Stopwatch) -> None:
        batch = min(self.integer["batch"], len(self.keys))
        for _ in range(self.count):
            target.store.put_all(list(zip(self.material.chance.sample(self.keys, batch), self.values, strict=False)))
            with watch:
                watch.one(target.commit)
            watch.operations += batch


class Restore(Scenario):
    """Loses the local state and reads a changelog of `count` records over `keys` keys. An operation is a record that
    was read: a system that compacts has fewer left."""

    key_count = 20_000

    def prepare(self, target: Target) -> None:
        """Write the keys in turn, again and again, one record for each write."""
        for start in range(0, self.count, len(self.keys)):
            self.fill(target, self.keys[: self.count - start])

    def run(self, target: Target, watch: Stopwatch) -> None:
        with watch:
            watch.operations += watch.one(target.restore)


SCENARIOS: Mapping[str, Callable[[Material, Parameters], Scenario]] = {
    "fillseq": FillSequentially,
    "fillrandom": FillRandomly,
    "overwrite": Overwrite,
    "readrandom": ReadRandom,
    "readmissing": ReadMissing,
    "read-modify-write": ReadModifyWrite,
    "put-all": PutAll,
    "get-all": GetAll,
    "range-scan": RangeScan,
    "delete-scan": DeleteScan,
    "commit": Commit,
    "restore": Restore,
}
