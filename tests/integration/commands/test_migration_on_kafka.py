"""`samzapy store migrate` on a real broker: killed inside the transaction of a partition, refused in between,
completed."""

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner
from jobs.page_view_job import page_view_job_on_kafka

from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.cli.main import cli
from samzapy.system.kafka import KafkaSystemFactory

pytestmark = [pytest.mark.slow, pytest.mark.kafka]
#: Pages by partition of the input.
PAGES = [(0, b"/a"), (0, b"/b"), (0, b"/a"), (1, b"/c"), (1, b"/d"), (1, b"/d")]
COUNTS = {"/a": 2, "/b": 1, "/c": 1, "/d": 2}
JSON = ("-c", "stores.counts.msg.serde=json")
COMMAND = [sys.executable, "-c", "from samzapy.cli.main import main; main()"]


@pytest.fixture
def job(tmp_path, monkeypatch, kafka, kafka_admin, unique_topic):
    monkeypatch.chdir(tmp_path)
    names = {what: unique_topic(what) for what in ("views", "out", "log")}
    for what in ("views", "out"):
        kafka_admin.create(StreamSpec(names[what], 2))
    text = page_view_job_on_kafka(names["views"], tmp_path, kafka, **names, task__commit__ms="500")
    (tmp_path / "job.properties").write_text(text)
    return names


def write(kafka_settings, stream, pages):
    producer = KafkaSystemFactory().producer(kafka_settings, "test")
    producer.send([OutgoingRecord(stream, page, b"{}", partition) for partition, page in pages])
    producer.flush()
    producer.close()


def elsewhere(*arguments, fail=""):
    """A command in a process of its own: as long as a driver lives, its job is running."""
    environment = {**os.environ, "SAMZAPY_FAIL": fail}
    done = subprocess.run([*COMMAND, *arguments], env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, " ".join(done.stderr.split())


def run_to_the_end(*arguments):
    return elsewhere("run", "job.properties", "--runner", "local", "--until-end", *arguments)


def samzapy(*arguments):
    done = CliRunner().invoke(cli, list(arguments))
    return done.exit_code, done.stdout, " ".join(done.stderr.split())


def counts():
    code, output, errors = samzapy("store", "scan", "job.properties", "counts", *JSON)
    assert code == 0, errors
    return {row["key"]: row["value"] for row in map(json.loads, output.splitlines())}


def test_a_migration_that_was_killed_in_its_second_partition_goes_on_where_it_was(job, kafka_settings):
    write(kafka_settings, job["views"], PAGES)
    assert run_to_the_end()[0] == 0
    migrate = ("store", "migrate", "job.properties", "counts", *JSON)
    code, _, errors = elsewhere(*migrate, fail="migrate.6a:2:kill")
    assert code == -9, errors
    for arguments in ((), JSON):
        code, _, errors = run_to_the_end(*arguments)
        assert code == 3
        assert "its migration to msg.serde json began at" in errors
        assert "is not complete (1 of 2 partitions)" in errors
    code, output, errors = elsewhere(*migrate)
    assert code == 0, errors
    assert "done before" in output
    assert counts() == COUNTS
    write(kafka_settings, job["views"], [(0, b"/a"), (1, b"/e")])
    assert run_to_the_end(*JSON)[0] == 0
    assert counts() == {**COUNTS, "/a": 3, "/e": 1}
    code, _, errors = samzapy("check", "job.properties")
    assert code == 2
    assert "the store was written with json, this is long" in errors
