"""The curves: each is a workload whose variants are the points of its axis."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from benchmarks.growth.tasks import BYTES_KEY, STORES_KEY
from benchmarks.kafka import NEVER_CLEANED
from benchmarks.peers.launchers import AT_LEAST_ONCE, EXACTLY_ONCE, KEYED_COUNT, PASS_THROUGH, MavenPeer, Settings
from benchmarks.peers.running import measure
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
_EVENT = b'{"id":%d,"user":"u%07d","page":"/p/1","amount":1.0}'
#: The bytes of all messages of a run with large messages or values.
_VOLUME = 400_000_000
#: Before the points of Kafka Streams.
PEER = "Kafka Streams "


def kafka_streams(main: str = "KafkaStreamsPeer", **options: str) -> MavenPeer:
    """Kafka Streams as in `benchmarks.peers`."""
    return MavenPeer("kstreams.xml", main, options)


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
    def measure(self, variant: str) -> tuple[Measurement, tuple[str, ...]]:
        """One run at a point, and the topics that it leaves behind."""

    @classmethod
    def variants_up_to(cls, largest: int) -> list[str]:
        """The variants whose points are no larger."""
        return [point for point in cls.points if not point.isdigit() or int(point) <= largest]

    @classmethod
    def comparisons(cls, variant: str) -> tuple[Comparison, ...]:
        return ()

    def _counted(self, topic: str, keys: Mapping[str, str], store: str = "counts") -> Measurement:
        changelog = {f"stores.{store}.changelog": f"kafka.{self._kafka.unique('counts')}"}
        return self._job(_COUNT, LOCAL, {"task.inputs": f"kafka.{topic}", **changelog, **keys})


class BesideKafkaStreams(Curve):
    """A curve along which Kafka Streams does the same work, up to a largest point: variants named PEER and a point."""

    largest_of_peer = 10**9

    @classmethod
    def variants_up_to(cls, largest: int) -> list[str]:
        """Each point, and each of Kafka Streams after samzapy's."""
        peers = super().variants_up_to(min(largest, cls.largest_of_peer))
        pairs = [(point, PEER + point) if point in peers else (point,) for point in super().variants_up_to(largest)]
        return [*chain.from_iterable(pairs)]

    def measure(self, variant: str) -> tuple[Measurement, tuple[str, ...]]:
        topic = self.load(variant)
        point = variant.removeprefix(PEER)
        measured, left = self.samzapy(point, topic) if point == variant else self._kafka_streams(point, topic)
        return measured, (topic, *left)

    @abstractmethod
    def load(self, variant: str) -> str:
        """A new input for a run of a variant."""

    @abstractmethod
    def samzapy(self, point: str, topic: str) -> tuple[Measurement, tuple[str, ...]]:
        """One run of samzapy at a point, and the topics beside the input that it leaves behind."""

    def _count(self, point: str) -> int:
        """The number of messages of so many bytes, or with values of so many."""
        return min(self._events, _VOLUME // int(point))

    def peer(self, point: str) -> tuple[MavenPeer, Mapping[str, Any]]:
        """Kafka Streams at a point, and the settings in which that run differs from a count by key."""
        return kafka_streams(), {}

    def _kafka_streams(self, point: str, topic: str) -> tuple[Measurement, tuple[str, ...]]:
        launcher, more = self.peer(point)
        settings = replace(Settings.on(self._kafka, topic, KEYED_COUNT, self._events, 2_000), **more)
        measured = measure(launcher, settings)
        # A run ends with its last message; messages that were skipped are not of it.
        counted = measured.messages - int(launcher.options.get("skip", "0"))
        return replace(measured, messages=counted), (settings.output,)


class Keys(BesideKafkaStreams):
    """Counts over a state of so many keys, which the task has restored. One event in ten has any of the keys, the
    others one of 1,000: nine in ten are in the cache. Kafka Streams counts each key once before it is measured."""

    name = "keys"
    title = "keys of a store, nine reads in ten from the cache"
    unit = "keys"
    points = ("10000", "100000", "1000000", "10000000")
    largest_of_peer = 1_000_000
    OFTEN = 0.9

    def load(self, variant: str) -> str:
        topic = self._kafka.unique("events")
        keys = int(variant.removeprefix(PEER))
        first = ((b"u%07d" % key, _EVENT % (key, key)) for key in range(keys if variant.startswith(PEER) else 0))
        self._kafka.append(topic, chain(first, self._events_over(keys)), partitions=1)
        return topic

    def samzapy(self, point: str, topic: str) -> tuple[Measurement, tuple[str, ...]]:
        changelog = self._kafka.create("counts", partitions=1, settings=NEVER_CLEANED)
        self._kafka.append_changes(changelog, 0, self._state(int(point)))
        config = {
            "job.id": self._kafka.unique("keys"),
            "task.inputs": f"kafka.{topic}",
            "stores.counts.changelog": f"kafka.{changelog}",
            "stores.counts.object.cache.size": "2000",
        }
        self._adopt(_COUNT, config)
        return self._job(_COUNT, LOCAL, config), (changelog,)

    def peer(self, point: str) -> tuple[MavenPeer, Mapping[str, Any]]:
        return kafka_streams(skip=point), {"events": int(point) + self._events}

    @staticmethod
    def _state(keys: int) -> Iterator[list[tuple[bytes, bytes]]]:
        for first in range(0, keys, BATCH):
            yield [(b"u%07d" % key, key.to_bytes(8, "big")) for key in range(first, min(keys, first + BATCH))]

    def _events_over(self, keys: int) -> Iterator[tuple[bytes, bytes]]:
        chance = random.Random(7)
        for number in range(self._events):
            key = chance.randrange(min(keys, 1_000) if chance.random() < self.OFTEN else keys)
            yield b"u%07d" % key, _EVENT % (number, key)


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
    points = Keys.points

    def measure(self, variant: str) -> tuple[Measurement, tuple[str, ...]]:
        folder = self._kafka.folder / self._kafka.unique("rocksdb")
        return self._alone("rocksdb_counts", folder=folder, keys=variant, events=self._events), ()


class Values(BesideKafkaStreams):
    """A read and a write of a value of so many bytes."""

    name = "values"
    title = "size of a value in a store"
    unit = "bytes"
    points = ("100", "1000", "10000", "100000", "900000")

    def load(self, variant: str) -> str:
        count = self._count(variant.removeprefix(PEER))
        return self._kafka.load("events", Events(count, keys=max(count // 10, 10)))

    def samzapy(self, point: str, topic: str) -> tuple[Measurement, tuple[str, ...]]:
        config = {
            **_KEYS,
            "task.class": f"{_TASKS}:ValuesTask",
            BYTES_KEY: point,
            "stores.values.factory": "rocksdb",
            "stores.values.key.serde": "string",
            "stores.values.msg.serde": "bytes",
        }
        return self._counted(topic, config, "values"), ()

    def peer(self, point: str) -> tuple[MavenPeer, Mapping[str, Any]]:
        return kafka_streams("KafkaStreamsCurves", stores="1", bytes=point), {"events": self._count(point)}


class Messages(BesideKafkaStreams):
    """A message of so many bytes passed on as it is."""

    name = "messages"
    title = "size of a message"
    unit = "bytes"
    points = ("100", "1000", "10000", "100000", "900000")

    def load(self, variant: str) -> str:
        point = variant.removeprefix(PEER)
        size, pool = int(point), random.Random(7).randbytes(2_000_000)
        topic = self._kafka.unique("events")
        pieces = (number * 97 % 1_000_000 for number in range(self._count(point)))
        self._kafka.append(topic, ((b"%d" % number, pool[at : at + size]) for number, at in enumerate(pieces)))
        return topic

    def samzapy(self, point: str, topic: str) -> tuple[Measurement, tuple[str, ...]]:
        output = self._kafka.create("out")
        config = {"task.class": f"{_TASKS}:PassOnTask", "bench.output": f"kafka.{output}", **_BYTES}
        return self._job(PASS_THROUGH, LOCAL, {"task.inputs": f"kafka.{topic}", **config}), (output,)

    def peer(self, point: str) -> tuple[MavenPeer, Mapping[str, Any]]:
        return kafka_streams("KafkaStreamsCurves"), {"workload": PASS_THROUGH, "events": self._count(point)}


class PartitionsOfAContainer(BesideKafkaStreams):
    """Counts of one container with so many partitions, each a task with a store."""

    name = "partitions"
    title = "partitions of a container"
    unit = "partitions"
    points = ("1", "4", "16", "64", "256", "1000")
    largest_of_peer = 256

    def load(self, variant: str) -> str:
        return self._kafka.load("events", Events(self._events), partitions=int(variant.removeprefix(PEER)))

    def samzapy(self, point: str, topic: str) -> tuple[Measurement, tuple[str, ...]]:
        return self._counted(topic, {}), ()


class Stores(BesideKafkaStreams):
    """Counts of tasks with so many stores, which get the messages in turn."""

    name = "stores"
    title = "stores of a task"
    unit = "stores"
    points = ("1", "5", "20", "50")

    def load(self, variant: str) -> str:
        return self._kafka.load("events", Events(self._events))

    def samzapy(self, point: str, topic: str) -> tuple[Measurement, tuple[str, ...]]:
        names = [f"counts-{number}" for number in range(int(point))]
        settings = {"factory": "rocksdb", "key.serde": "string", "msg.serde": "long"}
        config = {f"stores.{name}.{key}": value for name in names for key, value in settings.items()}
        config |= {f"stores.{name}.changelog": f"kafka.{self._kafka.unique(name)}" for name in names}
        more = {**_KEYS, STORES_KEY: point, "task.class": f"{_TASKS}:StoresTask"}
        return self._counted(topic, {**config, **more}), ()

    def peer(self, point: str) -> tuple[MavenPeer, Mapping[str, Any]]:
        return kafka_streams("KafkaStreamsCurves", stores=point, bytes="0"), {}


class Skew(BesideKafkaStreams):
    """Counts of keys that are drawn evenly, by Zipf's law, and of a single key."""

    name = "skew"
    title = "skew of the keys"
    unit = "keys drawn"
    points = ("evenly", "zipf 1.1", "one key")

    def load(self, variant: str) -> str:
        shapes = {
            "evenly": Events(self._events, exponent=0.0),
            "zipf 1.1": Events(self._events),
            "one key": Events(self._events, keys=1),
        }
        return self._kafka.load("events", shapes[variant.removeprefix(PEER)])

    def samzapy(self, point: str, topic: str) -> tuple[Measurement, tuple[str, ...]]:
        return self._counted(topic, {}), ()


class Commits(BesideKafkaStreams):
    """Counts with a commit in so many milliseconds."""

    name = "commits"
    title = "commit interval, at-least-once"
    unit = "ms"
    points = ("50", "200", "1000", "10000", "60000")
    GUARANTEE = AT_LEAST_ONCE

    def load(self, variant: str) -> str:
        return self._kafka.load("events", Events(self._events))

    def samzapy(self, point: str, topic: str) -> tuple[Measurement, tuple[str, ...]]:
        keys = {"task.commit.ms": point, "task.guarantee": self.GUARANTEE, "task.transaction.timeout.ms": "120000"}
        return self._counted(topic, keys), ()

    def peer(self, point: str) -> tuple[MavenPeer, Mapping[str, Any]]:
        return kafka_streams(), {"commit_ms": int(point), "guarantee": self.GUARANTEE}


class ExactlyOnceCommits(Commits):
    """The same, exactly-once."""

    name = "exactly-once-commits"
    title = "commit interval, exactly-once"
    GUARANTEE = EXACTLY_ONCE


class Containers(BesideKafkaStreams):
    """Counts of 64 partitions by so many containers on this machine; of Kafka Streams by so many threads."""

    name = "containers"
    title = "containers of a job, 64 partitions"
    unit = "containers"
    points = ("1", "4", "16", "64")

    def load(self, variant: str) -> str:
        return self._kafka.load("events", Events(self._events), partitions=64)

    def samzapy(self, point: str, topic: str) -> tuple[Measurement, tuple[str, ...]]:
        return self._counted(topic, {"job.container.count": point}), ()

    def peer(self, point: str) -> tuple[MavenPeer, Mapping[str, Any]]:
        return kafka_streams(threads=point), {}


class Records(Curve):
    """A restore of so many changelog records, each key five times, in values of 100 bytes."""

    name = "restores"
    title = "records of a restore"
    unit = "records"
    points = ("100000", "1000000", "5000000", "20000000")

    def measure(self, variant: str) -> tuple[Measurement, tuple[str, ...]]:
        restore = RestoreLarge(self._kafka, int(variant) // RestoreLarge.RECORDS_PER_KEY, self._program)
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
