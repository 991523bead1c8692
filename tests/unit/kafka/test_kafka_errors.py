import re

import pytest
from confluent_kafka import KafkaError

from samzapy.errors import (
    HandshakeFailed,
    ProducerError,
    ProducerFenced,
    RecordTooLarge,
    RetriableError,
    TransactionAborted,
    TransactionIndeterminate,
    TransactionsRefused,
    UnknownStream,
)
from samzapy.runner.spark.worker import PERMANENT
from samzapy.system.kafka.client import Connection
from samzapy.system.kafka.errors import delivery_error, general_error, transaction_error


def test_a_fatal_error_of_a_transaction_means_fenced():
    found = transaction_error(KafkaError(KafkaError._FENCED, "newer instance", True), "commit")
    assert type(found) is ProducerFenced
    assert type(transaction_error(KafkaError(KafkaError._FAIL, "x", True), "commit")) is ProducerFenced


def test_an_abortable_error_of_a_transaction_means_aborted():
    error = KafkaError(KafkaError._INCONSISTENT, "x", False, False, True)
    assert type(transaction_error(error, "commit")) is TransactionAborted


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError.UNKNOWN])
def test_any_other_error_of_a_transaction_means_nobody_knows(code):
    assert type(transaction_error(KafkaError(code, "x", False, True), "commit")) is TransactionIndeterminate


def test_a_call_in_the_wrong_state_is_a_producer_error():
    assert type(transaction_error(KafkaError(KafkaError._STATE), "commit")) is ProducerError


def test_a_right_that_is_missing_is_named():
    error = KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    found = transaction_error(error, "init_transactions of the producer 'x'")
    assert type(found) is TransactionsRefused
    assert "not authorised: TransactionalId" in str(found)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "topic"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "group"),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, "cluster"),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "TransactionalId"),
    ],
)
@pytest.mark.parametrize("fatal", [False, True])
def test_a_missing_right_ends_the_run_wherever_it_is_found(code, kind, fatal):
    error = KafkaError(code, "refused", fatal)
    for found in (
        general_error(error, "kafka", "kafka.t[0]", "WRITE", "User:bob"),
        delivery_error(error, "kafka", "kafka.t[0]", 5, who="User:bob"),
        transaction_error(error, "kafka.t[0]", "User:bob"),
    ):
        assert isinstance(found, PERMANENT)
        assert found.exit_code == 3
        assert f"kafka.t[0]: not authorised: {kind} (" in str(found)
        assert re.search(rf": User:bob needs the ACLs? WRITE( and DESCRIBE)? on this {kind}$", str(found))


def test_a_time_out_the_broker_does_not_allow_names_its_limit():
    found = transaction_error(KafkaError(KafkaError.INVALID_TRANSACTION_TIMEOUT), "init_transactions")
    assert "transaction.max.timeout.ms" in str(found)
    assert found.exit_code == 3


@pytest.mark.parametrize("code", [KafkaError._SSL, KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED])
def test_a_refused_handshake_or_login_ends_the_run_at_once(code):
    for found in (
        general_error(KafkaError(code, "x"), "kafka", "h:1"),
        transaction_error(KafkaError(code, "x"), "h:1"),
    ):
        assert type(found) is HandshakeFailed
        assert isinstance(found, PERMANENT)
        assert (found.exit_code, found.outage) == (3, False)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (KafkaError._AUTHENTICATION, "SASL authentication error: SaslAuthenticateRequest failed: Local: Timed out"),
        (
            KafkaError._AUTHENTICATION,
            "SASL PLAIN mechanism handshake failed: Local: Broker transport failure: broker's",
        ),
        (KafkaError._SSL, "SSL handshake failed: error:0A000126:SSL routines::unexpected eof while reading"),
        (KafkaError._TRANSPORT, "SSL handshake failed: Disconnected: connecting to a PLAINTEXT broker listener?"),
    ],
)
def test_a_broker_that_goes_away_during_a_login_is_an_outage(code, text):
    errors = Connection("kafka", "h:1")
    errors.note(KafkaError(code, text))
    errors.check()
    found = general_error(KafkaError(code, text), "kafka", "h:1")
    assert (type(found), found.outage) == (RetriableError, True)
    assert transaction_error(KafkaError(code, text), "commit").outage


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._DESTROY_BROKER,
        KafkaError._UNKNOWN_BROKER,
        KafkaError._NODE_UPDATE,
    ],
)
def test_a_lost_connection_may_be_retried_and_is_an_outage(code):
    found = general_error(KafkaError(code, "x"), "kafka", "h:1")
    assert (type(found), found.outage) == (RetriableError, True)


def test_an_unknown_topic_is_named_without_its_partition():
    found = general_error(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), "kafka", "kafka.a.b[3]")
    assert isinstance(found, UnknownStream)
    assert found.stream == "a.b"


def test_a_record_the_broker_finds_too_large_is_told_with_its_size():
    found = delivery_error(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), "kafka", "kafka.t[0]", 2_000_113, 1_000_000)
    assert type(found) is RecordTooLarge
    assert str(found).startswith("kafka.t[0]: record of 2,000,113 B > max.message.bytes 1,000,000 of the stream or ")


def test_messages_are_one_line():
    assert "\n" not in str(general_error(KafkaError(KafkaError._FAIL, "a\nb"), "kafka", "h:1"))
