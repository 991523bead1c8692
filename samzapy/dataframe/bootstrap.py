"""Fills a store by batch: checks, serializes and writes the rows of a frame, and records what was written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any, final

from pyspark.sql import DataFrame, SparkSession

from samzapy.api.checkpoint import Checkpoint, CheckpointManager, JobRecord
from samzapy.api.stream import SystemStreamPartition
from samzapy.checkpoint.adopted import Adopted
from samzapy.checkpoint.offsets import Positions
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.dataframe.job import TravellingJob, spark_context, worker_error
from samzapy.dataframe.ownership import abort_open
from samzapy.dataframe.partition_writer import PartitionWriter, PartitionWritten
from samzapy.dataframe.parts import patience_s
from samzapy.dataframe.records import FrameColumns, Record, RecordMaker, last_of_each
from samzapy.dataframe.tasks import JobTasks, key_placement
from samzapy.errors import ConfigError, ConfigProblem, EnvironmentFailure
from samzapy.job.planner import changelog_partition_count
from samzapy.storage.changelog.reading import first_value, scan
from samzapy.storage.changelog.topic import changelog_spec, ensure_changelog, find_changelog, max_record_bytes
from samzapy.storage.engines import entry_serde_names, load_engines
from samzapy.storage.inspection import store_of
from samzapy.system.clients import SystemClients

#: How long the transaction of a partition may take, unless its system grants less: the default of Kafka's own limit.
_LONGEST_MS = 900_000


def writable_store(config: JobConfig, name: str) -> StoreConfig:
    """The store, if it can be filled from a frame. Raises ConfigError."""
    store = store_of(config, name)
    if store.changelog is None:
        message = "is required: what is written goes there"
        raise ConfigError([ConfigProblem(f"stores.{name}.changelog", None, message)])
    if load_engines(config)[name].has_view:
        message = "has an encoding of its own; only key-value stores (rocksdb, inmemory) are filled from a frame"
        raise ConfigError([ConfigProblem(f"stores.{name}.factory", store.factory, message)])
    return store


def refuse_speculation(spark: SparkSession) -> None:
    """Raise ConfigError for a Spark that starts second copies of running tasks."""
    value = spark_context(spark).getConf().get("spark.speculation", "false")
    if value.strip().lower() != "false":
        message = "must be false: a second copy of a running task would write the same state"
        raise ConfigError([ConfigProblem("spark.speculation", value, message)])


@final
class Bootstrap:
    """One write of one store."""

    def __init__(self, config: JobConfig, store: StoreConfig, tasks: JobTasks, clients: SystemClients) -> None:
        assert store.changelog is not None
        self._config = config
        self._store = store
        self._tasks = tasks
        self._clients = clients
        self._stream = store.changelog
        self._admin = clients.admin(self._stream.system)
        self._partitions = changelog_partition_count(tasks.model)

    def check_changelog(self, *, overwrite: bool) -> None:
        """Raise EnvironmentFailure for a changelog that cannot hold the state or, without `overwrite`, holds some."""
        if find_changelog(self._admin, self._store, self._partitions) is None or overwrite:
            return
        ssps = [SystemStreamPartition(*self._stream, number) for number in range(self._partitions)]
        for ssp, log in self._admin.offsets(ssps).items():
            with closing(self._clients.consumer(ssp.system)) as consumer:
                held = first_value(scan(consumer, ssp, log, SYSTEM_CLOCK, patience_s(self._config)))
            if held is not None:
                raise EnvironmentFailure(
                    f"{ssp}@{held}: the changelog of store '{self._store.name}' is not empty; overwrite=True replaces what "
                    "the store holds"
                )

    def checked_records(self, df: DataFrame, columns: FrameColumns) -> Any:
        """The frame as an RDD of records, sorted, each in the Spark partition of its changelog partition.

        Every row has been looked at when this returns. Raises ConfigError, SerdeError, StoreRefused.
        """
        placement = None if columns.place_by is not None else key_placement(self._config, self._store, self._tasks)
        job = TravellingJob.of(self._config, spark_context(df.sparkSession))
        maker = RecordMaker(job, self._store.name, columns, self._tasks.names, placement, self._max_record_bytes())
        maker.check(self._config, self._store)
        rows = df.select(*[df[_quoted(name)] for name in columns.names]).rdd
        made = rows.mapPartitions(maker.records)
        records = made.repartitionAndSortWithinPartitions(self._partitions, _partition)
        try:
            records.mapPartitions(partial(_keys, self._store.name)).sum()
        except Exception as cause:
            raise worker_error(cause) from cause
        return records

    def write(self, records: Any, run_id: str, *, overwrite: bool) -> list[PartitionWritten]:
        """Create the changelog if it is missing, and write every partition. Raises EnvironmentFailure, ProducerError."""
        ensure_changelog(self._admin, self._store, self._partitions)
        timeout_ms = min(self._admin.longest_transaction_ms() or _LONGEST_MS, _LONGEST_MS)
        job = TravellingJob.of(self._config, records.ctx)
        names = self._tasks.names
        writer = PartitionWriter(job, self._store.name, names, run_id, overwrite, timeout_ms)
        try:
            written: list[PartitionWritten] = records.mapPartitionsWithIndex(writer.write).collect()
        except BaseException as cause:
            abort_open(self._config, run_id, self._stream.system, names, timeout_ms)
            if not isinstance(cause, Exception):
                raise
            raise worker_error(cause) from cause
        return sorted(written, key=lambda part: part.partition)

    def adopt(self, checkpoints: CheckpointManager, written: Sequence[PartitionWritten]) -> None:
        """Write down that the written records are the job's own, although no task has written them."""
        topic = self._admin.describe(self._stream.stream)
        assert topic is not None
        known = Adopted.from_json(checkpoints.read_record(JobRecord.ADOPTED))
        ends = {part.partition: part.last_offset + 1 for part in written if part.last_offset >= 0}
        adopted = known.with_ends(self._stream, topic.stream_id, ends)
        checkpoints.write_record(JobRecord.ADOPTED, adopted.to_json())

    def checkpoints(self, starts: Positions, written: Sequence[PartitionWritten]) -> dict[str, Checkpoint]:
        """The news for each task's checkpoint: the start of its inputs, and the last offsets of its changelogs."""
        last = {part.partition: {self._store.name: part.last_offset} for part in written if part.last_offset >= 0}
        factory = load_engines(self._config)[self._store.name]
        serdes = {self._store.name: entry_serde_names(self._config, self._store, factory)}
        return {
            task.name: Checkpoint(
                {ssp: starts[ssp] for ssp in task.ssps if ssp in starts},
                last.get(task.changelog_partition, {}),
                serdes=serdes,
            )
            for task in self._tasks.model.tasks
        }

    def _max_record_bytes(self) -> int | None:
        found = find_changelog(self._admin, self._store, self._partitions)
        if found is not None:
            return max_record_bytes(found)
        return int(changelog_spec(self._store, self._partitions).config["max.message.bytes"])


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _partition(key: tuple[int, bytes, Any]) -> int:
    return key[0]


def _keys(store: str, records: Iterable[Record]) -> Iterator[int]:
    yield sum(1 for _ in last_of_each(store, records))
