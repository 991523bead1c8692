"""`samzapy topic` on a local system."""

import json
import os

import pytest

from samzapy.admin.streams import stream_admin
from samzapy.cli.commands.topic import Systems, arrived
from samzapy.config.loader import load_job
from samzapy.devkafka.broker import BROKER_FOLDER, free_port, remember

JOB = "job.name=views\ntask.class=a:B\ntask.inputs=events.views\nsystems.events.samza.factory=local\n"


@pytest.fixture
def topic(samzapy):
    def call(*arguments, stdin=None):
        code, output, errors = samzapy("topic", *arguments, stdin=stdin)
        assert code == 0, errors
        return output

    return call


def lines(output):
    return [json.loads(line) for line in output.splitlines()]


def test_what_was_written_is_read(topic):
    topic("create", "local.a", "--partitions", "2")
    topic("write", "local.a", stdin="\ufeffk1\tone\r\nk2\ttwo\tthree\nno key\nk1\t")
    found = lines(topic("read", "local.a"))
    assert sorted((r["key"] or "", r["message"]) for r in found) == [
        ("", "no key"),
        ("k1", ""),
        ("k1", "one"),
        ("k2", "two\tthree"),
    ]
    assert [r["message"] for r in found if r["key"] == "k1"] == ["one", ""]
    assert set(found[0]) == {"partition", "offset", "timestamp", "key", "message"}


@pytest.mark.parametrize(
    ("serde", "text", "shown"),
    [
        ("string", "grün", "grün"),
        ("integer", "-7", -7),
        ("long", str(2**40), 2**40),
        ("double", "1.5", 1.5),
        ("uuid", "00112233-4455-6677-8899-aabbccddeeff", "00112233-4455-6677-8899-aabbccddeeff"),
        ("json", '{"a":[1,null]}', {"a": [1, None]}),
        ("msgpack", '{"a":[1,null]}', {"a": [1, None]}),
        ("bytes", "ab", "6162"),
    ],
)
def test_every_serde_can_be_written_and_read(topic, serde, text, shown):
    topic("create", "local.a", "--partitions", "1")
    topic("write", "local.a", "--msg-serde", serde, stdin=f"k\t{text}\n")
    (record,) = lines(topic("read", "local.a", "--msg-serde", serde))
    assert record["message"] == shown


def test_a_stream_is_described_with_offsets_and_configuration(topic):
    topic("create", "local.a", "--partitions", "1", "--topic-config", "max.message.bytes=5000")
    topic("write", "local.a", stdin="a\nb\n")
    output = topic("describe", "local.a")
    assert ["0", "0", "2", "2"] in [line.split() for line in output.splitlines()]
    assert ["max.message.bytes", "5000"] in [line.split() for line in output.splitlines()]


def test_a_job_file_says_where_its_systems_are_and_which_serdes_they_have(topic, tmp_path):
    (tmp_path / "job.properties").write_text(
        "job.name=j\ntask.class=a:B\ntask.inputs=log.in\nsystems.log.samza.factory=local\nsystems.log.path=log.db\n"
        "systems.log.samza.key.serde=integer\nstreams.in.samza.system=log\nstreams.in.samza.msg.serde=json\n"
    )
    topic("create", "log.in", "--partitions", "1", "--job", "job.properties")
    topic("write", "log.in", "--job", "job.properties", stdin='7\t{"a":1}\n')
    (record,) = lines(topic("read", "log.in", "--job", "job.properties"))
    assert (record["key"], record["message"]) == (7, {"a": 1})
    assert "log.in" in topic("list", "--job", "job.properties")


def test_a_line_does_not_wait_for_the_next_one():
    read, write = os.pipe()
    with os.fdopen(read, "rb") as source:
        lines = arrived(source)
        os.write(write, b"a\nb\nlo")
        assert next(lines) == [b"a", b"b"]
        os.write(write, b"ng\n")
        assert next(lines) == [b"long"]
        os.write(write, b"no end")
        os.close(write)
        assert list(lines) == [[b"no end"]]


def test_a_bad_line_says_its_number_and_what_was_written_before(samzapy, topic):
    topic("create", "local.a", "--partitions", "1")
    good = "".join(f"{number}\n" for number in range(1_500))
    code, _, errors = samzapy("topic", "write", "local.a", "--msg-serde", "integer", stdin=f"{good}x\n")
    assert code == 1
    assert errors.startswith("error: line 1501 (no tab, so no key): message: integer serde does not take str 'x'")
    assert errors.endswith("; the first 1000 records were written\n")
    assert len(lines(topic("read", "local.a", "--msg-serde", "integer"))) == 1_000
    errors = samzapy("topic", "read", "local.a", "--msg-serde", "long")[2]
    assert errors.startswith("error: local.a[0]@0: message (--msg-serde bytes shows any): ")


def test_a_topic_gets_the_settings_of_the_job_file_under_those_of_the_command(samzapy, tmp_path):
    job = tmp_path / "job.properties"
    job.write_text(
        f"{JOB}systems.events.default.stream.retention.ms=1d\n"
        "systems.events.default.stream.max.message.bytes=5000\nsystems.events.default.stream.samza.msg.serde=string\n"
        "streams.v.samza.system=events\nstreams.v.samza.physical.name=views\n"
        "streams.v.cleanup.policy=compact\nstreams.v.max.message.bytes=6000\nstreams.v.replication.factor=1\n"
    )
    for stream, config in (("views", ("--topic-config", "retention.ms=7")), ("others", ())):
        assert samzapy("topic", "create", f"events.{stream}", "--partitions", "2", "--job", str(job), *config)[0] == 0
    with stream_admin(load_job(job).systems["events"]) as admin:
        views, others = admin.describe("views").config, admin.describe("others").config
    keys = "cleanup.policy", "max.message.bytes", "retention.ms"
    assert [views[key] for key in keys] == ["compact", "6000", "7"]
    assert [others[key] for key in keys] == ["delete", "5000", "86400000"]
    assert not {key for key in (*views, *others) if key.startswith("samza.") or "replication" in key}


def test_the_development_broker_of_this_folder_is_found_on_its_own_port(samzapy, tmp_path):
    (tmp_path / BROKER_FOLDER).mkdir(parents=True)
    remember(tmp_path / BROKER_FOLDER, os.getpid(), 19092, "4.1.0")
    assert Systems(None, None, None).settings("kafka").consumer["bootstrap.servers"] == "127.0.0.1:19092"


def test_without_a_broker_kafka_is_an_error_that_says_how_to_start_one(samzapy, monkeypatch):
    monkeypatch.setattr("samzapy.devkafka.broker.BROKER_PORT", free_port())
    code, output, errors = samzapy("topic", "list", "kafka")
    assert (code, output) == (3, "")
    assert "no broker runs in .samzapy/kafka" in errors
    assert "start one with `samzapy kafka start`, or name another with --bootstrap or --job" in errors
