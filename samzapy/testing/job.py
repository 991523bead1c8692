"""A job under test: its streams in this process, its files in one folder, its task class by a name, no port, no export
of metrics. The test writes and reads its streams from outside the job."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from samzapy.admin.job_check import resolved
from samzapy.api.envelope import Headers, IncomingMessageEnvelope
from samzapy.api.serde import Serde
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.api.task import AnyTask
from samzapy.clock import Clock
from samzapy.config.job import JobConfig
from samzapy.config.loader import load_job, with_inputs
from samzapy.config.patterns import InputPattern
from samzapy.config.reading import properties as job_files
from samzapy.config.reading.keys import is_name, split_list
from samzapy.config.stores import StoreConfig
from samzapy.container.inputs.decode import Decoder
from samzapy.container.tasks.task_builder import load_task_class
from samzapy.errors import ConfigError, ConfigProblem, SerdeError, raise_if_any
from samzapy.plugins import path_of
from samzapy.serializers import StreamSerdes, TypedSerde, serde_registry, task_serdes
from samzapy.storage.inspection import store_of
from samzapy.storage.spec import store_specs
from samzapy.system.base import partition_of
from samzapy.system.local.factory import LogAdmin, MemoryCluster, MemorySystemFactory
from samzapy.testing.attempt import FACTORY

_MAX_AHEAD = "task.event.time.max.ahead.ms"
#: A job file (by path), or its flat pairs.
JobSource = Mapping[str, str] | Path | str
#: The number of partitions of each input, or by name of the input; others then have as many as the largest of these.
Partitions = int | Mapping[str, int]


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


class Streams:
    """The streams of one tested job, on separate clusters; tests send and read objects, by the job's serdes."""

    def __init__(self, job: JobConfig, clock: Clock) -> None:
        """`clock` dates the records of all clients. Raises ConfigError for a task class, or a class of messages, that
        cannot be used."""
        self._job = job
        #: Every stream that the job reads.
        self.inputs = job.task.all_inputs | job.sources
        self._serdes = task_serdes(job)
        # Made once a stream: to inspect a class of messages takes a third of a millisecond.
        self._config_of = cache(job.stream)
        self._task = load_task_class(job.task.task_class)
        self._stream_serdes = cache(StreamSerdes(job, self._serdes, self._task))
        self._plain = serde_registry(job)
        self._clusters = {
            name: MemoryCluster.named(settings.properties["cluster"]) for name, settings in job.systems.items()
        }
        for cluster in self._clusters.values():
            cluster.clock = clock

    def create_inputs(self, partitions: Partitions) -> None:
        """Create the streams that the job reads: inputs, broadcast inputs, streams that fill stores, and its stream of
        dead letters."""
        by_name = {} if isinstance(partitions, int) else partitions
        widest = partitions if isinstance(partitions, int) else max(partitions.values(), default=1)
        counts = {self.input(name): count for name, count in by_name.items()}
        requested = {stream: counts.get(stream, widest) for stream in sorted(self.inputs)}
        for ssp in self._job.task.broadcast_inputs:
            requested[ssp.system_stream] = max(requested[ssp.system_stream], ssp.partition + 1)
        letters = self._job.task.errors.dead_letters
        if letters is not None:
            requested.setdefault(letters, 1)
        for stream, count in requested.items():
            if stream.system in self._clusters:
                self._admin(stream.system).create(StreamSpec(stream.stream, count))

    def input(self, name: str) -> SystemStream:
        """The input called `name`: `in`, `system.in`, or its id. Raises ConfigError if the job reads no such stream."""
        stream = self.stream(name)
        if stream not in self.inputs:
            known = ", ".join(map(str, sorted(self.inputs)))
            raise ConfigError.of("task.inputs", name, f"the job does not read this stream; it reads {known}")
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
            raise ConfigError.of("stream", name, f"name it as system.stream; the systems are {known}")
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
        config = self._config_of(stream)
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
        stream. Raises ConfigError for one that a pipeline does not name."""
        stream = self.stream(name)
        if not self.partitions(stream):
            from samzapy.pipeline.task import PipelineTask  # noqa: PLC0415  # tests of tasks import no pipelines

            if issubclass(self._task, PipelineTask) and stream not in self._job.streams:
                known = ", ".join(map(str, sorted(self._job.streams)))
                raise ConfigError.of(
                    "stream", name, f"no step of the pipeline has this stream; its streams are {known}"
                )
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
        return store_of(self._job.stores, name)

    def store_serdes(self, store: StoreConfig) -> tuple[Serde, Serde]:
        """The serdes of a store's keys and values."""
        return store_specs(self._job)[store.name].serdes(self._serdes)

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
        self, stream: SystemStream, partition: int | None, serdes: tuple[Serde | None, Serde | None], *, committed: bool
    ) -> Outputs:
        numbers = range(self.partitions(stream)) if partition is None else (partition,)
        decoder, result = Decoder(*serdes), Outputs()
        for number in numbers:
            ssp = SystemStreamPartition(*stream, number)
            for batch in self._clusters[ssp.system].batches(ssp, committed=committed):
                # Without waiting time: they arrived when they were made.
                result += [item._replace(arrival_time=item.event_time) for item in decoder.decode(batch, -1)]
        return result


def _encode(serde: Serde | None, value: Any, stream: SystemStream, part: str) -> bytes | None:
    if value is None or (serde is None and isinstance(value, bytes)):
        return value
    if serde is None:
        raise SerdeError(f"{stream}: {part}: no serde is configured, so it must be bytes, got {type(value).__name__}")
    try:
        return serde.to_bytes(value)
    except Exception as cause:
        raise SerdeError(f"{stream}: {part}: {cause} (got {value!r})") from cause


def tested_job(
    task: type[AnyTask] | None, config: JobSource, overrides: Mapping[str, str] | None, folder: Path
) -> JobConfig:
    """The job of `config` with `overrides` on top, for this test alone.

    `task` replaces `task.class`; None keeps the file's. Pairs need neither `job.name` (default: test) nor keys of a
    system that `task.inputs` or `job.default.system` names. Every system is in memory and new; stores and file
    checkpoints are below `folder`; no store has backups. Nothing listens on a port or exports metrics, and a stall is
    only reported. Raises ConfigError with every problem but those of the real systems: `samzapy check` finds them.
    """
    on_top = dict(job_files.read(overrides or {}).values)
    if task is not None:
        if not isinstance(task, type):
            raise ConfigError.of("task", repr(task), "expected a class, not an object")
        on_top["task.class"] = path_of(task)
    given = {**job_files.read(config).values, **on_top}
    systems = {key.split(".")[1] for key in given if key.startswith("systems.") and key.count(".") > 1}
    if isinstance(config, Mapping):
        config = {"job.name": "test", **config}
        systems |= set(_mentioned(given))
    cluster = uuid4()
    # The test's clock has nothing to do with the times of its messages.
    on_top.setdefault(_MAX_AHEAD, given.get(_MAX_AHEAD, "0"))
    for system in sorted(filter(is_name, systems)):
        on_top[f"systems.{system}.samza.factory"] = FACTORY
        on_top[f"systems.{system}.cluster"] = f"{cluster}-{system}"
    return _below(folder, load_job(config, on_top))


def _mentioned(given: Mapping[str, str]) -> Iterator[str]:
    yield given.get("job.default.system", "")
    for name in split_list(given.get("task.inputs", "")):
        yield name.partition(".")[0] if "." in name else ""


def _below(folder: Path, job: JobConfig) -> JobConfig:
    """The job with its files below `folder`, and without anything that reaches beyond the test."""
    checkpoint = job.task.checkpoint
    if checkpoint is not None and checkpoint.path is not None:
        checkpoint = replace(checkpoint, path=folder / "checkpoints")
    watched = job.supervision
    return replace(
        job,
        task=replace(job.task, checkpoint=checkpoint),
        metrics_reporters=tuple(item for item in job.metrics_reporters if item.kind != "otel"),
        prometheus_port=0,
        page_port=None,
        # `stall_fails` would end the process, which is pytest's.
        supervision=replace(watched, stall_fails=False, query=replace(watched.query, enabled=False)),
        stores={name: replace(store, backup=None) for name, store in job.stores.items()},
        logged_store_base_dir=state_folder(folder),
        non_logged_store_base_dir=state_folder(folder),
    )


def _with_named(job: JobConfig, partitions: Partitions) -> JobConfig:
    """The job with the streams that `partitions` names in place of its patterns. Raises ConfigError for a pattern that
    matches none of them."""
    if not job.task.patterns:
        return job
    names = [] if isinstance(partitions, int) else list(partitions)
    result: dict[InputPattern, list[SystemStream]] = {}
    for pattern in job.task.patterns:
        system = pattern.stream.system
        streams = [SystemStream(system, name.removeprefix(f"{system}.")) for name in names]
        result[pattern] = [stream for stream in streams if pattern.matches(stream)]
    problems = [
        ConfigProblem("task.inputs", str(pattern), "name the streams of the test, as in partitions={'orders-eu': 2}")
        for pattern, streams in result.items()
        if not streams
    ]
    raise_if_any(problems)
    return with_inputs(job, result)


def state_folder(folder: Path) -> Path:
    """The folder with the stores of a tested job."""
    return folder / "state"


class Workbench:
    """One job with everything that it needs for one test. `close` removes all of it."""

    def __init__(
        self,
        task: type[AnyTask] | None,
        config: JobSource,
        overrides: Mapping[str, str] | None,
        partitions: Partitions,
        clock: Clock,
    ) -> None:
        """Like `tested_job`; creates the streams that the job reads, with `partitions`. Raises ConfigError with
        every problem."""
        self._task = task  # keeps a class alive that only the kit has a name for
        self._folder = Path(tempfile.mkdtemp(prefix="samzapy-test-"))
        try:
            self.job = _with_named(tested_job(task, config, overrides, self._folder), partitions)
            self.streams = Streams(self.job, clock)
        except BaseException:
            shutil.rmtree(self._folder)
            raise
        try:
            self.streams.create_inputs(partitions)
            self.job = resolved(self.job)
        except BaseException:
            self.close()
            raise

    @property
    def state(self) -> Path:
        """The folder of the stores."""
        return state_folder(self._folder)

    def close(self) -> None:
        """Remove the files, and forget the clusters; `streams` can still be read. Closing twice is allowed."""
        self.streams.forget()
        shutil.rmtree(self._folder, ignore_errors=True)
