"""What an executor makes of one part of a store; the functions that Spark would call, called here."""

from contextlib import closing

import pyarrow as pa
import pytest
from job_files import TASKS, JobFolder, number
from pyspark.sql import types as sql

from samzapy.api.system import change_columns
from samzapy.dataframe.reading import ChangelogPart, RequestedColumns, RowReader, TravellingJob
from samzapy.errors import EnvironmentFailure, SerdeError


def reader(job: JobFolder, *columns: str, schema=None, parts=None, directory=None, keys=None) -> RowReader:
    parts = [ChangelogPart(job.ssp(n), job.log(n)) for n in TASKS] if parts is None else parts
    wanted = RequestedColumns(columns or ("partition", "key", "value"), None, schema)
    return RowReader(TravellingJob(keys or job.keys, directory), "counts", wanted, parts, TASKS)


def rows(*arguments, **options):
    made = reader(*arguments, **options)
    return list(made.rows(range(len(made.parts))))


def test_the_last_committed_value_of_each_key_is_a_row_and_a_deleted_key_is_none(job):
    job.append(0, (b"/a", number(1)), (b"/b", number(2)), (b"/a", number(3)), (b"/b", None))
    job.append(1, (b"/a", number(4)), (b"/c", number(-5)))
    assert rows(job) == [(0, "/a", 3), (1, "/a", 4), (1, "/c", -5)]
    assert rows(job, "value", "task") == [(3, "Partition 0"), (4, "Partition 1"), (-5, "Partition 1")]


def test_what_comes_after_the_bound_and_what_was_aborted_is_not_seen(job):
    job.append(0, (b"/a", number(1)))
    with closing(job.factory.producer(job.settings, "test", "somebody")) as producer:
        producer.init_transactions()
        producer.begin()
        producer.send_columns(change_columns("counts-log", 0, [(b"/a", number(9)), (b"/z", number(9))]))
        producer.flush()
        producer.abort()
    before = reader(job)
    job.append(0, (b"/a", number(2)), (b"/b", number(2)))
    assert list(before.rows([0])) == [(0, "/a", 1)]
    assert rows(job) == [(0, "/a", 2), (0, "/b", 2)]


def test_more_records_than_fit_in_memory_come_out_of_files_that_are_gone_afterwards(job, tmp_path, monkeypatch):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    keys = [b"/%05d" % n for n in range(1_500)]
    job.append(1, *((key, number(n)) for n, key in enumerate(keys)))
    found = reader(job).rows([1])
    assert next(found) == (1, "/00000", 0)
    assert list(temporary.iterdir()) != []
    assert [row[1:] for row in found] == [(key.decode(), n) for n, key in enumerate(keys)][1:]
    assert list(temporary.iterdir()) == []


def test_a_value_that_does_not_decode_is_named_by_partition_and_offset_of_its_last_record(job):
    job.append(1, (b"/bad", number(1)), (b"/good", number(2)), (b"/bad", b"xyz"))
    with pytest.raises(SerdeError) as refused:
        rows(job)
    assert str(refused.value) == "local.counts-log[1]@2: value: long serde needs 8 bytes, got 3"
    assert rows(job, "key") == [("/bad",), ("/good",)], "what is not asked for is not decoded"
    job.append(0, (b"\xff", number(1)))
    with pytest.raises(SerdeError, match=r"^local.counts-log\[0\]@0: key: string serde: 'utf-8' codec"):
        rows(job)


def test_a_changelog_that_was_made_anew_meanwhile_is_told(job):
    job.append(0, (b"/a", number(1)), (b"/b", number(1)))
    before = reader(job)
    job.admin.delete("counts-log")
    job.create_log()
    with pytest.raises(EnvironmentFailure, match=r"local.counts-log\[0\]: ends before 0, and ended before 2 when"):
        list(before.rows([0]))


def test_by_arrow_the_same_rows_come_as_batches_of_the_frames_types(tmp_path):
    job = JobFolder(tmp_path, **{"stores.counts.msg.serde": "json"})
    job.create_log()
    job.append(0, *((b"/%05d" % n, b'{"n":%d,"when":"2013-01-01T00:00:00Z"}' % n) for n in range(10_500)))
    schema = sql.StructType([sql.StructField("n", sql.ShortType()), sql.StructField("when", sql.TimestampType())])
    made = reader(job, "key", "value", "partition", schema=schema)
    with made.job.arrived() as config:
        frame = made.requested.frame_schema(made.requested.of(config, config.stores["counts"]))
    numbers = pa.RecordBatch.from_pylist([{"id": 0}, {"id": 1}])
    batches = list(made.batches(frame, iter([numbers])))
    assert [batch.num_rows for batch in batches] == [10_000, 500]
    found = [row for batch in batches for row in batch.to_pylist()]
    assert [(r["key"], r["value"]["n"], r["partition"]) for r in found] == [(f"/{n:05}", n, 0) for n in range(10_500)]
    assert found[0]["value"]["when"].isoformat() == "2013-01-01T00:00:00+00:00"
    assert batches[0].schema.field("value").type.field("n").type == pa.int16()


def test_large_values_come_in_small_batches(tmp_path):
    job = JobFolder(tmp_path, **{"stores.counts.msg.serde": "bytes"})
    job.create_log()
    values = [bytes([n]) * 900_000 for n in range(25)]
    job.append(0, *((b"/%02d" % n, value) for n, value in enumerate(values)))
    made = reader(job, "value")
    frame = sql.StructType([sql.StructField("value", sql.BinaryType())])
    batches = list(made.batches(frame, iter([pa.RecordBatch.from_pylist([{"id": 0}])])))
    assert [batch.num_rows for batch in batches] == [10, 10, 5]
    assert [value for batch in batches for value in batch.column(0).to_pylist()] == values
