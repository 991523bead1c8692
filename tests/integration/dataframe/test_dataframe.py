"""Stores as DataFrames and DataFrames as stores, on a real Spark and the embedded system."""

import os
import subprocess
import sys
from collections import Counter
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pyspark
import pytest
from jobs.page_view_job import page_view_job
from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException
from spark_session import spark_session

from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.config.loader import load_job
from samzapy.dataframe import read_store, write_store
from samzapy.errors import ConfigError, EnvironmentFailure, SerdeError, StoreRefused, UnknownStream
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.system.clients import system_factory

pytestmark = [pytest.mark.slow, pytest.mark.spark]
PARTITIONS = 3
HERE = Path(__file__).parent
JOB = (
    page_view_job("views", changelog="local.counts-log")
    + """
stores.counts.flush.interval.ms=0
stores.notes.factory=rocksdb
stores.notes.key.serde=string
stores.notes.msg.serde=json
stores.notes.changelog=local.notes-log
stores.scratch.factory=rocksdb
stores.scratch.key.serde=string
stores.scratch.msg.serde=json
"""
)
MONEY = """
from samzapy.api.serde import Serde, SerdeFactory


class MoneySerde(Serde):
    def to_bytes(self, value):
        return str(value).encode()

    def from_bytes(self, data):
        return f"{data.decode()} EUR"


class Money(SerdeFactory):
    def serde(self, name, settings):
        return MoneySerde()
"""
# Spark 3.5 looks for Arrow with a module that Python 3.12 no longer has.
WITH_ARROW = pyspark.__version__ >= "4" or find_spec("distutils") is not None
PAGES = [f"/{number % 40}" for number in range(400)]


@pytest.fixture(scope="module")
def spark():
    with spark_session("local[2,3]") as session:
        yield session


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with the job file and its streams."""
    monkeypatch.chdir(tmp_path)
    Path("job.properties").write_text(JOB)
    with closing(admin()) as there:
        for stream in ("views", "out"):
            there.create(StreamSpec(stream, PARTITIONS))
    return tmp_path


def admin():
    settings = load_job("job.properties").systems["local"]
    return system_factory(settings).admin(settings, "test")


def view(pages):
    settings = load_job("job.properties").systems["local"]
    with closing(system_factory(settings).producer(settings, "test")) as producer:
        producer.send([OutgoingRecord("views", page.encode(), b"{}") for page in pages])
        producer.flush()


def run():
    return LocalRunner().run(prepare(load_job("job.properties"), until_end=True), RunOptions()).status.processed


def run_elsewhere():
    """In a process of its own, which is gone afterwards."""
    command = [sys.executable, "-c", "from samzapy.cli.main import main; main()", "run", "job.properties"]
    subprocess.run([*command, "--runner", "local", "--until-end"], check=True, capture_output=True)


def counts(frame):
    return {row.key: row.value for row in frame.collect()}


def frame(spark, values, schema="key string, value bigint"):
    return spark.createDataFrame(list(values.items()), schema)


def test_a_dataframe_fills_a_store_and_the_jobs_first_start_goes_on_from_it(spark, folder):
    view(PAGES)
    history = spark.sql("SELECT concat('/', id % 40) AS key, count(*) AS value FROM range(400) GROUP BY key")
    written = write_store(history, "job.properties", "counts", positions="upcoming")
    assert (written.records, written.tombstones, sum(written.positions.values())) == (40, 0, len(PAGES))
    new = ["/0", "/1", "/new"]
    view(new)
    assert run() == len(new)
    read_store(spark, "job.properties", "counts", columns=("key", "value", "task")).createOrReplaceTempView("counts")
    rows = spark.sql("SELECT key, value, task FROM counts").collect()
    assert {row.key: row.value for row in rows} == Counter(PAGES + new)
    assert {row.task for row in rows} == {f"Partition {number}" for number in range(PARTITIONS)}


def test_a_dataframe_without_arrow_has_the_same_rows_and_types(spark, folder, monkeypatch):
    values = {"/a": '{"n":1,"tags":["x"],"at":"2013-01-01T00:00:00Z"}', "/b": '{"n":2}', "/c": "null"}
    write_store(frame(spark, values, "key string, value string"), "job.properties", "notes")
    schema = "n bigint, tags array<string>, at timestamp"

    def read():
        found = read_store(spark, "job.properties", "notes", schema=schema)
        plan = found._jdf.queryExecution().toString()
        return found.schema, sorted(found.collect(), key=lambda row: row.key), "MapInArrow" in plan

    by_arrow = read()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    one_by_one = read()
    assert by_arrow[:2] == one_by_one[:2]
    assert (by_arrow[2], one_by_one[2]) == (WITH_ARROW, False)
    assert [row.value and (row.value.n, row.value.tags) for row in by_arrow[1]] == [(1, ["x"]), (2, None), None]


def test_an_overwrite_by_a_dataframe_reaches_the_local_stores_of_a_job_that_has_run(spark, folder):
    view(PAGES)
    run_elsewhere()
    wanted = {"/0": 1_000, "/other": 5}
    with pytest.raises(
        EnvironmentFailure, match=r"local.counts-log\[\d\]@0: the changelog of store 'counts' is not empt"
    ):
        write_store(frame(spark, wanted), "job.properties", "counts")
    written = write_store(frame(spark, wanted), "job.properties", "counts", overwrite=True)
    assert (written.records, written.tombstones) == (2, 39)
    view(["/0", "/1"])
    run_elsewhere()
    expected = {"/0": 1_001, "/other": 5, "/1": 1}
    assert counts(read_store(spark, "job.properties", "counts")) == expected


def test_a_dataframe_with_bad_rows_leaves_no_changelog_behind(spark, folder):
    refused = {
        "store 'counts': key b'/a' occurs twice: keep one row per key": "VALUES ('/a', 1L), ('/a', 2L)",
        "store 'counts': value of key '/b' is null; leave such rows out": "VALUES ('/a', 1L), ('/b', NULL)",
        "store 'counts': key is null; leave such rows out": "VALUES (CAST(NULL AS STRING), 1L)",
    }
    for message, values in refused.items():
        with pytest.raises(StoreRefused) as found:
            write_store(spark.sql(f"SELECT * FROM {values} AS t(key, value)"), "job.properties", "counts")
        assert str(found.value).startswith(message)
    with pytest.raises(SerdeError, match="store 'notes': value of key '/a': a string column is read as JSON text"):
        write_store(frame(spark, {"/a": "oops"}, "key string, value string"), "job.properties", "notes")
    with closing(admin()) as there:
        assert there.list_streams() == ["out", "views"]


def test_what_a_dataframe_cannot_be_made_of_is_told_in_one_line(spark, folder):
    cases = [
        (ConfigError, "stores.count.factory: no such store; the job has: counts, notes, scratch", "count", {}),
        (ConfigError, "stores.scratch.changelog: is required to read the store", "scratch", {}),
        (UnknownStream, "topic 'counts-log' does not exist on system 'local'", "counts", {}),
        (ConfigError, "schema: the serde makes bigint; leave the schema out", "counts", {"schema": "a int"}),
        (ConfigError, "schema: expected a StructType, another DataType, or DDL", "notes", {"schema": "a wrong b"}),
        (ConfigError, "columns: expected some of partition, task, key, value", "counts", {"columns": ["offset"]}),
    ]
    for kind, message, store, options in cases:
        with pytest.raises(kind) as refused:
            read_store(spark, "job.properties", store, **options)
        assert message in str(refused.value)
        assert "\n" not in str(refused.value)
    stream = spark.readStream.format("rate").load().selectExpr("'/a' AS key", "'1' AS value")
    with pytest.raises(ConfigError, match="df: cannot be written: Queries with streaming sources must be executed"):
        write_store(stream, "job.properties", "notes")
    write_store(frame(spark, {"/a": '{"n":"x"}'}, "key string, value string"), "job.properties", "notes")
    partition = read_store(spark, "job.properties", "notes", columns=["partition"]).first().partition
    # Spark 3.5 raises py4j's error for the same text.
    with pytest.raises((PythonException, Py4JJavaError)) as failed:
        read_store(spark, "job.properties", "notes", schema="n bigint").collect()
    expected = f"SerdeError: local.notes-log[{partition}]@0: value: at .n: expected bigint, got str 'x'"
    assert any(line.endswith(expected) for line in str(failed.value).splitlines())


def test_a_dataframe_of_a_store_with_a_serde_from_beside_the_job_file(spark, folder):
    beside = folder / "configs"
    beside.mkdir()
    (beside / "money.py").write_text(MONEY)
    own = "serializers.registry.money.class=money:Money\nstores.counts.msg.serde=money\n"
    (beside / "job.properties").write_text(Path("job.properties").read_text() + own)
    write_store(frame(spark, {"/a": "1"}, "key string, value string"), "configs/job.properties", "counts")
    (row,) = read_store(spark, "configs/job.properties", "counts").collect()
    assert (row.key, row.value) == ("/a", '"1 EUR"')


@pytest.mark.parametrize("every", [False, True], ids=["once", "always"])
def test_a_worker_killed_at_its_commit_of_a_dataframe_leaves_nothing_and_is_tried_again(spark, folder, every):
    flag = folder / ("missing/flag" if every else "flag")
    with Path("job.properties").open("a") as file:
        file.write(f"systems.local.samza.factory=killed_at_commit:KilledAtCommit\nsystems.local.flag={flag}\n")
        file.write(f"systems.local.driver={os.getpid()}\njob.spark.py.files={HERE / 'killed_at_commit.py'}\n")
    wanted = {f"/{number}": number for number in range(100)}
    if every:
        with pytest.raises(EnvironmentFailure, match="Spark gave up: "):
            write_store(frame(spark, wanted), "job.properties", "counts")
        wanted = {}
    else:
        assert write_store(frame(spark, wanted), "job.properties", "counts").records == 100
        assert flag.exists()
    assert counts(read_store(spark, "job.properties", "counts")) == wanted
