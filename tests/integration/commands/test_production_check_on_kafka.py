"""`samzapy check --production` against a broker alone, three nodes, and none."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from rigs.kafka_cluster import KafkaCluster

from samzapy.cli.main import cli
from samzapy.metrics.dashboard import rules

pytestmark = pytest.mark.kafka
TASK = """\
from samzapy import StreamTask


class Copying(StreamTask):
    def process(self, envelope, collector, coordinator):
        self.store.put(envelope.key, envelope.message)

    def init(self, context):
        self.store = context.get_store("seen")
"""


@pytest.fixture
def command(tmp_path, monkeypatch):
    """A command for a job on these servers: (exit code, output, standard error)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SAMZAPY_TOKEN", "x" * 32)
    (tmp_path / "tasks_of_production.py").write_text(TASK)
    (tmp_path / "rules.yml").write_text(rules())

    def invoke(servers, *words, topic="production-in"):
        job = {
            "job.name": topic,
            "job.logged.store.base.dir": "/var/lib/samzapy",
            "task.class": "tasks_of_production:Copying",
            "task.inputs": f"kafka.{topic}",
            "task.guarantee": "exactly-once",
            "copies.output": f"kafka.{topic}-out",
            "systems.kafka.samza.factory": "kafka",
            "systems.kafka.consumer.bootstrap.servers": servers,
            "systems.kafka.default.stream.samza.key.serde": "string",
            "systems.kafka.default.stream.samza.msg.serde": "string",
            "systems.kafka.default.stream.samza.offset.default": "oldest",
            "stores.seen.factory": "rocksdb",
            "stores.seen.key.serde": "string",
            "stores.seen.msg.serde": "string",
            "stores.seen.changelog": f"kafka.{topic}-seen",
        }
        (tmp_path / "job.properties").write_text("".join(f"{key}={value}\n" for key, value in job.items()))
        done = CliRunner().invoke(cli, list(words))
        return done.exit_code, done.stdout, done.stderr

    return invoke


CHECK = ("check", "job.properties", "--production", "--rules", "rules.yml", "--json")


def create(command, servers, topic, *settings):
    for name in (topic, f"{topic}-out"):
        words = ("topic", "create", f"kafka.{name}", "--partitions", "1", "--job", "job.properties")
        code, _, errors = command(servers, *words, *settings, topic=topic)
        assert code == 0, errors


def states(output):
    """The states of each check, and the reasons of the red ones."""
    checks = json.loads(output)["checks"]
    return {each["check"]: each["state"] for each in checks}, [each for each in checks if each["state"] == "red"]


def test_production_check_of_one_broker_is_red_with_reasons_and_exit_code_2(command, kafka, unique_topic):
    topic = unique_topic("in")
    create(command, kafka, topic, "--topic-config", "retention.ms=3600000")
    code, output, errors = command(kafka, *CHECK, topic=topic)
    assert code == 2, errors
    found, red = states(output)
    assert [each["check"] for each in red] == ["replication", "min-insync", "retention"]
    assert f"kafka.{topic}, kafka.{topic}-out: replication factor 1, expected 3" in red[0]["reason"].replace(
        "kafka.__transaction_state, ", ""
    )
    assert red[2]["reason"].startswith(f"kafka.{topic}: retention.ms=3600000: ")
    assert red[2]["see"] == "docs/how-to/operate/production.md#retention"
    assert (found["rights"], found["start"], json.loads(output)["ok"]) == ("ok", "ok", False)


def test_production_check_shows_a_table_and_takes_what_is_accepted(command, kafka, unique_topic):
    topic = unique_topic("in")
    create(command, kafka, topic)
    accepted = ("--accept", "replication", "--accept", "min-insync")
    code, output, errors = command(kafka, "check", "job.properties", "--production", *accepted, topic=topic)
    assert code == 0, errors
    assert f"Production checklist of {topic} (id 1)\n" in output
    assert "  supervisor        not known  docs/how-to/operate/production.md#supervisor " in output
    assert "  min-insync        accepted   docs/how-to/operate/production.md#min-insync " in output


def test_production_check_of_a_missing_input_is_red(command, kafka, unique_topic):
    code, output, errors = command(kafka, *CHECK, topic=unique_topic("none"))
    assert code == 2, errors
    assert states(output)[0] | {"memory": "not known", "start": "red"} == states(output)[0]


def test_production_check_of_an_unknown_check_is_refused(command, kafka):
    code, _, errors = command(kafka, "check", "job.properties", "--production", "--accept", "acls")
    assert (code, "expected one of start, replication, " in errors) == (2, True)


@pytest.mark.parametrize("words", [("--production", "--offline"), ("--accept", "page")])
def test_production_check_takes_only_its_own_options(command, words):
    code, _, errors = command("127.0.0.1:1", "check", "job.properties", *words)
    assert (code, "--production" in errors) == (2, True)


def test_production_check_without_a_cluster_ends_with_3(command):
    code, output, errors = command("127.0.0.1:1", *CHECK)
    assert (code, output) == (3, "")
    assert "cannot reach 127.0.0.1:1" in errors


@pytest.mark.slow
def test_production_check_of_three_nodes_has_no_red_line(command, tmp_path):
    with KafkaCluster(tmp_path / "kafka") as cluster:
        cluster.wait_until_whole()
        create(command, cluster.bootstrap, "three")
        run = ("run", "job.properties", "--runner", "local", "--until-end")
        elsewhere = ("--config", f"job.logged.store.base.dir={tmp_path / 'state'}")
        code, _, errors = command(cluster.bootstrap, *run, *elsewhere, topic="three")
        assert code == 0, errors
        code, output, errors = command(cluster.bootstrap, *CHECK, topic="three")
        assert code == 0, output
        found, red = states(output)
        assert red == []
        assert {check for check, state in found.items() if state == "not known"} == {"supervisor", "retention"}
