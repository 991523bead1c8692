"""Numbered messages into a stream and what became of them: the oracle of the recovery tests."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from jobs.last_and_count import DELETES_EVERY

from samzapy.api.engine import EngineSettings
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, RecordBatch, SystemSettings
from samzapy.config.loader import load_job
from samzapy.errors import RetriableError
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory
from samzapy.system.clients import system_factory
from samzapy.verify.processes import until

KEYS = 5_000
#: The stores of the job `last_and_count`.
STORES = ("last", "counts")
BATCH = 50
PAUSE_S = 0.01
PATIENCE_S = 60.0


def kafka_at(bootstrap: str, **producer: object) -> SystemSettings:
    """Settings of a system named `kafka`; `producer` are librdkafka's keys, `_` standing for a dot."""
    given = {key.replace("_", "."): str(value) for key, value in producer.items()}
    return SystemSettings("kafka", "kafka", consumer={"bootstrap.servers": bootstrap}, producer=given)


def logged_stores(changelogs: str, **more: str) -> dict[str, str]:
    """The keys of both stores, with changelogs `<changelogs>-<store>-changelog`, and `more` of each."""
    serdes = {"factory": "rocksdb", "key.serde": "string", "msg.serde": "json", **more}
    keys = {f"stores.{store}.{key}": value for store in STORES for key, value in serdes.items()}
    return {**keys, **{f"stores.{store}.changelog": f"{changelogs}-{store}-changelog" for store in STORES}}


def kafka_job(name: str, bootstrap: str, **keys: str) -> dict[str, str]:
    """The job `last_and_count` on Kafka, from `<name>-in` to `<name>-out`; `keys` are added, or replace others."""
    return {
        "job.name": name,
        "job.default.system": "kafka",
        "task.class": "last_and_count:LastAndCount",
        "task.inputs": f"kafka.{name}-in",
        "task.commit.ms": "200",
        "systems.kafka.samza.factory": "kafka",
        "systems.kafka.consumer.bootstrap.servers": bootstrap,
        "systems.kafka.default.stream.replication.factor": "1",
        "systems.kafka.default.stream.samza.offset.default": "oldest",
        "systems.kafka.default.stream.samza.key.serde": "string",
        "systems.kafka.default.stream.samza.msg.serde": "json",
        "test.output": f"kafka.{name}-out",
        **logged_stores(f"kafka.{name}"),
        **keys,
    }


class Streams:
    """One system's streams, read and written whole."""

    def __init__(self, settings: SystemSettings) -> None:
        self._settings = settings
        self._factory = system_factory(settings)
        self.admin = self._factory.admin(settings, "test-admin")

    def producer(self) -> Any:
        return self._factory.producer(self._settings, "test-producer")

    def partitions(self, stream: str) -> list[SystemStreamPartition]:
        description = self._asked(lambda: self.admin.describe(stream))
        assert description is not None
        return [SystemStreamPartition(self._settings.name, stream, n) for n in range(description.partitions)]

    def ends(self, stream: str) -> dict[str, int]:
        """The next offset of each partition, by partition as text."""
        return {str(ssp): found.upcoming for ssp, found in self._offsets(stream).items()}

    def _offsets(self, stream: str) -> Any:
        partitions = self.partitions(stream)
        return self._asked(lambda: self.admin.offsets(partitions))

    def _asked(self, question: Callable[[], Any]) -> Any:
        """The answer of a broker that may be too busy to answer at once: the oracle does not fail with it."""
        answers: list[Any] = []

        def answered() -> bool:
            with suppress(RetriableError):
                answers.append(question())
            return bool(answers)

        until(answered, "the broker does not answer", PATIENCE_S)
        return answers[0]

    def read(self, stream: str) -> Iterator[RecordBatch]:
        """Everything that is in the stream now."""
        ranges = self._offsets(stream)
        consumer = self._factory.consumer(self._settings, "test-consumer")
        try:
            consumer.start({ssp: found.oldest for ssp, found in ranges.items()})
            while any(consumer.position(ssp) < found.upcoming for ssp, found in ranges.items()):
                yield from consumer.poll(1.0, 50_000)
        finally:
            consumer.close()

    def replay(self, changelog: str) -> list[dict[bytes, bytes]]:
        """What each partition of a changelog amounts to."""
        found: list[dict[bytes, bytes]] = [{} for _ in self.partitions(changelog)]
        for batch in self.read(changelog):
            for key, value in zip(batch.keys, batch.values, strict=True):
                assert key is not None
                if value is None:
                    found[batch.ssp.partition].pop(key, None)
                else:
                    found[batch.ssp.partition][key] = value
        return found


class Feeder:
    """Writes consecutive numbers under `KEYS` keys until it is closed, a small batch at a time, in a thread."""

    def __init__(self, streams: Streams, stream: str) -> None:
        self._producer = streams.producer()
        self._stream = stream
        self.written = 0
        self._failure: Exception | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> int:
        """Stop; returns how many numbers were written."""
        self._closed.set()
        self._thread.join()
        self._producer.close()
        assert self._failure is None, self._failure
        return self.written

    def _run(self) -> None:
        try:
            while not self._closed.wait(PAUSE_S):
                numbers = range(self.written, self.written + BATCH)
                self._producer.send([OutgoingRecord(self._stream, key_of(n).encode(), b"%d" % n) for n in numbers])
                self._producer.flush()
                self.written = numbers.stop
        except Exception as failure:  # noqa: BLE001  # raised where the feeder is closed
            self._failure = failure


def key_of(number: int) -> str:
    """Numbers wander over the keys so that every partition always has something to do."""
    return f"key-{number * 7919 % KEYS}"


def expected(written: int) -> tuple[dict[str, int], Counter[str]]:
    """The last numbers and the counts of a run without any failure."""
    last: dict[str, int] = {}
    for number in range(written):
        if number % DELETES_EVERY:
            last[key_of(number)] = number
        else:
            last.pop(key_of(number), None)
    return last, Counter(map(key_of, range(written)))


def is_on_disk(folder: Path) -> bool:
    """Whether a kill would leave a commit in the local store; whoever has it open goes on. A table's file alone says
    little: until the store's manifest names it, it is not there."""
    engine = RocksDbStorageEngineFactory().open(folder, EngineSettings(folder.parent.name), read_only=True)
    try:
        return engine.marker() is not None
    finally:
        engine.close()


def dump(folder: Path, store: str) -> dict[bytes, bytes]:
    """What a local store holds; nobody else may have it open."""
    engine = RocksDbStorageEngineFactory().open(folder, EngineSettings(store))
    try:
        with engine.iterate(None, None) as pairs:
            return dict(pairs)
    finally:
        engine.close()


def settings_of(job: dict[str, str], system: str) -> SystemSettings:
    """The settings of one system of a job."""
    return load_job(job).systems[system]
