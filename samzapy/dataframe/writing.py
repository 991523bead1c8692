"""Writes a DataFrame as a store: fills its changelog by batch, so that the next start of the job restores it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event

from pyspark.sql import DataFrame

from samzapy.admin.running import refuse_if_running
from samzapy.checkpoint.offsets import Positions
from samzapy.container.supervision.job_records import open_job
from samzapy.dataframe.bootstrap import Bootstrap, refuse_speculation, writable_store
from samzapy.dataframe.job import Job, checked_job
from samzapy.dataframe.ownership import commit_positions, own, starting_positions
from samzapy.dataframe.parts import PURPOSE
from samzapy.dataframe.records import FrameColumns
from samzapy.dataframe.tasks import job_tasks


@dataclass(frozen=True)
class StoreWritten:
    """`records` with values and `tombstones` for keys that are gone, in all; `last_offsets` by changelog partition, without
    those that got nothing; `positions`: where the job will start, empty if that was not asked for."""

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

    Columns fit the serdes as those of `read_store` do; structured values come from a struct, array or map column, or from a
    string column as JSON text. Nulls are refused. In a store whose entries expire, a row counts as put now.

    - Place: by the key, as the producers of the job's inputs hash it (murmur2 over their partitions), which is right for a
      store that has the keys of the inputs. Else `place_by` names a column with the task's name (string) or the changelog's
      partition (whole number), as `read_store` gives them.
    - One record a key and task: `order_by` names a column of which each key's greatest row is taken; without it a key that
      occurs twice is refused.
    - A changelog that holds something is refused, unless `overwrite`: then keys that are not in the frame are deleted.
    - `positions`: where the job starts to read, a target of `samzapy checkpoint set` (oldest, upcoming, an offset, a
      time) for all inputs, or targets by `system.stream` or `system.stream[partition]`. None leaves its positions alone.

    Steps: refuse a job that runs (as `samzapy checkpoint set` sees it; `take_over` makes one elsewhere let go); serialize, place and
    check every row, so that bad data stops it before anything is written; become the job's owner; create the changelog
    if it is missing; write each partition in a transaction of its own, one Spark task each; write down that these records
    are the job's own; commit the positions.

    A task that is tried again aborts and fences its earlier attempt, and repeats the same records if that one had committed.
    Two attempts at a time are refused (`spark.speculation`). A write that fails leaves no part of a partition, but partitions
    that were done stay: write again with `overwrite` before the job starts. A partition's transaction may take as long
    as its system grants (Kafka: `transaction.max.timeout.ms`, 15 minutes).

    Raises ConfigError, SerdeError, StoreRefused, UnknownStream, EnvironmentFailure: one line each.
    """
    config = checked_job(job)
    found = writable_store(config, store)
    refuse_speculation(df.sparkSession)
    columns = FrameColumns.of(df.schema, place_by, order_by)
    with open_job(config, PURPOSE) as (clients, checkpoints):
        unseen = refuse_if_running(config, checkpoints.read_owner(), take_over=take_over, how="take_over=True")
        tasks = job_tasks(config, clients, checkpoints)
        bootstrap = Bootstrap(config, found, tasks, clients)
        bootstrap.check_changelog(overwrite=overwrite)
        starts = {} if positions is None else starting_positions(config, clients, tasks, positions)
        records = bootstrap.checked_records(df, columns)
        run = own(config, clients, checkpoints, tasks, unseen, Event().wait)
        parts = bootstrap.write(records, run.id, overwrite=overwrite)
        bootstrap.adopt(checkpoints, parts)
        if positions is not None:
            commit_positions(config, clients, checkpoints, run.id, bootstrap.checkpoints(starts, parts))
    last_offsets = {part.partition: part.last_offset for part in parts if part.last_offset >= 0}
    records_written, tombstones = sum(part.records for part in parts), sum(part.tombstones for part in parts)
    return StoreWritten(records_written, tombstones, last_offsets, starts)
