"""Reads a store as a DataFrame: `read_store` on the driver, `RowReader` in the executors.

A part of a store is a partition of its changelog, or the files of one task.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar, final

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as sql

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange
from samzapy.checkpoint.records import read_changelog_partitions
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.container.supervision.job_records import open_job
from samzapy.dataframe.columns import ReadColumn, parse_schema, read_column
from samzapy.dataframe.job import Job, TravellingJob, checked_job, job_tasks, on_this_machine
from samzapy.errors import ConfigError, ConfigProblem, EnvironmentFailure
from samzapy.job.files import TemporaryFolder
from samzapy.runner.spark.sources import spark_context
from samzapy.serializers import decode_failure, serde_registry
from samzapy.storage.changelog.reading import scan
from samzapy.storage.inspection import (
    ChangelogReader,
    Contents,
    Entry,
    Selection,
    local_directories,
    read_files,
    store_of,
)
from samzapy.storage.spec import store_specs
from samzapy.system.clients import job_clients

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
        with (
            TemporaryFolder("store") as folder,
            closing(job_clients(config, PURPOSE)) as clients,
        ):
            now = clients.admin(self.ssp.system).offsets([self.ssp])[self.ssp]
            if now.upcoming < self.log.upcoming:
                raise EnvironmentFailure(
                    f"{self.ssp}: ends before {now.upcoming}, and ended before {self.log.upcoming} "
                    "when it was asked for: it "
                    "was deleted or created again meanwhile"
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


@final
@dataclass(frozen=True)
class LocalPart:
    """The files of one task's store, as their owner's last flush left them; the owner is not disturbed."""

    directory: str

    @contextmanager
    def opened(self, config: JobConfig, store: StoreConfig) -> Iterator[Contents]:
        """See `ChangelogPart.opened`."""
        with read_files(store_specs(config)[store.name], [Path(self.directory)], SYSTEM_CLOCK) as contents:
            yield contents

    def place(self, config: JobConfig, entry: Entry) -> str:
        """See `ChangelogPart.place`."""
        return f"{self.directory}, key {entry.key!r:.100}"


#: A part of a store's committed entries.
StorePart = ChangelogPart | LocalPart


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
                raise ConfigError([ConfigProblem("columns", name, f"expected some of {', '.join(COLUMNS)}")])
        return sql.StructType([sql.StructField(name, types[name]) for name in self.columns])


@dataclass(frozen=True)
class RowReader:
    """The function of a Spark partition; it travels, and everything it opens is opened where it arrives."""

    job: TravellingJob
    store: str
    requested: RequestedColumns
    parts: Sequence[StorePart]
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
        config: JobConfig, store: StoreConfig, part: StorePart, entry: Entry, read: Mapping[str, ReadColumn]
    ) -> None:
        """Read key and value again, to find out which of them fails."""
        named = (("key", store.key_serde, entry.key), ("value", store.msg_serde, entry.value))
        for what, serde, data in named:
            try:
                read[what].read(data)
            except Exception as cause:
                raise decode_failure(serde or "store's", part.place(config, entry), what, cause) from cause


_SOURCES = ("changelog", "local")


def read_store(
    spark: SparkSession,
    job: Job,
    store: str,
    schema: str | sql.DataType | None = None,
    *,
    key_schema: str | sql.DataType | None = None,
    columns: Sequence[str] = ("key", "value"),
    source: str | None = None,
    folder: Path | str | None = None,
) -> DataFrame:
    """The committed contents of a job's store, one row per key and task. The job may be running.

    `job` is the path of its file, its flat pairs, or a result of `load_job`. Each task has its own keys, so the same
    key may be in several tasks.

    Types follow the serdes: string and uuid give string, long bigint, integer int, double double, bytes binary. For
    structured serdes (json, msgpack, your own) `schema` (values) and `key_schema` (keys) set the type: a DataType or
    DDL, as in `"flights bigint, delay array<bigint>"`. The fields of a struct are found by name, and a value that does
    not fit is an error. Without a schema the column is JSON as text, also for the entries of a view, as
    `samzapy store` shows it. `columns`: some of partition (the changelog's), task, key, value.

    `source`: `"changelog"` (default, if the store has one) or `"local"`.

    - changelog: each partition is read by one Spark task, up to its end at this call; committed records only,
      the last one of each key, no tombstones, no expired entries. Frames are lazy: each action reads the changelog
      again. Compaction may drop records that are overwritten after this call, so `cache()` a frame that is used for
      long. A task takes up to 384 MiB of memory; more than 1,000 records go through files in its
      temporary folder.
    - local: the files of the job's tasks on this machine, as their last flush left them, a Spark task each; for a
      `local` master only. `folder` is where stores are (default: the job's), or one task's store.

    With pandas and pyarrow (`pip install 'samzapy[dataframe]'`) rows travel to Spark by Arrow, otherwise one by one.

    Raises ConfigError for an unknown store, column, schema or source, UnknownStream for a changelog that does not
    exist. The frame's actions raise Spark's form of a SerdeError that names stream[partition]@offset.
    """
    context = spark_context(spark)
    config = checked_job(job)
    found = store_of(config.stores, store)
    requested = RequestedColumns(tuple(columns), parse_schema("key_schema", key_schema), parse_schema("schema", schema))
    frame_schema = requested.frame_schema(requested.of(config, found))
    parts = _parts(context, config, found, source, None if folder is None else Path(folder))
    tasks = _tasks(config) if "task" in columns else {}
    reader = RowReader(TravellingJob.of(config, context), store, requested, parts, tasks)
    with _without_talk_of_pandas():
        if _by_arrow():
            numbers = spark.range(0, len(parts), 1, len(parts))
            return numbers.mapInArrow(partial(reader.batches, frame_schema), frame_schema)
    rows = context.parallelize(range(len(parts)), len(parts)).mapPartitions(reader.rows)
    return spark.createDataFrame(rows, frame_schema, verifySchema=False)


def _parts(
    context: SparkContext, config: JobConfig, store: StoreConfig, source: str | None, folder: Path | None
) -> list[StorePart]:
    source = source or ("changelog" if store.changelog is not None and folder is None else "local")
    if source not in _SOURCES:
        raise ConfigError([ConfigProblem("source", source, f"expected {' or '.join(_SOURCES)}")])
    if source == "local":
        return _local_parts(context, config, store, folder)
    if folder is not None:
        raise ConfigError([ConfigProblem("folder", str(folder), "is for source='local'; leave it out")])
    if store.changelog is None:
        message = "is required to read the store from elsewhere; source='local' reads its files"
        raise ConfigError([ConfigProblem(f"stores.{store.name}.changelog", None, message)])
    with open_job(config, PURPOSE) as (clients, _):
        ends = ChangelogReader(clients.admin, clients.consumer, SYSTEM_CLOCK, Path()).ends(store, [])
    return [ChangelogPart(ssp, log) for ssp, log in sorted(ends.items())]


def _local_parts(context: SparkContext, config: JobConfig, store: StoreConfig, folder: Path | None) -> list[StorePart]:
    if not on_this_machine(context):
        message = "source='local' reads files of this machine; expected a local[...] or local-cluster[...] master"
        raise ConfigError([ConfigProblem("spark.master", context.master, message)])
    directories = local_directories(config.job_name, store.name, folder or config.base_dir(store))
    return [LocalPart(os.path.abspath(directory)) for directory in directories]  # noqa: PTH100  # text for the wire


def _tasks(config: JobConfig) -> dict[int, str]:
    with open_job(config, PURPOSE) as (clients, checkpoints):
        if known := read_changelog_partitions(checkpoints):
            return {partition: task for task, partition in known.items()}
        return job_tasks(config, clients, checkpoints).names


def _by_arrow() -> bool:
    """Whether Spark finds pandas and pyarrow, both recent enough for it."""
    from pyspark.sql.pandas.utils import (  # noqa: PLC0415  # looks for them when it is imported
        require_minimum_pandas_version,
        require_minimum_pyarrow_version,
    )

    try:
        require_minimum_pandas_version()
        require_minimum_pyarrow_version()
    except ImportError:
        return False
    return True


@contextmanager
def _without_talk_of_pandas() -> Iterator[None]:
    """Suppress pyspark's warning about the version of pandas: no row passes through pandas."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
        yield
