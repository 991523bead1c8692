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
from operator import itemgetter
from threading import Event
from typing import Any, final

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from samzapy.admin.positions import MEMBER, chosen_inputs, moved_to, must_keep_checkpoints, write_checkpoints
from samzapy.admin.running import refuse_if_running
from samzapy.admin.take_over import Claim, take_over_by_tool
from samzapy.api.checkpoint import Checkpoint, CheckpointManager, JobRecord, JobRun
from samzapy.api.stream import SystemStreamPartition
from samzapy.checkpoint.records import (
    Positions,
    Startpoint,
    Target,
    adopt_ends,
    read_owner,
    refuse_copied,
    startpoints_from_json,
    write_changelog_partitions,
)
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.job import FIXED, JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.container.outputs.producers import fence, state_transactions
from samzapy.container.supervision.job_records import Ownership, open_job
from samzapy.dataframe.partition_writer import (
    FrameColumns,
    PartitionWriter,
    PartitionWritten,
    Record,
    RecordMaker,
    distinct,
    key_placement,
    writer_id,
    writer_member,
)
from samzapy.dataframe.reading import (
    PURPOSE,
    Job,
    JobTasks,
    TravellingJob,
    checked_job,
    job_tasks,
    patience_s,
    worker_error,
)
from samzapy.errors import ConfigError, EnvironmentFailure, SamzapyError
from samzapy.job.planner import to_json
from samzapy.runner.spark.application import one_line
from samzapy.runner.spark.sources import spark_context
from samzapy.storage.changelog.topic import (
    changelog_of,
    changelog_spec,
    ensure_changelog,
    find_changelog,
    first_value,
    max_record_bytes,
    scan,
)
from samzapy.storage.inspection import key_value_store
from samzapy.storage.spec import store_specs
from samzapy.system.clients import SystemClients, limits_of

logger = logging.getLogger(__name__)

#: The time limit of a partition's transaction, unless its system grants less: the default of Kafka's own limit.
_LONGEST_MS = 900_000


def writable_store(config: JobConfig, name: str) -> StoreConfig:
    """The store, if it can be filled from a frame. Raises ConfigError."""
    return key_value_store(
        config, name, changelog_for="what is written goes there", engine_for="are filled from a frame"
    )


def refuse_speculation(context: SparkContext) -> None:
    """Raise ConfigError for a Spark that starts second copies of running tasks."""
    value = context.getConf().get("spark.speculation", "false")
    if value.strip().lower() != "false":
        raise ConfigError.of("spark.speculation", value, "must be {}: {}".format(*FIXED["spark.speculation"]))


@final
class ChangelogWrite:
    """Writes a store's changelog, a partition per Spark task."""

    def __init__(
        self, store: StoreConfig, tasks: Mapping[int, str], partitions: int, clients: SystemClients, patience_s: float
    ) -> None:
        """`tasks`: names by changelog partition. `patience_s`: seconds to wait for an open transaction in the
        changelog."""
        self._store = store
        self._tasks = tasks
        self._partitions = partitions
        self._patience_s = patience_s
        self._clients = clients
        self._stream = changelog_of(store)
        self._admin = clients.admin(self._stream.system)

    def check_changelog(self, *, overwrite: bool) -> None:
        """Raise EnvironmentFailure for a changelog that cannot hold the state or, without `overwrite`, holds some."""
        if find_changelog(self._admin, self._store, self._partitions) is None or overwrite:
            return
        ssps = [SystemStreamPartition(*self._stream, number) for number in range(self._partitions)]
        for ssp, log in self._admin.offsets(ssps).items():
            with closing(self._clients.consumer(ssp.system)) as consumer:
                offset = first_value(scan(consumer, ssp, log, SYSTEM_CLOCK, self._patience_s))
            if offset is not None:
                raise EnvironmentFailure(
                    f"{ssp}@{offset}: the changelog of store '{self._store.name}' is not empty; overwriting "
                    "(overwrite=True, --overwrite) replaces what it holds"
                )

    @property
    def max_record_bytes(self) -> int | None:
        """The largest record that the changelog accepts, None if unknown."""
        description = find_changelog(self._admin, self._store, self._partitions)
        if description is not None:
            return max_record_bytes(description)
        return int(changelog_spec(self._store, self._partitions).config["max.message.bytes"])

    def sorted_records(self, records: Any) -> Any:
        """An RDD of `Record`s, sorted, each in the Spark partition of its changelog partition.

        Every record has been built when this returns, so bad data is refused before anything is written. Raises
        SerdeError, StoreRefused.
        """
        placed = records.repartitionAndSortWithinPartitions(self._partitions, itemgetter(0))
        try:
            placed.mapPartitions(partial(_count, self._store.name)).sum()
        except Exception as cause:
            raise worker_error(cause) from cause
        return placed

    def write(
        self, config: JobConfig, records: Any, run_id: str, *, overwrite: bool, timed: bool = False
    ) -> list[PartitionWritten]:
        """Create the changelog if it is missing, and write every partition. `timed` as in `PartitionWriter`. Raises
        EnvironmentFailure, ProducerError."""
        ensure_changelog(self._admin, self._store, self._partitions)
        timeout_ms = min(limits_of(self._admin).transaction_ms or _LONGEST_MS, _LONGEST_MS)
        job = TravellingJob.of(config, records.ctx)
        writer = PartitionWriter(job, self._store.name, self._tasks, run_id, overwrite, timeout_ms, timed)
        try:
            written: list[PartitionWritten] = records.mapPartitionsWithIndex(writer.write).collect()
        except BaseException as cause:
            end_attempts(config, run_id, self._tasks, self._stream.system)
            if not isinstance(cause, Exception):
                raise
            raise worker_error(cause) from cause
        return sorted(written, key=lambda part: part.partition)

    def adopt(self, checkpoints: CheckpointManager, written: Sequence[PartitionWritten]) -> None:
        """Record that the written records are the job's own, although no task has written them."""
        topic = self._admin.describe(self._stream.stream)
        assert topic is not None
        ends = {part.partition: part.last_offset + 1 for part in written if part.last_offset >= 0}
        adopt_ends(checkpoints, {self._stream: (topic.stream_id, ends)})


def frame_records(
    config: JobConfig,
    store: StoreConfig,
    tasks: JobTasks,
    df: DataFrame,
    columns: FrameColumns,
    max_record_bytes: int | None,
) -> Any:
    """The rows of a frame as an RDD of `Record`s. Raises ConfigError."""
    placement = None if columns.place_by is not None else key_placement(config, store, tasks)
    job = TravellingJob.of(config, spark_context(df.sparkSession))
    maker = RecordMaker(job, store.name, columns, tasks.names, placement, max_record_bytes)
    maker.check(config, store)
    try:
        rows = df.select(*[df[_quoted(name)] for name in columns.names]).rdd
    except PySparkException as cause:  # a stream, two columns of one name
        raise ConfigError.of("df", ", ".join(df.columns), f"cannot be written: {one_line(cause)}") from cause
    return rows.mapPartitions(maker.records)


def checkpoint_updates(
    config: JobConfig, store: StoreConfig, tasks: JobTasks, starts: Positions, written: Sequence[PartitionWritten]
) -> dict[str, Checkpoint]:
    """The update of each task's checkpoint: the start of its inputs, and the last offset of its changelog."""
    last = {part.partition: {store.name: part.last_offset} for part in written if part.last_offset >= 0}
    serdes = {store.name: store_specs(config)[store.name].serde_names}
    return {
        task.name: Checkpoint(
            {ssp: starts[ssp] for ssp in task.ssps if ssp in starts},
            last.get(task.changelog_partition, {}),
            serdes=serdes,
        )
        for task in tasks.model.tasks
    }


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _count(store: str, records: Iterable[Record]) -> Iterator[int]:
    yield sum(1 for _ in distinct(store, records))


def own_for_write(
    config: JobConfig,
    clients: SystemClients,
    checkpoints: CheckpointManager,
    tasks: Mapping[int, str],
    unseen: str,
    wait: Callable[[float], object],
) -> Claim:
    """Become the job's owner, so that an `unseen` run stops. Without transactions nothing fences such a run: then
    `wait` for as many seconds as it takes to notice."""
    members = [MEMBER, *map(writer_member, tasks)]
    return take_over_by_tool(config, clients, checkpoints, members, tasks.values(), wait, unseen=bool(unseen))


def own(
    config: JobConfig,
    clients: SystemClients,
    checkpoints: CheckpointManager,
    tasks: JobTasks,
    unseen: str,
    wait: Callable[[float], object],
) -> JobRun:
    """Become the job's owner, and write the records that a start would."""
    claim = own_for_write(config, clients, checkpoints, tasks.names, unseen, wait)
    write_changelog_partitions(checkpoints, tasks.changelog_partitions)
    if checkpoints.read_record(JobRecord.INPUTS).newest != (inputs := to_json(tasks.inputs)):
        checkpoints.write_record(JobRecord.INPUTS, inputs)
    return claim.run


def end_attempts(config: JobConfig, run_id: str, tasks: Mapping[int, str], system: str) -> None:
    """End the attempts of a write that has failed, and abort their open transactions, because readers of the changelog
    would wait for them; best effort.

    Spark may start an attempt after the action has failed. So the job gets a new owner before the fences: an attempt
    that takes over its id after them sees that owner, and begins no transaction. Does nothing if another run owns the
    job by now: that run has already fenced the attempts.
    """
    try:
        with open_job(config, PURPOSE) as (clients, checkpoints):
            with closing(Ownership.of(config, run_id)) as ownership:
                ownership.poll()
            own_for_write(config, clients, checkpoints, tasks, "", Event().wait)
            fence(clients, system, [writer_id(config.job_name, number) for number in tasks])
    except SamzapyError as cause:
        logger.warning("An open transaction is left to its time-out: %s", cause)


def starting_positions(
    config: JobConfig, clients: SystemClients, tasks: JobTasks, requested: str | Mapping[str, str]
) -> Positions:
    """Offsets by partition: of every input, or of the `requested` ones (`system.stream`, `system.stream[partition]`).

    Targets are as in `samzapy checkpoint set`: oldest, newest, upcoming, default, an offset, a time. Raises
    ConfigError.
    """
    must_keep_checkpoints(config.task.checkpoint)
    logs = clients.offsets(ssp for task in tasks.model.tasks for ssp in task.ssps)
    named = {"": requested} if isinstance(requested, str) else requested
    result: Positions = {}
    for name, target in named.items():
        chosen = {ssp: logs[ssp] for ssp in chosen_inputs(logs, (name,) if name else (), "positions")}
        result.update(Target(target).offsets(config.offset_default, chosen, clients.admin))
    return result


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
    state = state_transactions(config)
    with closing(Ownership.of(config, run_id)) as ownership:
        write_checkpoints(config.job_name, clients, checkpoints, state, merged, check_owner=ownership.poll)


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

    @classmethod
    def of(cls, parts: Sequence[PartitionWritten], positions: Positions | None = None) -> StoreWritten:
        """The sum of the partitions."""
        last_offsets = {part.partition: part.last_offset for part in parts if part.last_offset >= 0}
        return cls(
            sum(part.records for part in parts), sum(part.tombstones for part in parts), last_offsets, positions or {}
        )


def write_store(
    df: DataFrame,
    job: Job,
    store: str,
    *,
    place_by: str | None = None,
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
    - One row per key and task. Of several, keep one before, for example by `max_by`.
    - A changelog with records is refused, unless `overwrite` is set, which also deletes keys that are not in the
      frame.
    - `positions`: the start of the job's inputs. A target of `samzapy checkpoint set` (oldest, upcoming, an
      offset, a time) for all inputs, or targets by `system.stream` or `system.stream[partition]`. None keeps the
      positions.

    Bad data stops it before anything is written. A job that runs is refused (as `samzapy checkpoint set` sees it;
    `take_over` makes one elsewhere let go).

    A task that is tried again aborts and fences its earlier attempt, and repeats the same records if that one had
    committed. Two attempts at a time are refused (`spark.speculation`). A write that fails leaves no part of a
    partition, but partitions that were done stay: write again with `overwrite` before the job starts. A partition's
    transaction may take as long as its system grants (Kafka: `transaction.max.timeout.ms`, 15 minutes).

    Raises ConfigError, SerdeError, StoreRefused, UnknownStream, EnvironmentFailure: one line each.
    """
    config = checked_job(job)
    target = writable_store(config, store)
    refuse_speculation(spark_context(df.sparkSession))
    columns = FrameColumns.of(df.schema, place_by)
    with open_job(config, PURPOSE) as (clients, checkpoints):
        unseen = refuse_if_running(config, read_owner(checkpoints), take_over=take_over, how="take_over=True")
        refuse_copied(checkpoints, config.stores)
        tasks = job_tasks(config, clients, checkpoints)
        partitions, stall_s = tasks.model.changelog_partition_count, patience_s(config.task.transaction_timeout_ms)
        write = ChangelogWrite(target, tasks.names, partitions, clients, stall_s)
        write.check_changelog(overwrite=overwrite)
        starts = {} if positions is None else starting_positions(config, clients, tasks, positions)
        records = write.sorted_records(frame_records(config, target, tasks, df, columns, write.max_record_bytes))
        run = own(config, clients, checkpoints, tasks, unseen, Event().wait)
        parts = write.write(config, records, run.id, overwrite=overwrite)
        write.adopt(checkpoints, parts)
        if positions is not None:
            updates = checkpoint_updates(config, target, tasks, starts, parts)
            commit_positions(config, clients, checkpoints, run.id, updates)
    return StoreWritten.of(parts, starts)
