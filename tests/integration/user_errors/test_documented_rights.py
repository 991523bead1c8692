"""The rights of docs/how-to/operate/secure.md are enough for a job, against a broker that allows nothing else."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AclOperation, ResourcePatternType, ResourceType
from secured_broker import SecuredBroker, both_sides, password

from samzapy.api.stream import SystemStream
from samzapy.api.task import InitableTask, StreamTask
from samzapy.checkpoint import checkpoint_topic
from samzapy.cli.main import cli

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
PAGE = Path(__file__).parents[3] / "docs/how-to/operate/secure.md"
PREFIXED = ResourcePatternType.PREFIXED
NAME, ID = "rights", "a-b"
CHANGELOG, CHECKPOINTS = f"{NAME}-changelog", checkpoint_topic(NAME, ID)
#: The beginning of each line of the table, and what it stands for in this job.
TOPICS = {
    "the inputs": ["rights-in"],
    "the outputs": ["rights-out", "rights-letters"],
    "the changelogs": [CHANGELOG, CHECKPOINTS],
    "the streams of metrics": ["rights-metrics"],
}


class Copying(StreamTask, InitableTask):
    def init(self, context):
        self.store = context.get_store("s")

    def process(self, envelope, collector, coordinator):
        if envelope.message == "bad":
            raise ValueError(envelope.message)
        self.store.put(envelope.key, envelope.message)
        collector.send_message(SystemStream("kafka", "rights-out"), envelope.message, envelope.key)


def documented():
    """The lines of the table: what is named, and the operations."""
    rows = re.findall(r"^\| ([^|]+) \| ([A-Z_, ]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [(what, [AclOperation[each] for each in names.split(", ")]) for what, names in rows]


def grant(broker, user, without=None):
    for what, operations in documented():
        topics = next((names for start, names in TOPICS.items() if what.startswith(start)), [])
        for operation in operations:
            for name in topics:
                if (name, operation) != without:
                    broker.allow(user, ResourceType.TOPIC, name, operation)
            if what.startswith("the transactional ids"):
                broker.allow(user, ResourceType.TRANSACTIONAL_ID, f"{NAME}-a~b-", operation, PREFIXED)
            elif what.startswith("the consumer groups"):
                broker.allow(user, ResourceType.GROUP, f"{NAME}-a~b-", operation, PREFIXED)
            elif what.startswith("the consumer group"):
                broker.allow(user, ResourceType.GROUP, f"{NAME}-a~b", operation)


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    with SecuredBroker(tmp_path_factory.mktemp("closed"), closed=True) as broker:
        broker.fill(["rights-in", "rights-out", "rights-letters"], b"one", b"bad", b"two")
        yield broker


@pytest.fixture
def command(tmp_path, monkeypatch, closed):
    """A command for the job as this user: (exit code, output)."""
    monkeypatch.chdir(tmp_path)

    def invoke(user, *words):
        job = {
            "job.name": NAME,
            "job.id": ID,
            "task.class": "test_documented_rights:Copying",
            "task.inputs": "kafka.rights-in",
            "task.guarantee": "exactly-once",
            "task.checkpoint.system": "kafka",
            "task.checkpoint.replication.factor": "1",
            "task.error.process.policy": "dead-letter",
            "task.dead.letter.stream": "kafka.rights-letters",
            "stores.s.factory": "rocksdb",
            "stores.s.changelog": f"kafka.{CHANGELOG}",
            "stores.s.changelog.replication.factor": "1",
            "stores.s.key.serde": "string",
            "stores.s.msg.serde": "string",
            "metrics.reporters": "told",
            "metrics.reporter.told.class": "snapshot",
            "metrics.reporter.told.stream": "kafka.rights-metrics",
            "systems.kafka.samza.factory": "kafka",
            "systems.kafka.samza.key.serde": "string",
            "systems.kafka.samza.msg.serde": "string",
            "systems.kafka.samza.offset.default": "oldest",
            **both_sides({"bootstrap.servers": closed.sasl, **password(user, user)}),
        }
        (tmp_path / "job.properties").write_text("".join(f"{key}={value}\n" for key, value in job.items()))
        done = CliRunner().invoke(cli, [*words, "job.properties"])
        return done.exit_code, done.output

    return invoke


def test_the_documented_rights_are_enough_to_check_start_and_restart_a_job(closed, command):
    grant(closed, "alice")
    for words in (("check",), ("run", "--runner", "local", "--until-end"), ("check",)) * 2:
        code, output = command("alice", *words)
        assert code == 0, output
        assert "not authorised" not in output.lower()
        assert "not copied" not in output


def test_a_changelog_with_hidden_settings_is_refused_by_the_missing_right(closed, command):
    grant(closed, "bob", without=(CHANGELOG, AclOperation.DESCRIBE_CONFIGS))
    code, output = command("bob", "run", "--runner", "local", "--until-end")
    assert code == 3, output
    assert f"{CHANGELOG}: not authorised: topic" in output
    assert "User:bob needs the ACL DESCRIBE_CONFIGS on this topic" in output


def test_production_check_names_a_right_that_the_user_lacks(closed, command):
    grant(closed, "bob", without=("rights-letters", AclOperation.WRITE))
    closed.deny("bob", ResourceType.TOPIC, "rights-letters", AclOperation.WRITE)
    code, output = command("bob", "check", "--production")
    assert code == 2, output
    (line,) = [line.split() for line in output.splitlines() if line.startswith("  rights ") and " red " in line]
    assert " ".join(line[3:]) == "kafka.rights-letters: the user lacks WRITE"
    assert "the rights on transactional ids and groups that begin with rights-a~b-\n" in output
