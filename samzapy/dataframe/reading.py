"""Takes a job to Spark's executors, and reads a store there as a DataFrame: `read_store` on the driver, `RowReader` in
the executors."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from inspect import signature
from pathlib import Path
from tempfile import mkstemp
from typing import Any, TypeVar, final

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as sql

from samzapy import errors
from samzapy.admin.job_check import existing, resolved
from samzapy.admin.user_code import make_importable
from samzapy.api.checkpoint import CheckpointManager, JobRecord
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import OffsetRange
from samzapy.checkpoint.records import read_changelog_partitions
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.job import JobConfig
from samzapy.config.loader import load_job
from samzapy.config.reading.properties import Masked, literal_secrets
from samzapy.config.stores import StoreConfig
from samzapy.container.supervision.job_records import open_job
from samzapy.dataframe.columns import ReadColumn, parse_schema, read_column
from samzapy.errors import (
    ConfigError,
    EnvironmentFailure,
    JobTakenOver,
    ProducerError,
    RecordRefused,
    SamzapyError,
    SerdeError,
    StoreRefused,
)
from samzapy.job.files import TemporaryFolder
from samzapy.job.planner import InputPartitions, JobModel, follow_growth, from_json, keeps_state, plan
from samzapy.runner.spark.application import one_line
from samzapy.runner.spark.master import check_secrets, without_sparks_secrets
from samzapy.runner.spark.sources import private_folder, spark_context
from samzapy.runner.spark.user_code import arrive, pickled_code, shipped_files
from samzapy.serializers import decode_failure, serde_registry
from samzapy.storage.changelog.topic import scan
from samzapy.storage.inspection import ChangelogReader, Contents, Entry, Selection, store_of
from samzapy.storage.spec import store_specs
from samzapy.system.clients import SystemClients, job_clients

#: The path of a job file, its flat pairs, or the checked job.
Job = Path | str | Mapping[str, str] | JobConfig


def checked_job(job: Job) -> JobConfig:
    """The job, with the streams that match now in place of patterns, and the user's code importable here. Raises
    ConfigError."""
    config = resolved(job if isinstance(job, JobConfig) else load_job(job))
    make_importable(config)
    return config


@dataclass(frozen=True)
class TravellingJob:
    """The flat file without its secrets, with `${env:NAME}` unresolved: an executor reads its own environment, so
    secrets named in this way do not travel. `directory`: the base of relative paths; None: the executor's. `secrets`: a
    file on this machine with the secrets written into the job file; None for none. `code`: the user's serdes, engines
    and systems.

    It is part of the functions that Spark gets, and Spark keeps those in memory and on disks of its own.
    """

    raw: Mapping[str, str]
    directory: str | None
    secrets: str | None = None
    code: bytes = b""

    @classmethod
    def of(cls, config: JobConfig, context: SparkContext) -> TravellingJob:
        """The job, for the executors of a context; they get the files of the job's code.

        Raises ConfigError for code that cannot be shipped, and for secrets in the file, if the executors are on other
        machines."""
        here = str(context.master).startswith("local")
        for path in shipped_files(config, private_folder()):
            context.addPyFile(path)
        if not here:
            check_secrets(config, str(context.master))
        return cls.without_secrets(config, on_this_machine=here)

    @classmethod
    def without_secrets(cls, config: JobConfig, *, on_this_machine: bool) -> TravellingJob:
        """The job for executors on this machine, which read its secrets from a file, or on others."""
        raw = without_sparks_secrets(config.raw)
        written = {key: raw[key] for key in literal_secrets(raw)}
        kept = _kept_here(tuple(sorted(written.items()))) if written and on_this_machine else None
        shown = {key: value for key, value in raw.items() if key not in written}
        # A frame runs no task, so a task that cannot travel does not matter.
        taskless = {key: value for key, value in config.resolved.items() if key != "task.class"}
        code = pickled_code(replace(config, resolved=taskless))
        return cls(Masked(shown, raw.secret), str(Path.cwd()) if on_this_machine else None, kept, code)

    @contextmanager
    def arrived(self) -> Iterator[JobConfig]:
        """The checked job, inside its folder, with its code importable; restores the process's folder at the end.
        Raises ConfigError."""
        arrive(self.code)
        before = Path.cwd()
        if self.directory is not None:
            os.chdir(self.directory)
        try:
            secrets = {} if self.secrets is None else json.loads(Path(self.secrets).read_bytes())
            yield load_job({**self.raw, **secrets})
        finally:
            os.chdir(before)


@cache
def _kept_here(secrets: tuple[tuple[str, str], ...]) -> str:
    """The path of a file with these pairs, for this user only."""
    handle, path = mkstemp(".json", dir=private_folder())
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(dict(secrets), file)
    return path


#: The last line of a Python worker's stack trace, which Spark passes on as text.
_OURS = re.compile(r"^samzapy\.errors\.(\w+): (.*)$", re.MULTILINE)
#: The most special ones come first.
_KINDS = (SerdeError, StoreRefused, RecordRefused, ProducerError, EnvironmentFailure)


def worker_error(cause: Exception) -> SamzapyError:
    """The error that a worker has raised, or an EnvironmentFailure with Spark's own message."""
    matches = _OURS.findall(str(cause))
    if not matches:
        return EnvironmentFailure(f"Spark gave up: {one_line(cause)}")
    name, message = matches[-1]
    raised = getattr(errors, name, SamzapyError)
    if issubclass(raised, JobTakenOver):
        return EnvironmentFailure(message)
    return next((kind for kind in _KINDS if issubclass(raised, kind)), SamzapyError)(message)


@dataclass(frozen=True)
class JobTasks:
    """A job's tasks as its next start will plan them, and the records that this start would write with the
    checkpoints."""

    model: JobModel
    inputs: Mapping[SystemStream, InputPartitions]
    changelog_partitions: Mapping[str, int]

    @property
    def names(self) -> dict[int, str]:
        """The tasks by their changelog partition."""
        return {task.changelog_partition: task.name for task in self.model.tasks}


def job_tasks(config: JobConfig, clients: SystemClients, checkpoints: CheckpointManager) -> JobTasks:
    """The tasks, planned as a start does, changing nothing. Raises UnknownStream for an input that does not exist,
    EnvironmentFailure for one that has grown to a number the job's state cannot follow."""
    counts = {
        stream: existing(config, stream, lambda each: clients.admin(each.system).describe(each.stream)).partitions
        for stream in config.task.inputs
    }
    previous = read_changelog_partitions(checkpoints)
    inputs = from_json(checkpoints.read_record(JobRecord.INPUTS).newest)
    inputs = follow_growth(inputs, counts, keeps_state=keeps_state(config.stores))
    model = plan(config, counts, previous, inputs)
    return JobTasks(model, inputs, previous | {task.name: task.changelog_partition for task in model.tasks})


#: Names the clients of frames.
PURPOSE = "dataframe"


@final
@dataclass(frozen=True)
class ChangelogPart:
    """A partition of the changelog, up to the end it had when it was asked for."""

    ssp: SystemStreamPartition
    log: OffsetRange

    @contextmanager
    def opened(self, config: JobConfig, store: StoreConfig) -> Iterator[Contents]:
        """The entries, for the duration of the context. Raises the errors of reading them."""
        with TemporaryFolder("store") as folder, closing(job_clients(config, PURPOSE)) as clients:
            now = clients.admin(self.ssp.system).offsets([self.ssp])[self.ssp]
            if now.upcoming < self.log.upcoming:
                raise EnvironmentFailure(
                    f"{self.ssp}: ends before {now.upcoming}, and ended before {self.log.upcoming} when it was asked "
                    "for: it was deleted or created again meanwhile"
                )
            bounds = {self.ssp: OffsetRange(max(self.log.oldest, now.oldest), self.log.upcoming)}
            reader = ChangelogReader(
                clients.admin,
                clients.consumer,
                SYSTEM_CLOCK,
                folder.path,
                stall_s=patience_s(config.task.transaction_timeout_ms),
            )
            with reader.read(store, [], Selection(), bounds) as contents:
                yield contents

    def place(self, config: JobConfig, entry: Entry) -> str:
        """The record of the entry, for an error message; searched for only here, because stores keep no offsets."""
        last: int | str = "?"
        stall_s = patience_s(config.task.transaction_timeout_ms)
        with closing(job_clients(config, PURPOSE)) as clients, closing(clients.consumer(self.ssp.system)) as consumer:
            for batch in scan(consumer, self.ssp, self.log, SYSTEM_CLOCK, stall_s):
                for offset, key in zip(batch.offsets, batch.keys, strict=True):
                    if key == entry.key:
                        last = offset
        return f"{self.ssp}@{last}"


def patience_s(transaction_timeout_ms: int) -> float:
    """Seconds that a reader waits before an open transaction: longer than a crashed writer's takes to be aborted."""
    return 30.0 + transaction_timeout_ms / 1000


COLUMNS = ("partition", "task", "key", "value")

_ARROW_ROWS = 10_000
#: Bytes of keys and values after which a chunk ends: a chunk of large values must fit into memory, and a column of an
#: Arrow batch must be shorter than 2 GiB.
CHUNK_BYTES = 8_388_608

T = TypeVar("T")


def chunks(sized: Iterable[tuple[T, int]], most: int) -> Iterator[list[T]]:
    """The items, each given with its size in bytes, in lists of at most `most`, which end at `CHUNK_BYTES`."""
    chunk: list[T] = []
    size = 0
    for item, more in sized:
        chunk.append(item)
        size += more
        if len(chunk) == most or size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


@dataclass(frozen=True)
class RequestedColumns:
    """The columns of a frame, in order, and the types of keys and values; None leaves a type to the serde."""

    columns: tuple[str, ...]
    key: sql.DataType | None
    value: sql.DataType | None

    def of(self, config: JobConfig, store: StoreConfig) -> dict[str, ReadColumn]:
        """The columns of keys and values. Raises ConfigError for an impossible type."""
        key, value = store_specs(config)[store.name].serdes(serde_registry(config))
        return {"key": read_column("key_schema", key, self.key), "value": read_column("schema", value, self.value)}

    def frame_schema(self, read: Mapping[str, ReadColumn]) -> sql.StructType:
        """The schema of the frame. Raises ConfigError for an unknown column."""
        types = {"partition": sql.IntegerType(), "task": sql.StringType(), **{n: c.type for n, c in read.items()}}
        for name in self.columns:
            if name not in types:
                raise ConfigError.of("columns", name, f"expected some of {', '.join(COLUMNS)}")
        return sql.StructType([sql.StructField(name, types[name]) for name in self.columns])


@dataclass(frozen=True)
class RowReader:
    """The function of a Spark partition; it travels, and everything it opens is opened where it arrives."""

    job: TravellingJob
    store: str
    requested: RequestedColumns
    parts: Sequence[ChangelogPart]
    tasks: Mapping[int, str]

    def rows(self, numbers: Iterable[int]) -> Iterator[tuple[Any, ...]]:
        """The rows of the parts of these numbers. Raises SerdeError that names stream[partition]@offset."""
        return (row for row, _ in self._sized(numbers))

    def _sized(self, numbers: Iterable[int]) -> Iterator[tuple[tuple[Any, ...], int]]:
        """The rows, each with the bytes of its entry."""
        with self.job.arrived() as config:
            store = store_of(config.stores, self.store)
            read = self.requested.of(config, store)
            cells = self._cells(read)
            for number in numbers:
                part = self.parts[number]
                with part.opened(config, store) as contents:
                    for entry in contents.entries(Selection()):
                        try:
                            row = tuple([cell(entry) for cell in cells])
                        except Exception as cause:
                            self._fail(config, store, part, entry, read)
                            raise AssertionError from cause
                        yield row, len(entry.key) + len(entry.value)

    def batches(self, schema: sql.StructType, numbers: Iterator[Any]) -> Iterator[Any]:
        """Like `rows`, by Arrow: takes record batches of numbers, and yields record batches of the schema."""
        import pyarrow as pa  # noqa: PLC0415  # optional
        from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415  # needs pyarrow

        # Versions of Spark without the parameter always take UTC.
        zone = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
        arrow = to_arrow_schema(schema, **zone)
        sized = self._sized(number for batch in numbers for number in batch.column(0).to_pylist())
        for chunk in chunks(sized, _ARROW_ROWS):
            columns = [
                pa.array(column, field.type) for column, field in zip(zip(*chunk, strict=True), arrow, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=arrow)

    def _cells(self, read: Mapping[str, ReadColumn]) -> list[Callable[[Entry], Any]]:
        tasks, read_key, read_value = self.tasks, read["key"].read, read["value"].read
        cells: dict[str, Callable[[Entry], Any]] = {
            "partition": lambda entry: entry.partition,
            "task": lambda entry: tasks.get(entry.partition),
            "key": lambda entry: read_key(entry.key),
            "value": lambda entry: read_value(entry.value),
        }
        return [cells[name] for name in self.requested.columns]

    @staticmethod
    def _fail(
        config: JobConfig, store: StoreConfig, part: ChangelogPart, entry: Entry, read: Mapping[str, ReadColumn]
    ) -> None:
        """Read key and value again, to find out which of them fails."""
        named = (("key", store.key_serde, entry.key), ("value", store.msg_serde, entry.value))
        for what, serde, data in named:
            try:
                read[what].read(data)
            except Exception as cause:
                raise decode_failure(serde or "store's", part.place(config, entry), what, cause) from cause


def read_store(
    spark: SparkSession,
    job: Job,
    store: str,
    schema: str | sql.DataType | None = None,
    *,
    key_schema: str | sql.DataType | None = None,
    columns: Sequence[str] = ("key", "value"),
) -> DataFrame:
    """The committed contents of a job's store, one row per key and task. The job may be running.

    `job` is the path of its file, its flat pairs, or a result of `load_job`. Each task has its own keys, so the same
    key may be in several tasks.

    Types follow the serdes: string and uuid give string, long bigint, integer int, double double, bytes binary. For
    structured serdes (json, msgpack, your own) `schema` (values) and `key_schema` (keys) set the type: a DataType or
    DDL, as in `"flights bigint, delay array<bigint>"`. The fields of a struct are found by name, and a value that does
    not fit is an error. Without a schema the column is JSON as text, also for the entries of a view, as
    `samzapy store` shows it. `columns`: some of partition (the changelog's), task, key, value.

    Each partition of the changelog is read by one Spark task, up to its end at this call; committed records only, the
    last one of each key, no tombstones, no expired entries. Frames are lazy: each action reads the changelog again.
    Compaction may drop records that are overwritten after this call, so `cache()` a frame that is used for long. A task
    takes up to 384 MiB of memory; more than 1,000 records go through files in its temporary
    folder.

    With pandas and pyarrow (`pip install 'samzapy[dataframe]'`) rows travel to Spark by Arrow, otherwise one by one.

    Raises ConfigError for an unknown store, column or schema and for a store without a changelog, UnknownStream for a
    changelog that does not exist. The frame's actions raise Spark's form of a SerdeError that names
    stream[partition]@offset.
    """
    context = spark_context(spark)
    config = checked_job(job)
    declared = store_of(config.stores, store)
    requested = RequestedColumns(tuple(columns), parse_schema("key_schema", key_schema), parse_schema("schema", schema))
    frame_schema = requested.frame_schema(requested.of(config, declared))
    parts = _parts(config, declared)
    tasks = _tasks(config) if "task" in columns else {}
    reader = RowReader(TravellingJob.of(config, context), store, requested, parts, tasks)
    with _without_talk_of_pandas():
        if _by_arrow():
            numbers = spark.range(0, len(parts), 1, len(parts))
            return numbers.mapInArrow(partial(reader.batches, frame_schema), frame_schema)
    rows = context.parallelize(range(len(parts)), len(parts)).mapPartitions(reader.rows)
    return spark.createDataFrame(rows, frame_schema, verifySchema=False)


def _parts(config: JobConfig, store: StoreConfig) -> list[ChangelogPart]:
    if store.changelog is None:
        message = "is required to read the store from elsewhere; `samzapy store` reads the files on a machine"
        raise ConfigError.of(f"stores.{store.name}.changelog", None, message)
    with open_job(config, PURPOSE) as (clients, _):
        ends = ChangelogReader(clients.admin, clients.consumer, SYSTEM_CLOCK, Path()).ends(store, [])
    return [ChangelogPart(ssp, log) for ssp, log in sorted(ends.items())]


def _tasks(config: JobConfig) -> dict[int, str]:
    with open_job(config, PURPOSE) as (clients, checkpoints):
        if known := read_changelog_partitions(checkpoints):
            return {partition: task for task, partition in known.items()}
        return job_tasks(config, clients, checkpoints).names


def _by_arrow() -> bool:
    """Whether Spark finds pandas and pyarrow, both recent enough for it."""
    from pyspark.sql.pandas import utils  # noqa: PLC0415  # looks for them when it is imported

    with suppress(ImportError):
        utils.require_minimum_pandas_version()
        utils.require_minimum_pyarrow_version()
        return True
    return False


@contextmanager
def _without_talk_of_pandas() -> Iterator[None]:
    """Suppress pyspark's warning about the version of pandas: no row passes through pandas."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
        yield
