"""What a user may get wrong about TLS, passwords and rights, through the command, against a broker that insists."""

from datetime import datetime, timezone

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AclOperation, ResourceType
from secured_broker import SecuredBroker, both_sides, password

from samzapy.checkpoint import checkpoint_topic
from samzapy.cli.main import cli

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
JOB = {
    "task.class": "bad_tasks:Idle",
    "systems.kafka.samza.factory": "kafka",
    "systems.kafka.samza.key.serde": "string",
    "systems.kafka.samza.msg.serde": "string",
    "systems.kafka.samza.offset.default": "oldest",
    "task.checkpoint.system": "kafka",
    "task.checkpoint.replication.factor": "1",
    "task.commit.ms": "1000",
}


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    with SecuredBroker(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


@pytest.fixture
def topic(secured, unique_topic):
    """A topic with a record, made by somebody who may."""
    name = unique_topic()
    secured.fill([name], b"v")
    return name


@pytest.fixture
def run(tmp_path, monkeypatch, topic):
    """Runs a job over the topic with these connection properties: (exit code, lines on standard error)."""
    monkeypatch.chdir(tmp_path)

    def run_job(address, connection, **keys):
        job = {
            **JOB,
            "job.name": topic,
            "task.inputs": f"kafka.{topic}",
            "systems.kafka.consumer.bootstrap.servers": address,
            **both_sides(connection),
            **keys,
        }
        (tmp_path / "job.properties").write_text("".join(f"{key}={value}\n" for key, value in job.items()))
        done = CliRunner().invoke(cli, ["run", "job.properties", "--runner", "local", "--until-end"])
        return done.exit_code, done.stderr.splitlines()

    return run_job


def tls(ca):
    return {"security.protocol": "ssl", "ssl.ca.location": str(ca)}


def errors(lines):
    return [line for line in lines if line.startswith("error: ")]


def test_a_certificate_of_another_authority_is_refused_in_one_line(secured, run):
    code, lines = run(secured.tls, tls(secured.other_ca))
    assert code == 3, lines
    (error,) = errors(lines)
    assert error.startswith(f"error: {secured.tls}: TLS handshake failed: ")
    assert "certificate verify failed" in error


def test_an_expired_certificate_of_the_client_is_told_with_its_expiry(secured, run):
    code, lines = run(secured.mutual, secured.certificate("valid"))
    assert code == 0, lines
    expired = secured.certificate("expired", datetime(2026, 3, 1, 12, tzinfo=timezone.utc))
    code, lines = run(secured.mutual, expired)
    assert code == 3, lines
    (error,) = errors(lines)
    assert secured.mutual in error
    path = expired["ssl.certificate.location"]
    assert (
        f"the certificate of the client expired at 2026-03-01T12:00:00+00:00 (ssl.certificate.location={path})" in error
    )


def test_a_missing_file_of_authorities_is_named_with_its_key(secured, run):
    connection = {**password("alice", "alice"), "security.protocol": "sasl_ssl", "ssl.ca.location": "/no/such/ca.pem"}
    code, lines = run(secured.tls, connection)
    assert code == 2, lines
    for side in ("consumer", "producer"):
        key = f"systems.kafka.{side}.ssl.ca.location"
        assert f"error: {key}: cannot read the file /no/such/ca.pem (No such file or directory)" in lines


def test_plaintext_to_a_tls_address_is_told_as_such(secured, run):
    code, lines = run(secured.tls, {})
    assert code == 3, lines
    (error,) = errors(lines)
    reason = "it closes connections at once; is systems.kafka.consumer.security.protocol right?"
    assert error == f"error: cannot reach {secured.tls} within 10 s ({reason})"


def test_a_wrong_password_is_refused_in_one_line_that_does_not_show_it(secured, run):
    code, lines = run(secured.sasl, password("alice", "hunter2"))
    assert code == 3, lines
    (error,) = errors(lines)
    assert error.startswith(f"error: {secured.sasl}: authentication failed: ")
    assert not any("hunter2" in line for line in lines)


def test_a_topic_that_may_not_be_read_is_named(secured, run, topic):
    secured.take_from("bob", ResourceType.TOPIC, topic, AclOperation.READ)
    code, lines = run(secured.sasl, password("bob", "bob"))
    assert code == 3, lines
    (error,) = errors(lines)
    assert f"kafka.{topic}[0]: not authorised: topic (" in error
    assert error.endswith("): User:bob needs the ACL READ on this topic")


def test_a_transactional_id_that_may_not_be_used_is_named(secured, run, topic):
    identity = f"{topic}-1-0"
    secured.deny("bob", ResourceType.TRANSACTIONAL_ID, identity)
    code, lines = run(secured.sasl, password("bob", "bob"), **{"task.guarantee": "exactly-once"})
    assert code == 3, lines
    (error,) = errors(lines)
    assert "not authorised: TransactionalId" in error
    assert error.endswith("): User:bob needs the ACLs WRITE and DESCRIBE on this TransactionalId")
    assert identity in error


COPYING = {
    "task.class": "bad_tasks:Copying",
    "stores.s.factory": "rocksdb",
    "stores.s.key.serde": "string",
    "stores.s.msg.serde": "json",
    "stores.s.changelog.replication.factor": "1",
}


@pytest.mark.parametrize("guarantee", ["at-least-once", "effectively-once", "exactly-once"])
@pytest.mark.parametrize("stream", ["out", "changelog", "checkpoints"])
def test_a_topic_that_may_not_be_written_to_ends_the_run(secured, run, topic, stream, guarantee):
    changelog, out = f"{topic}-changelog", f"{topic}-out"
    secured.fill([out])
    name = {"out": out, "changelog": changelog, "checkpoints": checkpoint_topic(topic, "1")}[stream]
    secured.take_from("bob", ResourceType.TOPIC, name, AclOperation.WRITE)
    keys = {**COPYING, "stores.s.changelog": f"kafka.{changelog}", "task.guarantee": guarantee}
    code, lines = run(secured.sasl, password("bob", "bob"), **keys)
    assert code == 3, lines
    (error,) = errors(lines)
    assert f"kafka.{name}[0]: not authorised: topic (" in error
    assert error.endswith("): User:bob needs the ACL WRITE on this topic")
    assert not any("starting again" in line.lower() for line in lines), lines
