"""`samzapy store copy` on a real broker and a real Spark: with a function, killed before the switch, completed."""

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

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.spark]
#: Pages by partition of the input.
PAGES = [(0, b"/a"), (0, b"/b"), (0, b"/a"), (1, b"/c"), (1, b"/d"), (1, b"/d")]
COUNTS = {"/a": 2, "/b": 1, "/c": 1, "/d": 2}
COMMAND = [sys.executable, "-c", "from samzapy.cli.main import main; main()"]
CONVERTER = """
def without_c(key, value):
    return None if key == "/c" else (key, value)
"""


@pytest.fixture
def job(tmp_path, monkeypatch, kafka, kafka_admin, unique_topic):
    monkeypatch.chdir(tmp_path)
    names = {what: unique_topic(what) for what in ("views", "out", "log")}
    for what in ("views", "out"):
        kafka_admin.create(StreamSpec(names[what], 2))
    text = page_view_job_on_kafka(names["views"], tmp_path, kafka, **names, task__commit__ms="500")
    (tmp_path / "job.properties").write_text(text.replace("msg.serde=long", "msg.serde=msgpack"))
    (tmp_path / "converter.py").write_text(CONVERTER)
    return names | {"copy": unique_topic("copy")}


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
    code, _, errors = elsewhere("run", "job.properties", "--runner", "local", "--until-end", *arguments)
    return code, errors


def counts(*arguments):
    done = CliRunner().invoke(cli, ["store", "scan", "job.properties", "counts", *arguments])
    assert done.exit_code == 0, done.stderr
    return {row["key"]: row["value"] for row in map(json.loads, done.stdout.splitlines())}


def test_a_job_continues_on_a_copy_that_was_killed_before_the_switch(job, kafka_settings):
    write(kafka_settings, job["views"], PAGES)
    assert run_to_the_end()[0] == 0
    copy = ("store", "copy", "job.properties", "counts", "--to", f"kafka.{job['copy']}", "--set", "msg.serde=json")
    convert = ("--convert", "converter:without_c")
    copied = ("-c", f"stores.counts.changelog=kafka.{job['copy']}", "-c", "stores.counts.msg.serde=json")
    code, _, errors = elsewhere(*copy, *convert, fail="copy.5:1:kill")
    assert code == -9, errors
    write(kafka_settings, job["views"], [(0, b"/a")])
    code, errors = run_to_the_end()
    assert code == 0, errors
    assert counts() == {**COUNTS, "/a": 3}
    code, _, errors = elsewhere(*copy, *convert)
    assert code == 3
    assert "is not empty" in errors
    code, output, errors = elsewhere(*copy, *convert, "--overwrite")
    assert code == 0, errors
    assert "copied 3 entries of store 'counts'" in output
    assert f"set stores.counts.changelog=kafka.{job['copy']}" in errors
    code, errors = run_to_the_end()
    assert code == 2
    assert "the store was copied to" in errors
    assert counts(*copied) == {"/a": 3, "/b": 1, "/d": 2}
    write(kafka_settings, job["views"], [(0, b"/a"), (1, b"/e")])
    code, errors = run_to_the_end(*copied)
    assert code == 0, errors
    assert counts(*copied) == {"/a": 4, "/b": 1, "/d": 2, "/e": 1}
