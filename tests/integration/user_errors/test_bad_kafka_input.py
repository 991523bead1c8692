"""What a user may get wrong about Kafka, through the command."""

import pytest
from click.testing import CliRunner

from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.checkpoint import checkpoint_topic
from samzapy.cli.main import cli
from samzapy.devkafka import DevBroker
from samzapy.system.kafka import KafkaSystemFactory

UNREACHABLE = "127.0.0.1:1"
JOB = {
    "job.name": "bad",
    "task.class": "bad_tasks:Idle",
    "task.inputs": "kafka.no-such-input",
    "systems.kafka.samza.factory": "kafka",
    "systems.kafka.consumer.bootstrap.servers": UNREACHABLE,
    "systems.kafka.samza.key.serde": "string",
    "systems.kafka.samza.msg.serde": "string",
}
COMMANDS = {"check": ["check", "job.properties"], "run": ["run", "job.properties", "--runner", "local", "--until-end"]}
both_commands = pytest.mark.parametrize("command", COMMANDS)


def call(*arguments, stdin=None):
    """(exit code, standard error's lines, output) of a command line."""
    done = CliRunner().invoke(cli, list(arguments), input=stdin)
    return done.exit_code, done.stderr.splitlines(), done.stdout


@pytest.fixture
def job(tmp_path, monkeypatch):
    """Writes the job with these changes and calls a command."""
    monkeypatch.chdir(tmp_path)

    def call_job(command, changes):
        text = "".join(f"{key}={value}\n" for key, value in {**JOB, **changes}.items())
        (tmp_path / "job.properties").write_text(text)
        return call(*COMMANDS[command])

    return call_job


@pytest.mark.slow
def test_a_broker_that_does_not_answer_is_named(job):
    code, lines, _ = job("run", {})
    assert code == 3, lines
    assert any(line.startswith("error: ") and f"cannot reach {UNREACHABLE} within 10 s" in line for line in lines), (
        lines
    )


TRANSACTIONS = {"task.guarantee": "exactly-once", "task.commit.ms": "1000", "task.checkpoint.replication.factor": "1"}


@pytest.fixture
def strict_broker(tmp_path_factory):
    """A broker that grants transactions of ten seconds at most."""
    broker = DevBroker(tmp_path_factory.mktemp("strict"), tied=True, properties={"transaction.max.timeout.ms": "10000"})
    try:
        yield broker.start()
    finally:
        broker.stop()


@pytest.mark.kafka
@pytest.mark.slow
def test_a_transaction_time_out_beyond_the_brokers_limit_names_both(job, strict_broker):
    assert call("topic", "create", "kafka.limited", "--partitions", "1", "--bootstrap", strict_broker)[0] == 0
    changes = {
        **TRANSACTIONS,
        "systems.kafka.consumer.bootstrap.servers": strict_broker,
        "task.inputs": "kafka.limited",
        "systems.kafka.samza.offset.default": "oldest",
    }
    code, lines, _ = job("run", {**changes, "task.transaction.timeout.ms": "20000"})
    assert code == 2, lines
    assert lines[-1] == (
        "error: task.transaction.timeout.ms: must be at most 10000, "
        "the transaction.max.timeout.ms of system 'kafka', got '20000'"
    )
    assert job("run", {**changes, "task.transaction.timeout.ms": "10000"})[0] == 0


@pytest.mark.kafka
def test_check_neither_awaits_nor_ends_a_transaction_left_open_by_a_crash(
    job, kafka, kafka_settings, kafka_admin, unique_topic
):
    topic, changelog = unique_topic(), unique_topic("changelog")
    kafka_admin.create(StreamSpec(topic, 1))
    kafka_admin.create(StreamSpec(changelog, 1, {"cleanup.policy": "compact"}))
    checkpoints = checkpoint_topic("bad", "1")
    kafka_admin.create(StreamSpec(checkpoints, 1, {"cleanup.policy": "compact"}))
    crashed = KafkaSystemFactory().producer(kafka_settings, "test", "bad-1-Partition 0")
    crashed.init_transactions()
    crashed.begin()
    for stream in (topic, changelog, checkpoints):
        crashed.send([OutgoingRecord(stream, b"k", b"v", 0)])
    crashed.flush()
    changes = {
        **TRANSACTIONS,
        "systems.kafka.consumer.bootstrap.servers": kafka,
        "task.inputs": f"kafka.{topic}",
        "stores.s.factory": "inmemory",
        "stores.s.key.serde": "string",
        "stores.s.msg.serde": "string",
        "stores.s.changelog": f"kafka.{changelog}",
    }
    code, lines, output = job("check", changes)
    assert code == 0, lines
    assert "Partition 0" in output
    # It was not fenced: it can still commit.
    crashed.commit()
    crashed.close()
    kafka_admin.delete(checkpoints)


@pytest.mark.kafka
@both_commands
def test_more_copies_than_brokers_are_refused_before_any_topic_is_made(job, command, kafka, kafka_admin):
    kafka_admin.create(StreamSpec("copies-in", 1))
    before = kafka_admin.list_streams()
    changes = {
        "job.name": "copies",
        "systems.kafka.consumer.bootstrap.servers": kafka,
        "task.inputs": "kafka.copies-in",
        "task.checkpoint.replication.factor": "3",
        "stores.s.factory": "inmemory",
        "stores.s.key.serde": "string",
        "stores.s.msg.serde": "string",
        "stores.s.changelog": "kafka.copies-s",
        "stores.s.changelog.replication.factor": "2",
    }
    code, lines, _ = job(command, changes)
    limit = "must be at most 1, the number of brokers of system 'kafka', got"
    assert (code, lines) == (
        2,
        [
            f"error: stores.s.changelog.replication.factor: {limit} '2'",
            f"error: task.checkpoint.replication.factor: {limit} '3'",
        ],
    )
    assert kafka_admin.list_streams() == before
    assert kafka_admin.describe(checkpoint_topic("copies", "1")) is None
