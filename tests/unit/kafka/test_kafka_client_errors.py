"""Which errors and log lines of librdkafka a client keeps, and how it reports them."""

import logging
from datetime import datetime, timezone
from types import SimpleNamespace

import pytest
import trustme
from confluent_kafka import KafkaError, KafkaException

from samzapy.api.system import SystemSettings
from samzapy.errors import EnvironmentFailure
from samzapy.system.kafka import fetching
from samzapy.system.kafka.client import LOGGER, Connection
from samzapy.system.kafka.fetching import open_consumer
from samzapy.system.kafka.settings import consumer_properties, expired_certificate, principal
from samzapy.testing import ManualClock

FORM = "%s [%s] %s"


@pytest.mark.parametrize("facility", ["FAIL", "REQTMOUT"])
def test_a_lost_connection_and_a_late_answer_are_disturbances(facility):
    connection = Connection("kafka", "here:9092")
    connection.log(logging.INFO, FORM, "CONNECT", "p", "Connected")
    assert not connection.disturbed
    connection.log(logging.INFO, FORM, facility, "p", "Disconnected (after 714ms in state UP)")
    assert connection.disturbed


@pytest.mark.parametrize("state", ["CONNECT", "SSL_HANDSHAKE", "AUTH_REQ", "APIVERSION_QUERY"])
def test_a_connection_that_was_never_up_is_no_disturbance(state):
    connection = Connection("kafka", "here:9092")
    reason = f"Connect to here:9092 failed: Connection refused (after 2ms in state {state}"
    connection.log(logging.ERROR, FORM, "FAIL", "p", f"{reason})")
    connection.log(logging.ERROR, FORM, "FAIL", "p", f"{reason}, 1 identical error(s) suppressed)")
    connection.note(KafkaError(KafkaError._TRANSPORT, f"{reason})"))
    assert not connection.disturbed


def test_an_error_beside_the_calls_is_a_disturbance():
    connection = Connection("kafka", "here:9092")
    connection.note(KafkaError(KafkaError._TRANSPORT))
    assert connection.disturbed


def test_a_server_that_closes_every_connection_at_once_points_to_the_protocol():
    connection = Connection("kafka", "here:9092")
    connection.log(
        logging.INFO, FORM, "FAIL", "p", "Disconnected: closed by peer (after 0ms in state APIVERSION_QUERY)"
    )
    reason = r"cannot reach here:9092 within 10 s \(.*systems\.kafka\.consumer\.security\.protocol right\?\)"
    assert isinstance(connection.unreachable(10), EnvironmentFailure)
    with pytest.raises(EnvironmentFailure, match=reason):
        raise connection.unreachable(10)


def test_lines_go_on_to_the_clients_logger_those_of_an_outage_for_debugging(caplog):
    caplog.set_level(logging.INFO, LOGGER.name)
    connection = Connection("kafka", "here:9092")
    connection.log(logging.ERROR, FORM, "FAIL", "p", "Connect to here:9092 failed")
    connection.log(logging.WARNING, FORM, "GETPID", "p", "other")
    assert caplog.messages == ["GETPID [p] other"]
    assert connection.disturbed


class StartingBroker:
    """A client of librdkafka whose broker knows no broker for the first `silent` calls."""

    def __init__(self, clock, silent):
        self._clock, self._silent = clock, silent

    def list_topics(self, topic, timeout):
        self._silent -= 1
        return SimpleNamespace(brokers={} if self._silent >= 0 else {1: "here:9092"})

    def poll(self, timeout):
        self._clock.advance(timeout)


def test_an_answer_without_brokers_is_none_and_is_asked_for_again():
    clock = ManualClock()
    connection = Connection("kafka", "here:9092", clock=clock)
    assert connection.reach(StartingBroker(clock, 3)).brokers
    with pytest.raises(EnvironmentFailure, match="cannot reach here:9092 within 10 s"):
        connection.reach(StartingBroker(clock, 1_000_000))


class BusyBroker:
    """A client of librdkafka whose broker takes `answer_s` for each answer; one that comes too late is lost."""

    def __init__(self, clock, answer_s):
        self._clock, self._answer_s = clock, answer_s

    def list_topics(self, topic, timeout):
        self._clock.advance(min(timeout, self._answer_s))
        if timeout < self._answer_s:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return SimpleNamespace(brokers={1: "here:9092"})

    def poll(self, timeout):
        self._clock.advance(timeout)


@pytest.mark.parametrize("answer_s", [0.5, 1.5, 3.5])
def test_a_busy_broker_is_given_time_for_its_answer(answer_s):
    clock = ManualClock()
    connection = Connection("kafka", "here:9092", clock=clock)
    assert connection.reach(BusyBroker(clock, answer_s)).brokers
    assert clock.monotonic() < 10


def test_a_broker_that_is_too_slow_is_given_up_in_time():
    clock = ManualClock()
    connection = Connection("kafka", "here:9092", clock=clock)
    with pytest.raises(EnvironmentFailure, match="cannot reach here:9092 within 10 s"):
        connection.reach(BusyBroker(clock, 60))
    assert 10 <= clock.monotonic() < 11


EXPIRY = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
EXPIRY_MS = int(EXPIRY.timestamp() * 1000)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    path = tmp_path_factory.mktemp("certificate") / "client.pem"
    issued = trustme.CA().issue_cert(
        "bob.example", common_name="bob", organization_name="shop", organization_unit_name="jobs", not_after=EXPIRY
    )
    issued.private_key_and_cert_chain_pem.write_to_path(path)
    return {"security.protocol": "SSL", "ssl.certificate.location": str(path)}


def test_a_certificate_names_its_subject(certificate):
    assert principal(certificate) == "User:CN=bob,OU=jobs,O=shop"


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        ({"security.protocol": "sasl_plaintext", "sasl.username": "bob"}, "User:bob"),
        ({"security.protocol": "SASL_SSL", "sasl.kerberos.principal": "bob/h@R"}, "User:bob/h@R"),
        ({"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER"}, "this client"),
        ({"security.protocol": "ssl"}, "this client"),
        ({"security.protocol": "ssl", "ssl.certificate.location": "/no/such/file"}, "this client"),
        ({"security.protocol": "ssl", "ssl.certificate.location": __file__}, "this client"),
        ({"sasl.username": "unused"}, "this client"),
        ({}, "this client"),
    ],
)
def test_the_principal_follows_from_the_properties(properties, name):
    assert principal(properties) == name
    assert expired_certificate(properties, EXPIRY_MS) == ""


def test_a_certificate_is_expired_from_its_last_second_on(certificate):
    path = certificate["ssl.certificate.location"]
    told = f"the certificate of the client expired at 2026-03-01T12:00:00+00:00 (ssl.certificate.location={path})"
    assert expired_certificate(certificate, EXPIRY_MS - 1) == ""
    assert expired_certificate(certificate, EXPIRY_MS) == told


def test_a_failed_handshake_with_an_expired_certificate_says_so(certificate):
    connection = Connection("kafka", "here:9092", properties=certificate)
    connection.note(KafkaError(KafkaError._SSL, "SSL handshake failed: alert certificate unknown"))
    with pytest.raises(
        EnvironmentFailure, match=r"^here:9092: TLS handshake failed: the certificate of the client expired at 2026-03"
    ):
        connection.check()


def test_a_cluster_out_of_reach_with_an_expired_certificate_says_so(certificate):
    assert "10 s: the certificate of the client expired at 2026-03-01" in str(
        Connection("kafka", "here:9092", properties=certificate).unreachable(10)
    )


def test_a_partition_that_a_transaction_may_not_write_to_is_kept():
    connection = Connection("kafka", "here:9092")
    for topic, reason in (("other", "Broker: Operation not attempted"), ("a.b", "Broker: Topic authorization failed")):
        line = f'[thrd:main]: TxnCoordinator/1: Failed to add partition "{topic}" [3] to transaction: {reason}'
        connection.log(logging.WARNING, "%s [%s] %s", "ADDPARTS", "p", line)
    assert connection.refused_partition == "a.b[3]"


@pytest.mark.parametrize("compiled", [True, False])
def test_a_cluster_that_is_not_reached_is_noted_by_both_ways_to_fetch(compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr(fetching, "extension", None)
    settings = SystemSettings("kafka", "kafka", consumer={"bootstrap.servers": "127.0.0.1:1"})
    connection = Connection("kafka", "127.0.0.1:1", consumer_properties(settings, "c"))
    client, fetch = open_consumer(connection, headers=True)
    for _ in range(100):
        client.poll(0.1)
        if connection.last:
            break
    assert "127.0.0.1:1" in connection.last
    assert not connection.disturbed
    fetch.close()
    client.close()
