"""Rows on their way into a changelog partition; the functions that Spark would call, called here."""

from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_files import TASKS, JobFolder, number
from pyspark.sql import types as sql

from samzapy.api.checkpoint import JobRun
from samzapy.api.system import change_columns
from samzapy.checkpoint.records import write_owner
from samzapy.container.supervision.job_records import open_job
from samzapy.dataframe.partition_writer import (
    FrameColumns,
    PartitionWriter,
    PartitionWritten,
    RecordMaker,
    distinct,
    merged,
    writer_id,
)
from samzapy.dataframe.reading import TravellingJob
from samzapy.errors import JobTakenOver, StoreRefused
from samzapy.system.local import LocalSystemFactory
from samzapy.verify.workload import partition_of


def frame(**columns: sql.DataType) -> sql.StructType:
    types = {"key": sql.StringType(), "value": sql.LongType(), **columns}
    return sql.StructType([sql.StructField(name, kind) for name, kind in types.items()])


def maker(job: JobFolder, schema=None, place_by=None, limit=None) -> RecordMaker:
    columns = FrameColumns.of(schema or frame(), place_by)
    placement = (0, 1) if place_by is None else None
    return RecordMaker(TravellingJob(job.keys, None), "counts", columns, TASKS, placement, limit)


def own(job: JobFolder, run_id: str) -> None:
    with open_job(job.config, "test") as (_, checkpoints):
        checkpoints.start()
        write_owner(checkpoints, JobRun(run_id, 0, "here", 0))


def writer(job: JobFolder, run_id="us", *, overwrite=False) -> PartitionWriter:
    return PartitionWriter(TravellingJob(job.keys, None), "counts", TASKS, run_id, overwrite, 60_000)


def records(*pairs, partition=0):
    return [((partition, key), value) for key, value in sorted(pairs)]


def test_a_rows_key_and_value_are_serialized_and_placed_by_the_hash_of_the_key(job):
    rows = [("/a", 1), ("/b", -2)]
    expected = [((partition_of(key.encode(), 2), key.encode()), number(value)) for key, value in rows]
    assert list(maker(job).records(rows)) == expected


def test_a_column_places_a_row_by_the_tasks_name_or_by_the_changelogs_partition(job):
    by_task = maker(job, frame(at=sql.StringType()), place_by="at")
    assert [key[0] for key, _ in by_task.records([("/a", 1, "Partition 1"), ("/a", 1, "Partition 0")])] == [1, 0]
    by_number = maker(job, frame(at=sql.IntegerType()), place_by="at")
    assert [key[0] for key, _ in by_number.records([("/a", 1, 1)])] == [1]
    with pytest.raises(StoreRefused) as refused:
        list(by_task.records([("/a", 1, "Partition 2")]))
    assert str(refused.value) == (
        "store 'counts': key '/a': at is 'Partition 2', expected one of Partition 0, Partition 1"
    )
    with pytest.raises(StoreRefused, match="key '/a': at is None, expected one of 0, 1"):
        list(by_number.records([("/a", 1, None)]))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((None, 1), "store 'counts': key is null; leave such rows out"),
        (("/a", None), "store 'counts': value of key '/a' is null; leave such rows out"),
    ],
)
def test_a_null_is_refused(job, row, message):
    with pytest.raises(StoreRefused) as refused:
        list(maker(job).records([row]))
    assert str(refused.value) == message


def test_a_record_larger_than_the_changelog_takes_is_refused_before_anything_is_written(job):
    with pytest.raises(StoreRefused) as refused:
        list(maker(job, limit=9).records([("/a", 1)]))
    assert str(refused.value) == "store 'counts': key '/a': record of 10 B > max.message.bytes 9 of the changelog"


def test_a_key_that_occurs_twice_in_a_partition_is_refused():
    once = [((0, b"/a"), b"1"), ((0, b"/b"), b"2"), ((1, b"/b"), b"3")]
    assert list(distinct("counts", once)) == [(b"/a", b"1"), (b"/b", b"2"), (b"/b", b"3")]
    with pytest.raises(StoreRefused, match=r"store 'counts': key b'/b' occurs twice: keep one row per key \(max_by\)"):
        list(distinct("counts", [*once, once[-1]]))


entries = st.dictionaries(st.binary(max_size=2), st.binary(max_size=2))


@given(new=entries, old=st.sets(st.binary(max_size=2)))
def test_after_an_overwrite_the_log_folds_to_the_frame_and_nothing_is_deleted_in_vain(new, old):
    changes = list(merged(sorted(new.items()), sorted(old)))
    state = dict.fromkeys(old, b"old") | dict(changes)
    assert {key: value for key, value in state.items() if value is not None} == new
    assert sorted(key for key, value in changes if value is None) == sorted(old - new.keys())
    assert [key for key, _ in changes] == sorted(key for key, _ in changes)


def test_a_partition_is_written_in_one_transaction_with_the_offset_of_its_last_record(job):
    own(job, "us")
    pairs = [(b"/%05d" % n, number(n)) for n in range(12_000)]
    (written,) = writer(job).write(1, records(*pairs, partition=1))
    assert job.committed(1) == pairs
    assert written == PartitionWritten(1, 12_000, 0, job.log(1).upcoming - 2)
    assert list(writer(job).write(0, [])) == [PartitionWritten(0, 0, 0, -1)]


def test_an_attempt_that_fails_leaves_nothing_visible_and_the_next_one_does_not_wait_for_it(job):
    own(job, "us")

    def failing():
        yield from records(*((b"/%05d" % n, number(n)) for n in range(11_000)))
        raise OSError("the executor's disk is full")

    with pytest.raises(OSError, match="disk"):
        list(writer(job).write(0, failing()))
    assert job.log(0).upcoming >= 10_000, "the attempt had begun to write"
    (written,) = writer(job).write(0, records((b"/a", number(1))))
    assert job.committed(0) == [(b"/a", number(1))]
    assert written.records == 1


def test_an_attempt_that_is_repeated_after_its_commit_changes_nothing_in_what_the_log_says(job):
    own(job, "us")
    for _ in range(2):
        list(writer(job).write(0, records((b"/a", number(1)), (b"/b", number(2)))))
    assert dict(job.committed(0)) == {b"/a": number(1), b"/b": number(2)}


class MeanwhileFactory(LocalSystemFactory):
    """Before a transactional id is taken over, something happens."""

    happens = staticmethod(lambda: None)

    def producer(self, settings, client_id, transactional_id=None, timeout_ms=60_000):
        made = super().producer(settings, client_id, transactional_id, timeout_ms)
        if transactional_id is not None:
            take_over = made.init_transactions
            made.init_transactions = lambda: (self.happens(), take_over())
        return made


def test_a_run_that_registers_between_the_look_at_the_owner_and_the_take_over_wins(tmp_path, monkeypatch):
    job = JobFolder(tmp_path, **{"systems.local.samza.factory": f"{__name__}:MeanwhileFactory"})
    job.create_log()
    own(job, "us")
    monkeypatch.setattr(MeanwhileFactory, "happens", staticmethod(lambda: own(job, "a run")))
    with pytest.raises(JobTakenOver):
        list(writer(job).write(0, records((b"/a", number(1)))))
    assert job.log(0).upcoming == 0
    job.admin.close()


def test_once_a_run_of_the_job_has_started_nothing_is_written_and_the_run_is_not_fenced(job):
    own(job, "us")
    own(job, "a run")
    with closing(job.factory.producer(job.settings, "run", writer_id(job.config.job_name, 0))) as producer:
        producer.init_transactions()
        producer.begin()
        with pytest.raises(JobTakenOver):
            list(writer(job).write(0, records((b"/a", number(1)))))
        producer.send_columns(change_columns("counts-log", 0, [(b"/run", number(7))]))
        producer.commit()
    assert job.committed(0) == [(b"/run", number(7))]
