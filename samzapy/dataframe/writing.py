"""Writes a DataFrame as a store: fills its changelog, so that the next start of the job restores it.

`write_store` does it in these steps: check the store and the frame, become the job's owner, write every partition in
the executors (`samzapy.dataframe.partition_writer`), and commit the positions that the job starts from.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event
from typing import Any, final

from pyspark.sql import DataFrame, SparkSession

from samzapy.admin.positions import MEMBER, chosen_inputs, moved_to, write_checkpoints
from samzapy.admin.running import refuse_if_running
from samzapy.admin.take_over import take_over_by_tool
from samzapy.api.checkpoint import Checkpoint, CheckpointManager, JobRecord, JobRun
from samzapy.api.stream import SystemStreamPartition
from samzapy.checkpoint.offsets import Positions, Target
from samzapy.checkpoint.records import (
    Startpoint,
    adopt_ends,
    read_owner,
    refuse_unfinished,
    startpoints_from_json,
    write_changelog_partitions,
)
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.container.outputs.producers import fence
from samzapy.container.supervision.job_records import Ownership, open_job
from samzapy.dataframe.job import (
    Job,
    JobTasks,
    TravellingJob,
    checked_job,
    job_tasks,
    key_placement,
    worker_error,
)
from samzapy.dataframe.partition_writer import (
    FrameColumns,
    PartitionWriter,
    PartitionWritten,
    Record,
    RecordMaker,
    last_of_each,
    writer_id,
    writer_member,
)
from samzapy.dataframe.reading import PURPOSE, patience_s
from samzapy.errors import ConfigError, ConfigProblem, EnvironmentFailure, SamzapyError
from samzapy.job.planner import changelog_partition_count, to_json
from samzapy.job.transactions import state_transactions
from samzapy.runner.spark.sources import spark_context
from samzapy.storage.changelog.reading import first_value, scan
from samzapy.storage.changelog.topic import changelog_spec, ensure_changelog, find_changelog, max_record_bytes
from samzapy.storage.engines import entry_serde_names, load_engines
from samzapy.storage.inspection import key_value_store
from samzapy.system.clients import SystemClients
from samzapy.system.factories import has_transactions

#: The time limit of a partition's transaction, unless its system grants less: the default of Kafka's own limit.
_LONGEST_MS = 900_000


def writable_store(config: JobConfig, name: str) -> StoreConfig:
    """The store, if it can be filled from a frame. Raises ConfigError."""
    return key_value_store(
        config, name, changelog_for="what is written goes there", engine_for="are filled from a frame"
    )


def refuse_speculation(spark: SparkSession) -> None:
    """Raise ConfigError for a Spark that starts second copies of running tasks."""
    value = spark_context(spark).getConf().get("spark.speculation", "false")
    if value.strip().lower() != "false":
        message = "must be false: a second copy of a running task would write the same state"
        raise ConfigError([ConfigProblem("spark.speculation", value, message)])


@final
class Bootstrap:
    """One write of one store."""

    def __init__(
        self,
        store: StoreConfig,
        tasks: JobTasks,
        clients: SystemClients,
        patience_s: float,
        serde_names: tuple[str, str],
    ) -> None:
        """`patience_s`: seconds to wait before an open transaction in the changelog. `serde_names`: of keys and
        values."""
        assert store.changelog is not None
        self._patience_s = patience_s
        self._serde_names = serde_names
        self._store = store
        self._tasks = tasks
        self._clients = clients
        self._stream = store.changelog
        self._admin = clients.admin(self._stream.system)
        self._partitions = changelog_partition_count(tasks.model)

    @classmethod
    def of(cls, config: JobConfig, store: StoreConfig, tasks: JobTasks, clients: SystemClients) -> Bootstrap:
        """The write of a store of the job."""
        serdes = entry_serde_names(config, store, load_engines(config)[store.name])
        return cls(store, tasks, clients, patience_s(config.task.transaction_timeout_ms), serdes)

    def check_changelog(self, *, overwrite: bool) -> None:
        """Raise EnvironmentFailure for a changelog that cannot hold the state or, without `overwrite`, holds some."""
        if find_changelog(self._admin, self._store, self._partitions) is None or overwrite:
            return
        ssps = [SystemStreamPartition(*self._stream, number) for number in range(self._partitions)]
        for ssp, log in self._admin.offsets(ssps).items():
            with closing(self._clients.consumer(ssp.system)) as consumer:
                held = first_value(scan(consumer, ssp, log, SYSTEM_CLOCK, self._patience_s))
            if held is not None:
                raise EnvironmentFailure(
                    f"{ssp}@{held}: the changelog of store '{self._store.name}' is not empty; overwrite=True replaces what "
                    "the store holds"
                )

    def checked_records(self, config: JobConfig, df: DataFrame, columns: FrameColumns) -> Any:
        """The frame as an RDD of records, sorted, each in the Spark partition of its changelog partition.

        Every row has been looked at when this returns. Raises ConfigError, SerdeError, StoreRefused.
        """
        placement = None if columns.place_by is not None else key_placement(config, self._store, self._tasks)
        job = TravellingJob.of(config, spark_context(df.sparkSession))
        maker = RecordMaker(job, self._store.name, columns, self._tasks.names, placement, self._max_record_bytes())
        maker.check(config, self._store)
        rows = df.select(*[df[_quoted(name)] for name in columns.names]).rdd
        made = rows.mapPartitions(maker.records)
        records = made.repartitionAndSortWithinPartitions(self._partitions, _partition)
        try:
            records.mapPartitions(partial(_keys, self._store.name)).sum()
        except Exception as cause:
            raise worker_error(cause) from cause
        return records

    def write(self, config: JobConfig, records: Any, run_id: str, *, overwrite: bool) -> list[PartitionWritten]:
        """Create the changelog if it is missing, and write every partition. Raises EnvironmentFailure,
        ProducerError."""
        ensure_changelog(self._admin, self._store, self._partitions)
        timeout_ms = min(self._admin.longest_transaction_ms() or _LONGEST_MS, _LONGEST_MS)
        job = TravellingJob.of(config, records.ctx)
        names = self._tasks.names
        writer = PartitionWriter(job, self._store.name, names, run_id, overwrite, timeout_ms)
        try:
            written: list[PartitionWritten] = records.mapPartitionsWithIndex(writer.write).collect()
        except BaseException as cause:
            end_attempts(config, run_id, self._tasks, self._stream.system)
            if not isinstance(cause, Exception):
                raise
            raise worker_error(cause) from cause
        return sorted(written, key=lambda part: part.partition)

    def adopt(self, checkpoints: CheckpointManager, written: Sequence[PartitionWritten]) -> None:
        """Write down that the written records are the job's own, although no task has written them."""
        topic = self._admin.describe(self._stream.stream)
        assert topic is not None
        ends = {part.partition: part.last_offset + 1 for part in written if part.last_offset >= 0}
        adopt_ends(checkpoints, {self._stream: (topic.stream_id, ends)})

    def checkpoints(self, starts: Positions, written: Sequence[PartitionWritten]) -> dict[str, Checkpoint]:
        """The update for each task's checkpoint: the start of its inputs, and the last offsets of its changelogs."""
        last = {part.partition: {self._store.name: part.last_offset} for part in written if part.last_offset >= 0}
        serdes = {self._store.name: self._serde_names}
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


_LOG = logging.getLogger(__name__)


def own(
    config: JobConfig,
    clients: SystemClients,
    checkpoints: CheckpointManager,
    tasks: JobTasks,
    unseen: str,
    wait: Callable[[float], object],
) -> JobRun:
    """Become the job's owner, so that an `unseen` run lets go, and write the records that a start would.

    Without transactions nothing fences such a run: then `wait` for as many seconds as it takes to notice.
    """
    members = [MEMBER, *map(writer_member, tasks.names)]
    claim = take_over_by_tool(
        config, clients, checkpoints, members, list(tasks.names.values()), wait, unseen=bool(unseen)
    )
    write_changelog_partitions(checkpoints, tasks.changelog_partitions)
    if checkpoints.read_record(JobRecord.INPUTS).newest != (inputs := to_json(tasks.inputs)):
        checkpoints.write_record(JobRecord.INPUTS, inputs)
    return claim.run


def end_attempts(config: JobConfig, run_id: str, tasks: JobTasks, system: str) -> None:
    """End the attempts of a write that has failed, and abort their open transactions, because readers of the changelog
    would wait for them; best effort.

    Spark may start an attempt after the action has failed. So the job gets a new owner before the fences: an attempt
    that takes over its id after them sees that owner, and begins no transaction. Does nothing if another run owns the
    job by now: that run has already fenced the attempts.
    """
    try:
        with open_job(config, PURPOSE) as (clients, checkpoints):
            with closing(Ownership.of(config, run_id)) as ownership:
                ownership.look()
            own(config, clients, checkpoints, tasks, "", Event().wait)
            fence(clients, system, [writer_id(config.job_name, number) for number in tasks.names])
    except SamzapyError as cause:
        _LOG.warning("An open transaction is left to its time-out: %s", cause)


def starting_positions(
    config: JobConfig, clients: SystemClients, tasks: JobTasks, wanted: str | Mapping[str, str]
) -> Positions:
    """Offsets by partition: of every input, or of the inputs in `wanted` (`system.stream`, `system.stream[partition]`).

    Targets are as in `samzapy checkpoint set`: oldest, newest, upcoming, default, an offset, a time. Raises
    ConfigError.
    """
    if config.task.checkpoint is None:
        raise ConfigError([ConfigProblem("task.checkpoint.factory", "none", "the job keeps no positions")])
    logs = clients.offsets(ssp for task in tasks.model.tasks for ssp in task.ssps)
    named = {"": wanted} if isinstance(wanted, str) else wanted
    found: Positions = {}
    for name, target in named.items():
        chosen = {ssp: logs[ssp] for ssp in chosen_inputs(logs, (name,) if name else (), "positions")}
        found.update(Target(target).offsets(config.offset_default, chosen, clients.admin))
    return found


def commit_positions(
    config: JobConfig,
    clients: SystemClients,
    checkpoints: CheckpointManager,
    run_id: str,
    updates: Mapping[str, Checkpoint],
) -> None:
    """Commit the updates of the tasks' checkpoints, all at once if they are kept in a topic.

    Raises JobTakenOver if the job was started meanwhile; then nothing is committed.
    """
    before = checkpoints.read(updates)
    startpoints = startpoints_from_json(checkpoints.read_record(JobRecord.STARTPOINTS).newest)
    merged = {task: _merged(before[task], new, task, startpoints) for task, new in updates.items()}
    with closing(Ownership.of(config, run_id)) as ownership:
        ownership.look()
    # The owner is read before the transaction: a reader of the topic waits for every open transaction in it.
    write_checkpoints(config.job_name, clients, checkpoints, state_transactions(config, has_transactions), merged)


def _merged(old: Checkpoint | None, new: Checkpoint, task: str, startpoints: Sequence[Startpoint]) -> Checkpoint:
    moved = moved_to(old, new.input_offsets, task, startpoints)
    offsets = {**moved.changelog_offsets, **new.changelog_offsets}
    return replace(moved, changelog_offsets=offsets, serdes={**moved.serdes, **new.serdes})


@dataclass(frozen=True)
class StoreWritten:
    """`records` with values and `tombstones` for keys that are gone, in all; `last_offsets` by changelog partition,
    without partitions that got nothing; `positions`: where the job will start, empty if not requested."""

    records: int
    tombstones: int
    last_offsets: Mapping[int, int]
    positions: Positions = field(default_factory=dict)


def write_store(
    df: DataFrame,
    job: Job,
    store: str,
    *,
    place_by: str | None = None,
    order_by: str | None = None,
    overwrite: bool = False,
    positions: str | Mapping[str, str] | None = None,
    take_over: bool = False,
) -> StoreWritten:
    """Fill a store's changelog from the columns `key` and `value` of a frame; the job's next start restores it.

    Columns fit the serdes as in `read_store`; structured values come from a struct, array or map column, or
    from a string column as JSON text. Nulls are refused. In a store with a time to live, a row counts as put now.

    - Place: by the key, as the producers of the job's inputs hash it (murmur2 over their partitions). This is right
      for a store with the keys of the inputs. For other stores `place_by` names a column with the task's name (string)
      or the changelog's partition (whole number), as `read_store` returns them.
    - One record per key and task: `order_by` names a column, and the greatest row of each key counts. Without it a key
      that occurs twice is refused.
    - A changelog with records is refused, unless `overwrite` is set, which also deletes keys that are not in the
      frame.
    - `positions`: the start of the job's inputs. A target of `samzapy checkpoint set` (oldest, upcoming, an
      offset, a time) for all inputs, or targets by `system.stream` or `system.stream[partition]`. None keeps the
      positions.

    Steps: refuse a job that runs (as `samzapy checkpoint set` sees it; `take_over` makes one elsewhere let go);
    serialize, place and check every row, so that bad data stops it before anything is written; become the job's owner;
    create the changelog if it is missing; write each partition in a separate transaction, one Spark task each; write
    down that these records are the job's own; commit the positions.

    A task that is tried again aborts and fences its earlier attempt, and repeats the same records if that one had
    committed. Two attempts at a time are refused (`spark.speculation`). A write that fails leaves no part of a
    partition, but partitions that were done stay: write again with `overwrite` before the job starts. A partition's
    transaction may take as long as its system grants (Kafka: `transaction.max.timeout.ms`, 15 minutes).

    Raises ConfigError, SerdeError, StoreRefused, UnknownStream, EnvironmentFailure: one line each.
    """
    config = checked_job(job)
    found = writable_store(config, store)
    refuse_speculation(df.sparkSession)
    columns = FrameColumns.of(df.schema, place_by, order_by)
    with open_job(config, PURPOSE) as (clients, checkpoints):
        unseen = refuse_if_running(config, read_owner(checkpoints), take_over=take_over, how="take_over=True")
        refuse_unfinished(checkpoints, [store])
        tasks = job_tasks(config, clients, checkpoints)
        bootstrap = Bootstrap.of(config, found, tasks, clients)
        bootstrap.check_changelog(overwrite=overwrite)
        starts = {} if positions is None else starting_positions(config, clients, tasks, positions)
        records = bootstrap.checked_records(config, df, columns)
        run = own(config, clients, checkpoints, tasks, unseen, Event().wait)
        parts = bootstrap.write(config, records, run.id, overwrite=overwrite)
        bootstrap.adopt(checkpoints, parts)
        if positions is not None:
            commit_positions(config, clients, checkpoints, run.id, bootstrap.checkpoints(starts, parts))
    last_offsets = {part.partition: part.last_offset for part in parts if part.last_offset >= 0}
    records_written, tombstones = sum(part.records for part in parts), sum(part.tombstones for part in parts)
    return StoreWritten(records_written, tombstones, last_offsets, starts)
