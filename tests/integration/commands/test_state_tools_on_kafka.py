"""`samzapy store` and `samzapy checkpoint` over a real broker: an expiring store, transactions, positions by time."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner
from jobs.page_view_job import page_view_job_on_kafka

from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.cli.main import cli
from samzapy.system.kafka import KafkaSystemFactory

pytestmark = [pytest.mark.slow, pytest.mark.kafka]
PAGES = [b"/a", b"/b", b"/a", b"/c"]
LATER = 1_000


@pytest.fixture
def samzapy(tmp_path, monkeypatch, kafka, kafka_admin, unique_topic):
    monkeypatch.chdir(tmp_path)
    names = {what: unique_topic(what) for what in ("views", "out", "log")}
    for what in ("views", "out"):
        # The messages are years old: the broker would delete them.
        kafka_admin.create(StreamSpec(names[what], 1, {"retention.ms": "-1"}))
    keys = {"task__commit__ms": "500", "stores__counts__rocksdb__ttl__ms": "86400000"}
    text = page_view_job_on_kafka(names["views"], tmp_path, kafka, **names, **keys)
    (tmp_path / "job.properties").write_text(text)

    def call(*arguments):
        done = CliRunner().invoke(cli, list(arguments))
        assert done.exit_code == 0, done.stderr
        return done.stdout

    call.names = names
    return call


def counts(samzapy):
    rows = map(json.loads, samzapy("store", "scan", "job.properties", "counts").splitlines())
    return {row["key"]: row["value"] for row in rows}


def committed(samzapy):
    (row,) = map(json.loads, samzapy("checkpoint", "show", "job.properties", "--json").splitlines())
    ((_, place),) = row["inputs"].items()
    return place["committed"], place["upcoming"]


def test_state_is_read_and_positions_are_moved_on_a_real_broker(samzapy, kafka_settings, kafka_admin):
    names, factory = samzapy.names, KafkaSystemFactory()
    producer = factory.producer(kafka_settings, "test")
    base = 1_700_000_000_000
    producer.send([OutgoingRecord(names["views"], page, b"{}", 0, timestamp=base) for page in PAGES])
    producer.send([OutgoingRecord(names["views"], b"/late", b"{}", 0, timestamp=base + LATER)])
    producer.flush()
    producer.close()
    # In a process of its own: as long as the driver lives, no position is moved.
    command = [sys.executable, "-c", "from samzapy.cli.main import main; main()", "run", "job.properties"]
    subprocess.run([*command, "--runner", "local", "--until-end"], check=True)
    expected = {"/a": 2, "/b": 1, "/c": 1, "/late": 1}
    assert counts(samzapy) == expected
    topic = kafka_admin.describe(names["log"]).config
    assert (topic["cleanup.policy"], topic["retention.ms"]) == ("delete", "86400000")
    # What was aborted, and what has expired, is not shown; nor is it restored below.
    other = factory.producer(kafka_settings, "test", "another-writer")
    other.init_transactions()
    other.begin()
    other.send([OutgoingRecord(names["log"], b"/aborted", bytes(8), 0)])
    other.flush()
    other.abort()
    other.begin()
    other.send([OutgoingRecord(names["log"], b"/expired", bytes(8), 0, timestamp=base)])
    other.commit()
    other.close()
    assert counts(samzapy) == expected
    place, end = committed(samzapy)
    assert len(PAGES) + 1 <= place <= end
    samzapy("checkpoint", "set", "job.properties", f"@{base + 1}")
    assert committed(samzapy)[0] == len(PAGES)
    # The changelog has a second writer now: the job asks for its records to be adopted.
    samzapy("store", "adopt", "job.properties", "counts")
    samzapy("run", "job.properties", "--runner", "local", "--until-end")
    assert counts(samzapy) == {**expected, "/late": 2}
