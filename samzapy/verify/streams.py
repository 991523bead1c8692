"""Creates, reads and deletes the streams of one system, and gathers the evidence of a job that has stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from samzapy.api.engine import EngineSettings
from samzapy.api.envelope import ID_HEADER
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import RecordBatch, SystemConsumer, SystemProducer, SystemSettings
from samzapy.checkpoint import checkpoint_topic
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.streams.systems import new_stream
from samzapy.errors import RetriableError, UnknownStream
from samzapy.storage.local.directory import store_directory
from samzapy.storage.local.marker import Marker
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory
from samzapy.system.clients import system_factory
from samzapy.verify.evidence import Evidence, LocalStore, Record
from samzapy.verify.processes import NoProgress, until
from samzapy.verify.target import changelog
from samzapy.verify.workload import STORES

_CLIENT = "samzapy-verify"
_POLL_RECORDS = 20_000
#: Seconds: the broker aborts a transaction that was left open sooner than this.
_LONGEST_SILENCE_S = 90.0


class Streams:
    """The streams of a system, from outside the job."""

    def __init__(self, settings: SystemSettings, clock: Clock = SYSTEM_CLOCK) -> None:
        self._settings = settings
        self._factory = system_factory(settings)
        self._admin = self._factory.admin(settings, _CLIENT)
        self._clock = clock

    def create(self, stream: str, partitions: int) -> None:
        """Create a stream, unless it exists."""
        spec = new_stream(self._settings, stream, partitions)
        self._patiently(lambda: self._admin.create(spec))

    def delete(self, streams: Iterable[str]) -> None:
        """Delete the existing ones of the streams."""
        for stream in streams:
            with suppress(UnknownStream):
                self._patiently(partial(self._admin.delete, stream))

    def producer(self) -> SystemProducer:
        """A producer without transactions."""
        return self._factory.producer(self._settings, _CLIENT)

    def consumer(self, offsets: dict[SystemStreamPartition, int]) -> SystemConsumer:
        """A started reader of committed records, from these offsets on."""
        consumer = self._factory.consumer(self._settings, _CLIENT)
        consumer.start(offsets)
        return consumer

    def partitions(self, stream: str) -> list[SystemStreamPartition]:
        """The stream's partitions. Raises UnknownStream."""
        description = self._admin.describe(stream)
        if description is None:
            raise UnknownStream(self._settings.name, stream)
        return [SystemStreamPartition(self._settings.name, stream, n) for n in range(description.partitions)]

    def ends(self, stream: str) -> dict[int, int]:
        """The next offset of each partition."""
        return {ssp.partition: found.upcoming for ssp, found in self._admin.offsets(self.partitions(stream)).items()}

    def read(self, stream: str) -> list[Record]:
        """Every committed record up to the present ends, in the order of each partition. Raises NoProgress."""
        ranges = self._admin.offsets(self.partitions(stream))
        consumer = self.consumer({ssp: found.oldest for ssp, found in ranges.items()})
        records: list[Record] = []
        try:
            moved, before = self._clock.monotonic(), -1
            while any(consumer.position(ssp) < found.upcoming for ssp, found in ranges.items()):
                for batch in consumer.poll(0.5, _POLL_RECORDS):
                    records += records_of(batch)
                position = sum(consumer.position(ssp) for ssp in ranges)
                if position > before:
                    moved, before = self._clock.monotonic(), position
                elif self._clock.monotonic() - moved > _LONGEST_SILENCE_S:
                    raise NoProgress(f"{stream}: cannot be read to its end within {_LONGEST_SILENCE_S:g} s")
        finally:
            consumer.close()
        return records

    def close(self) -> None:
        """Release the client."""
        self._admin.close()

    def _patiently(self, call: Callable[[], object]) -> None:
        """Call again while the broker is too busy to answer, which must not end a soak of hours. Raises NoProgress."""
        said = [""]

        def done() -> bool:
            try:
                call()
            except RetriableError as busy:
                said[0] = str(busy)
                return False
            return True

        until(done, lambda: said[0], _LONGEST_SILENCE_S, self._clock)


def records_of(batch: RecordBatch) -> Iterator[Record]:
    """The records of a batch."""
    headers = batch.headers or [None] * len(batch.offsets)
    for offset, key, value, given in zip(batch.offsets, batch.keys, batch.values, headers, strict=True):
        found = next((content for name, content in given or () if name == ID_HEADER), None)
        yield Record(batch.ssp.partition, offset, key or b"", value, found)


def streams_of(name: str) -> list[str]:
    """Every stream of a verification with this name."""
    return [f"{name}-in", f"{name}-out", checkpoint_topic(name, "1"), *(changelog(name, store) for store in STORES)]


def collect(streams: Streams, name: str, watched: list[Record], state: Path | None) -> Evidence:
    """Read everything. `state`: where the last run's stores lie; None if they are out of reach. Raises NoProgress."""
    partitions = len(streams.partitions(f"{name}-in"))
    return Evidence(
        input_stream=f"{name}-in",
        partitions=partitions,
        inputs=streams.read(f"{name}-in"),
        outputs=streams.read(f"{name}-out"),
        watched=watched,
        changelogs={store: by_task(streams.read(changelog(name, store)), partitions) for store in STORES},
        dumps=None if state is None else {store: _dumps(state, name, store, partitions) for store in STORES},
        checkpoints=streams.read(checkpoint_topic(name, "1")),
        ends=streams.ends(f"{name}-in"),
    )


def by_task(log: Iterable[Record], partitions: int) -> list[Record]:
    """The records of a changelog, each with the input partition of its writer's task: the first run gives the
    changelog's partitions to the tasks in the order of their names, in which `Partition 10` comes before `Partition
    2`."""
    tasks = sorted(range(partitions), key=lambda number: f"Partition {number}")
    return [record._replace(partition=tasks[record.partition]) for record in log]


def _dumps(state: Path, name: str, store: str, partitions: int) -> list[LocalStore]:
    found = []
    for number in range(partitions):
        directory = store_directory(state, f"{name}-1", store, f"Partition {number}")
        engine = RocksDbStorageEngineFactory().open(directory, EngineSettings(store))
        try:
            marker = engine.marker()
            with engine.iterate(None, None) as pairs:
                found.append(
                    LocalStore(dict(pairs), -1 if marker is None else Marker.from_bytes(marker).changelog_offset)
                )
        finally:
            engine.close()
    return found
