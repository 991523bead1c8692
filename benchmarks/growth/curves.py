"""The curves: each is a workload whose variants are the points of its axis."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Iterator, Mapping

from benchmarks.growth.tasks import BYTES_KEY, STORES_KEY
from benchmarks.kafka import NEVER_CLEANED
from benchmarks.workloads.base import Comparison, Workload
from benchmarks.workloads.recovery import RestoreLarge
from samzapy.bench.events import BATCH, Events
from samzapy.bench.measuring import LOCAL, Measurement

_TASKS = "benchmarks.growth.tasks"
_COUNT = "keyed-count"
_BYTES = {
    "systems.kafka.default.stream.samza.key.serde": "bytes",
    "systems.kafka.default.stream.samza.msg.serde": "bytes",
}
_KEYS = {
    "systems.kafka.default.stream.samza.key.serde": "string",
    "systems.kafka.default.stream.samza.msg.serde": "bytes",
}
#: The bytes of all messages of a run with large messages or values.
_VOLUME = 400_000_000


class Curve(Workload):
    """One axis. `title` says what grows along it, `unit` what a point is."""

    title: str
    unit: str
    points: tuple[str, ...]
    repeats = 1

    def prepare(self) -> None:
        """Each point makes its own inputs."""

    def run(self, variant: str) -> Measurement:
        measured, topics = self.measure(variant)
        for topic in topics:
            self._kafka.delete(topic)
        return measured

    @abstractmethod
    def measure(self, point: str) -> tuple[Measurement, tuple[str, ...]]:
        """One run at a point, and the topics that it leaves behind."""

    @classmethod
    def comparisons(cls, variant: str) -> tuple[Comparison, ...]:
        return ()

    def _counted(self, topic: str, keys: Mapping[str, str], store: str = "counts") -> Measurement:
        changelog = {f"stores.{store}.changelog": f"kafka.{self._kafka.unique('counts')}"}
        return self._job(_COUNT, LOCAL, {"task.inputs": f"kafka.{topic}", **changelog, **keys})


class Keys(Curve):
    """Counts over a state of so many keys, which the task has restored. One event in ten has any of the keys, the
    others one of 1,000: nine in ten are in the cache."""

    name = "keys"
    title = "keys of a store, nine reads in ten from the cache"
    unit = "keys"
    points = variants = ("10000", "100000", "1000000", "10000000")
    OFTEN = 0.9

    def measure(self, point: str) -> tuple[Measurement, tuple[str, ...]]:
        keys = int(point)
        changelog = self._kafka.create("counts", partitions=1, settings=NEVER_CLEANED)
        self._kafka.append_changes(changelog, 0, self._state(keys))
        events = self._kafka.unique("events")
        self._kafka.append(events, self._events_over(keys), partitions=1)
        config = {
            "job.id": self._kafka.unique("keys"),
            "task.inputs": f"kafka.{events}",
            "stores.counts.changelog": f"kafka.{changelog}",
            "stores.counts.object.cache.size": "2000",
        }
        self._adopt(_COUNT, config)
        return self._job(_COUNT, LOCAL, config), (changelog, events)

    @staticmethod
    def _state(keys: int) -> Iterator[list[tuple[bytes, bytes]]]:
        for first in range(0, keys, BATCH):
            yield [(b"u%07d" % key, key.to_bytes(8, "big")) for key in range(first, min(keys, first + BATCH))]

    def _events_over(self, keys: int) -> Iterator[tuple[bytes, bytes]]:
        chance = random.Random(7)
        for number in range(self._events):
            key = chance.randrange(min(keys, 1_000) if chance.random() < self.OFTEN else keys)
            yield b"u%07d" % key, b'{"id":%d,"user":"u%07d","page":"/p/1","amount":1.0}' % (number, key)


class ColdKeys(Keys):
    """The same with every event's key drawn from all of them: reads go to RocksDB."""

    name = "cold-keys"
    title = "keys of a store, reads from RocksDB"
    OFTEN = 0.0


class ColdKeysAlone(Curve):
    """The same reads and writes in RocksDB alone: no Kafka, no changelog, no cache of objects."""

    name = "cold-keys-alone"
    title = "the same in RocksDB alone"
    unit = "keys"
    points = variants = Keys.points

    def measure(self, point: str) -> tuple[Measurement, tuple[str, ...]]:
        folder = self._kafka.folder / self._kafka.unique("rocksdb")
        return self._alone("rocksdb_counts", folder=folder, keys=point, events=self._events), ()


class Values(Curve):
    """A read and a write of a value of so many bytes."""

    name = "values"
    title = "size of a value in a store"
    unit = "bytes"
    points = variants = ("100", "1000", "10000", "100000", "900000")

    def measure(self, point: str) -> tuple[Measurement, tuple[str, ...]]:
        count = min(self._events, _VOLUME // int(point))
        events = self._kafka.load("events", Events(count, keys=max(count // 10, 10)))
        config = {
            **_KEYS,
            "task.class": f"{_TASKS}:ValuesTask",
            BYTES_KEY: point,
            "stores.values.factory": "rocksdb",
            "stores.values.key.serde": "string",
            "stores.values.msg.serde": "bytes",
        }
        return self._counted(events, config, "values"), (events,)


class Messages(Curve):
    """A message of so many bytes passed on as it is."""

    name = "messages"
    title = "size of a message"
    unit = "bytes"
    points = variants = ("100", "1000", "10000", "100000", "900000")

    def measure(self, point: str) -> tuple[Measurement, tuple[str, ...]]:
        size, pool = int(point), random.Random(7).randbytes(2_000_000)
        count = min(self._events, _VOLUME // size)
        events = self._kafka.unique("events")
        values = ((b"%d" % number, pool[(at := number * 97 % 1_000_000) : at + size]) for number in range(count))
        self._kafka.append(events, values)
        output = self._kafka.create("out")
        config = {"task.class": f"{_TASKS}:PassOnTask", "bench.output": f"kafka.{output}", **_BYTES}
        return self._job("pass-through", LOCAL, {"task.inputs": f"kafka.{events}", **config}), (events, output)


class PartitionsOfAContainer(Curve):
    """Counts of one container with so many partitions, each a task with a store."""

    name = "partitions"
    title = "partitions of a container"
    unit = "partitions"
    points = variants = ("1", "4", "16", "64", "256", "1000")

    def measure(self, point: str) -> tuple[Measurement, tuple[str, ...]]:
        events = self._kafka.load("events", Events(self._events), partitions=int(point))
        return self._counted(events, {}), (events,)


class Stores(Curve):
    """Counts of tasks with so many stores, which get the messages in turn."""

    name = "stores"
    title = "stores of a task"
    unit = "stores"
    points = variants = ("1", "5", "20", "50")

    def measure(self, point: str) -> tuple[Measurement, tuple[str, ...]]:
        events = self._kafka.load("events", Events(self._events))
        names = [f"counts-{number}" for number in range(int(point))]
        settings = {"factory": "rocksdb", "key.serde": "string", "msg.serde": "long"}
        config = {f"stores.{name}.{key}": value for name in names for key, value in settings.items()}
        config |= {f"stores.{name}.changelog": f"kafka.{self._kafka.unique(name)}" for name in names}
        more = {**_KEYS, STORES_KEY: point, "task.class": f"{_TASKS}:StoresTask"}
        return self._counted(events, {**config, **more}), (events,)


class Skew(Curve):
    """Counts of keys that are drawn evenly, by Zipf's law, and of a single key."""

    name = "skew"
    title = "skew of the keys"
    unit = "keys drawn"
    points = variants = ("evenly", "zipf 1.1", "one key")

    def measure(self, point: str) -> tuple[Measurement, tuple[str, ...]]:
        shapes = {
            "evenly": Events(self._events, exponent=0.0),
            "zipf 1.1": Events(self._events),
            "one key": Events(self._events, keys=1),
        }
        events = self._kafka.load("events", shapes[point])
        return self._counted(events, {}), (events,)


class Commits(Curve):
    """Counts with a commit in so many milliseconds."""

    name = "commits"
    title = "commit interval, at-least-once"
    unit = "ms"
    points = variants = ("50", "200", "1000", "10000", "60000")
    GUARANTEE = "at-least-once"

    def prepare(self) -> None:
        self._input = self._kafka.load("events", Events(self._events))

    def measure(self, point: str) -> tuple[Measurement, tuple[str, ...]]:
        keys = {"task.commit.ms": point, "task.guarantee": self.GUARANTEE, "task.transaction.timeout.ms": "120000"}
        return self._counted(self._input, keys), ()


class ExactlyOnceCommits(Commits):
    """The same, exactly-once."""

    name = "exactly-once-commits"
    title = "commit interval, exactly-once"
    GUARANTEE = "exactly-once"


class Containers(Curve):
    """Counts of 64 partitions by so many containers on this machine."""

    name = "containers"
    title = "containers of a job, 64 partitions"
    unit = "containers"
    points = variants = ("1", "4", "16", "64")

    def measure(self, point: str) -> tuple[Measurement, tuple[str, ...]]:
        events = self._kafka.load("events", Events(self._events), partitions=64)
        return self._counted(events, {"job.container.count": point}), (events,)


class Records(Curve):
    """A restore of so many changelog records, each key five times, in values of 100 bytes."""

    name = "restores"
    title = "records of a restore"
    unit = "records"
    points = variants = ("100000", "1000000", "5000000", "20000000")

    def measure(self, point: str) -> tuple[Measurement, tuple[str, ...]]:
        restore = RestoreLarge(self._kafka, int(point) // RestoreLarge.RECORDS_PER_KEY, self._program)
        restore.prepare()
        return restore.samzapy(LOCAL), ()


CURVES: dict[str, type[Curve]] = {
    curve.name: curve
    for curve in (
        Keys,
        ColdKeys,
        ColdKeysAlone,
        Values,
        Messages,
        PartitionsOfAContainer,
        Stores,
        Skew,
        Commits,
        ExactlyOnceCommits,
        Containers,
        Records,
    )
}
