"""Who a client says it is, and what its errors say when its certificate has expired."""

import logging
from datetime import datetime, timezone

import pytest
import trustme
from confluent_kafka import KafkaError

from samzapy.errors import EnvironmentFailure
from samzapy.system.kafka.client import ClientErrors
from samzapy.system.kafka.settings import expired_certificate, principal

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


@pytest.mark.parametrize("code", [KafkaError._SSL, KafkaError._TRANSPORT])
def test_a_failed_handshake_with_an_expired_certificate_says_so(certificate, code):
    client_errors = ClientErrors("kafka", "here:9092", properties=certificate)
    client_errors.note(KafkaError(code, "SSL handshake failed: alert certificate unknown"))
    with pytest.raises(
        EnvironmentFailure, match=r"^here:9092: TLS handshake failed: the certificate of the client expired at 2026-03"
    ):
        client_errors.check_first_contact()


def test_a_cluster_out_of_reach_with_an_expired_certificate_says_so(certificate):
    assert "10 s: the certificate of the client expired at 2026-03-01" in str(
        ClientErrors("kafka", "here:9092", properties=certificate).unreachable(10)
    )


def test_a_partition_that_a_transaction_may_not_write_to_is_kept():
    client_errors = ClientErrors("kafka", "here:9092")
    for topic, reason in (("other", "Broker: Operation not attempted"), ("a.b", "Broker: Topic authorization failed")):
        line = f'[thrd:main]: TxnCoordinator/1: Failed to add partition "{topic}" [3] to transaction: {reason}'
        client_errors.log(logging.WARNING, "%s [%s] %s", "ADDPARTS", "p", line)
    assert client_errors.refused_partition == "a.b[3]"
