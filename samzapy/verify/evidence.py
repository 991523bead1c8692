"""The evidence of a run: plain records from the logs and stores of a stopped job, read from outside the job."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

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
from samzapy.verify.processes import NoProgress, until
from samzapy.verify.target import changelog
from samzapy.verify.workload import STORES

_CLIENT = "samzapy-verify"
_POLL_RECORDS = 20_000
#: Seconds: the broker aborts a transaction that was left open sooner than this.
_LONGEST_SILENCE_S = 90.0


class Record(NamedTuple):
    """One record of a log; `id` is the header `samzapy-id`, None where there is none."""

    partition: int
    offset: int
    key: bytes
    value: bytes | None
    id: bytes | None = None


def records_of(batch: RecordBatch) -> Iterator[Record]:
    """The records of a batch."""
    all_headers = batch.headers or [None] * len(batch.offsets)
    for offset, key, value, headers in zip(batch.offsets, batch.keys, batch.values, all_headers, strict=True):
        own_id = next((content for name, content in headers or () if name == ID_HEADER), None)
        yield Record(batch.ssp.partition, offset, key or b"", value, own_id)


class LocalStore(NamedTuple):
    """The files of a store on this machine. `as_of`: the last changelog offset that its marker names, -1 without
    one."""

    entries: Mapping[bytes, bytes]
    as_of: int


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything about one finished run.

    `watched`: the outputs that a reader of committed records saw while the faults struck. `dumps`: the local store of
    each partition, per store; None where the stores are out of reach. `ends`: the input's ends by partition.
    """

    input_stream: str
    partitions: int
    inputs: Sequence[Record]
    outputs: Sequence[Record]
    watched: Sequence[Record]
    changelogs: Mapping[str, Sequence[Record]]
    dumps: Mapping[str, Sequence[LocalStore]] | None
    checkpoints: Sequence[Record]
    ends: Mapping[int, int]


def replay(changelog: Sequence[Record], partitions: int) -> list[dict[bytes, bytes]]:
    """The contents that each partition of a changelog replays to."""
    contents: list[dict[bytes, bytes]] = [{} for _ in range(partitions)]
    for record in changelog:
        if record.value is None:
            contents[record.partition].pop(record.key, None)
        else:
            contents[record.partition][record.key] = record.value
    return contents


def committed(checkpoints: Sequence[Record], input_stream: str) -> dict[int, int]:
    """The next input offset of each partition, as the newest checkpoint of each task has it."""
    newest = {record.key: record.value for record in checkpoints}
    offsets = {}
    for key, value in newest.items():
        if value is not None and json.loads(key).get("type") == "samzapy-checkpoint":
            for ssp, offset in json.loads(value)["inputs"].items():
                stream, _, partition = ssp.partition(".")[2].rpartition("[")
                if stream == input_stream:
                    offsets[int(partition.rstrip("]"))] = offset
    return offsets


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
        ranges = self._admin.offsets(self.partitions(stream))
        return {ssp.partition: offsets.upcoming for ssp, offsets in ranges.items()}

    def read(self, stream: str) -> list[Record]:
        """Every committed record up to the current ends, in the order of each partition. Raises NoProgress."""
        ranges = self._admin.offsets(self.partitions(stream))
        records: list[Record] = []
        with closing(self.consumer({ssp: offsets.oldest for ssp, offsets in ranges.items()})) as consumer:
            moved, before = self._clock.monotonic(), -1
            while any(consumer.position(ssp) < offsets.upcoming for ssp, offsets in ranges.items()):
                for batch in consumer.poll(0.5, _POLL_RECORDS):
                    records += records_of(batch)
                position = sum(map(consumer.position, ranges))
                if position > before:
                    moved, before = self._clock.monotonic(), position
                elif self._clock.monotonic() - moved > _LONGEST_SILENCE_S:
                    raise NoProgress(f"{stream}: cannot be read to its end within {_LONGEST_SILENCE_S:g} s")
        return records

    def close(self) -> None:
        """Release the client."""
        self._admin.close()

    def _patiently(self, call: Callable[[], object]) -> None:
        """Call again while the broker is too busy to answer, which must not end a soak of hours. Raises NoProgress."""
        answer = [""]

        def done() -> bool:
            try:
                call()
            except RetriableError as busy:
                answer[0] = str(busy)
                return False
            return True

        until(done, lambda: answer[0], _LONGEST_SILENCE_S, self._clock)


def streams_of(name: str, job: Mapping[str, str]) -> list[str]:
    """Every stream of the verification with this name and job file."""
    named = [*job["task.inputs"].split(","), *(value for key, value in job.items() if key.endswith(".changelog"))]
    return [f"{name}-out", checkpoint_topic(name, "1"), *(stream.partition(".")[2] for stream in named)]


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
    dumps = []
    for number in range(partitions):
        directory = store_directory(state, f"{name}-1", store, f"Partition {number}")
        with closing(RocksDbStorageEngineFactory().open(directory, EngineSettings(store))) as engine:
            marker = engine.marker()
            with engine.iterate(None, None) as pairs:
                as_of = -1 if marker is None else Marker.from_bytes(marker).changelog_offset
                dumps.append(LocalStore(dict(pairs), as_of))
    return dumps
