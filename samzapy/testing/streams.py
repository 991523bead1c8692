"""Writes and reads the streams of a tested job from outside the job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from samzapy.api.engine import EngineSettings
from samzapy.api.envelope import Headers, IncomingMessageEnvelope
from samzapy.api.serde import Serde, hinted
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import OutgoingRecord, RecordBatch, StreamSpec
from samzapy.clock import Clock
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.container.inputs.decode import Decoder
from samzapy.container.tasks.task_class import load_task_class
from samzapy.errors import ConfigError, ConfigProblem, SerdeError
from samzapy.serializers import StreamSerdes, TypedSerde, serde_registry, task_serdes
from samzapy.storage.engines import entry_serdes, load_engines
from samzapy.system.local.factory import LogAdmin
from samzapy.system.memory import MemoryCluster, MemorySystemFactory
from samzapy.system.partitioner import partition_of


class Outputs(list[IncomingMessageEnvelope]):
    """Envelopes, one partition after the other and in order within each: with key, message, position, time, headers."""

    @property
    def messages(self) -> list[Any]:
        """The messages alone."""
        return [envelope.message for envelope in self]

    @property
    def keys(self) -> list[Any]:
        """The keys alone."""
        return [envelope.key for envelope in self]

    @property
    def pairs(self) -> list[tuple[Any, Any]]:
        """(key, message) of each."""
        return [(envelope.key, envelope.message) for envelope in self]


#: The number of partitions of each input, or by name of the input; others then have as many as the largest of these.
Partitions = int | Mapping[str, int]


class Streams:
    """The streams of one tested job, on separate clusters; tests send and read objects, by the job's serdes."""

    def __init__(self, job: JobConfig, clock: Clock) -> None:
        """`clock` dates the records of all clients. Raises ConfigError for a task class, or a class of messages, that
        cannot be used."""
        self._job = job
        self._serdes = task_serdes(job)
        # Made once a stream: to inspect a class of messages takes a third of a millisecond.
        self._stream_serdes = cache(StreamSerdes(job, self._serdes, load_task_class(job.task.task_class)))
        self._plain = serde_registry(job)
        self._clusters = {
            name: MemoryCluster.named(settings.properties["cluster"]) for name, settings in job.systems.items()
        }
        for cluster in self._clusters.values():
            cluster.clock = clock

    def create_inputs(self, partitions: Partitions) -> None:
        """Create the streams that the job reads: inputs, broadcast inputs, streams that fill stores, and its stream of
        dead letters."""
        counts = {self.input(name): count for name, count in _by_name(partitions).items()}
        widest = partitions if isinstance(partitions, int) else max(partitions.values(), default=1)
        requested = {stream: counts.get(stream, widest) for stream in sorted(self.inputs)}
        for ssp in self._job.task.broadcast_inputs:
            requested[ssp.system_stream] = max(requested[ssp.system_stream], ssp.partition + 1)
        letters = self._job.task.errors.dead_letters
        if letters is not None:
            requested.setdefault(letters, 1)
        for stream, count in requested.items():
            if stream.system in self._clusters:
                self._admin(stream.system).create(StreamSpec(stream.stream, count))

    @property
    def inputs(self) -> frozenset[SystemStream]:
        """Every stream that the job reads."""
        task, stores = self._job.task, self._job.stores.values()
        filling = (store.source.all_streams for store in stores if store.source)
        return frozenset(task.inputs).union({ssp.system_stream for ssp in task.broadcast_inputs}, *filling)

    def input(self, name: str) -> SystemStream:
        """The input called `name`: `in`, `system.in`, or its id. Raises ConfigError if the job reads no such stream."""
        stream = self.stream(name)
        if stream not in self.inputs:
            known = ", ".join(map(str, sorted(self.inputs)))
            raise ConfigError(
                [ConfigProblem("task.inputs", name, f"the job does not read this stream; it reads {known}")]
            )
        return stream

    def stream(self, name: str) -> SystemStream:
        """The stream called `name`, whether it exists or not. Raises ConfigError if it may be on several systems."""
        if name in self._job.stream_ids:
            return self._job.stream_ids[name]
        system, dot, rest = name.partition(".")
        if dot and system in self._clusters:
            return SystemStream(system, rest)
        there = [SystemStream(known, name) for known in self._clusters if self._admin(known).describe(name)]
        default = self._job.default_system or (next(iter(self._clusters)) if len(self._clusters) == 1 else None)
        if len(there) != 1 and default is not None:
            return SystemStream(default, name)
        if len(there) != 1:
            known = ", ".join(sorted(self._clusters))
            raise ConfigError([ConfigProblem("stream", name, f"name it as system.stream; the systems are {known}")])
        return there[0]

    def send(
        self,
        stream: SystemStream,
        message: Any,
        key: Any = None,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Headers | None = None,
    ) -> None:
        """Append a message: an object of the stream's class, or plain values as another writer may send them. Without
        `partition` the key's hash chooses it, or 0 without a key.

        Raises SerdeError for values that the stream's serdes do not take, UnknownPartition.
        """
        keys, messages = self._stream_serdes(stream)
        config = self._job.stream(stream)
        key_bytes = _encode(self._of_writer(keys, config.key_serde, key), key, stream, "key")
        value = _encode(self._of_writer(messages, config.msg_serde, message), message, stream, "message")
        if partition is None:
            partition = 0 if key_bytes is None else partition_of(key_bytes, self.partitions(stream))
        settings = self._job.systems[stream.system]
        producer = MemorySystemFactory().producer(settings, "test")
        producer.send([OutgoingRecord(stream.stream, key_bytes, value, partition, None, headers, timestamp)])
        producer.flush()
        producer.close()

    def read(self, name: str, partition: int | None = None, *, committed: bool) -> Outputs:
        """The records of a stream, or of one partition; with open transactions unless `committed`. Empty for a missing
        stream."""
        stream = self.stream(name)
        if not self.partitions(stream):
            return Outputs()
        return self._decoded(stream, partition, self._stream_serdes(stream), committed=committed)

    def changelog(self, store: str, partition: int | None = None) -> Outputs:
        """The committed records of a store's changelog, none if it has none; a deletion's message is None."""
        config = self.store(store)
        if config.changelog is None:
            return Outputs()
        return self._decoded(config.changelog, partition, self.store_serdes(config), committed=True)

    def store(self, name: str) -> StoreConfig:
        """The store's configuration. Raises ConfigError if the job has no such store."""
        found = self._job.stores.get(name)
        if found is None:
            known = ", ".join(sorted(self._job.stores)) or "none"
            raise ConfigError([ConfigProblem(f"stores.{name}.factory", None, f"no such store; the job has: {known}")])
        return found

    def store_serdes(self, store: StoreConfig) -> tuple[Serde, Serde]:
        """The serdes of a store's keys and values."""
        engine = load_engines(self._job)[store.name]
        return entry_serdes(store, engine, EngineSettings(store.name, store.properties), self._serdes)

    def partitions(self, stream: SystemStream) -> int:
        """The number of partitions, 0 for a stream that does not exist."""
        description = self._admin(stream.system).describe(stream.stream)
        return 0 if description is None else description.partitions

    def _admin(self, system: str) -> LogAdmin:
        return self._clusters[system].admin(system)

    def forget(self) -> None:
        """Take the clusters out of the process's register; this object keeps them."""
        for settings in self._job.systems.values():
            MemoryCluster.forget(settings.properties["cluster"])

    def _of_writer(self, serde: Serde | None, name: str | None, value: Any) -> Serde | None:
        """The serde for a value that a test sends: for an object of another class the serde of plain values."""
        if name is None or not isinstance(serde, TypedSerde) or serde.classes is None or type(value) in serde.classes:
            return serde
        return self._plain[name]

    def _decoded(
        self,
        stream: SystemStream,
        partition: int | None,
        serdes: tuple[Serde | None, Serde | None],
        *,
        committed: bool,
    ) -> Outputs:
        numbers = range(self.partitions(stream)) if partition is None else (partition,)
        decoder, found = Decoder(*serdes), Outputs()
        for number in numbers:
            for batch in self._batches(SystemStreamPartition(*stream, number), committed=committed):
                found += _dated(decoder.decode(batch, -1))
        return found

    def _batches(self, ssp: SystemStreamPartition, *, committed: bool) -> Iterator[RecordBatch]:
        return self._clusters[ssp.system].batches(ssp, committed=committed)


def _by_name(partitions: Partitions) -> Mapping[str, int]:
    return {} if isinstance(partitions, int) else partitions


def _dated(envelopes: list[IncomingMessageEnvelope]) -> list[IncomingMessageEnvelope]:
    """Envelopes without waiting time: they arrived when they were made."""
    return [envelope._replace(arrival_time=envelope.event_time) for envelope in envelopes]


def _encode(serde: Serde | None, value: Any, stream: SystemStream, part: str) -> bytes | None:
    if value is None or (serde is None and isinstance(value, bytes)):
        return value
    if serde is None:
        raise SerdeError(f"{stream}: {part}: no serde is configured, so it must be bytes, got {type(value).__name__}")
    try:
        return (hinted(serde).wider() or serde).to_bytes(value)
    except Exception as cause:
        raise SerdeError(f"{stream}: {part}: {cause} (got {value!r})") from cause
