"""One suite over the serdes with a schema registry: the client's own mock registry, and one over HTTP."""

from __future__ import annotations

import contextlib
import json
import pickle
import re
from itertools import count
from typing import Any, NamedTuple

import pytest
import trustme
from confluent_kafka.schema_registry import SchemaRegistryClient
from hypothesis import given
from hypothesis import strategies as st
from jobs import schema_job as jobs
from rigs.schema_registry import schema_registry, tls_of

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import RecordBatch
from samzapy.container.inputs.decode import Decoder
from samzapy.errors import EnvironmentFailure, HandshakeFailed, SerdeError, Unreachable
from samzapy.serializers import serde_registry
from samzapy.serializers.schemas import framed

NUMBERS = count()


class Case(NamedTuple):
    """A serde, the schema in the job file, and a class with an object of it."""

    name: str
    schema: Any
    kind: Any
    value: Any


CASES = [
    Case("avro", jobs.AVRO, jobs.Order, jobs.Order("ann", 3)),
    Case("json-schema", jobs.JSON, jobs.Order, jobs.Order("ann", 3)),
    Case("protobuf", None, jobs.OrderMessage, jobs.OrderMessage(user="ann", amount=3)),
]
PLAIN = {"user": "ann", "amount": 3}


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request):
    return request.param


@pytest.fixture
def server():
    with schema_registry() as found:
        yield found


@pytest.fixture(autouse=True)
def _hasty(monkeypatch):
    monkeypatch.setattr(framed, "RETRIES", 0)


@pytest.fixture(params=["mock", "http"])
def url(request):
    if request.param == "mock":
        yield f"mock://contract-{next(NUMBERS)}"
        return
    with schema_registry() as found:
        yield found.url


def serde(case, url, **more):
    keys = jobs.registry_keys(case.name, url, case.schema, **more)
    return serde_registry(keys)[case.name]


def writing(case, url, **more):
    """A serde of the case's class that registers its schema."""
    return serde(case, url, auto_register="true", **more).of_type(case.kind).at("orders", "value")


def test_what_was_written_is_read_back(case, url):
    made = writing(case, url)
    data = made.to_bytes(case.value)
    assert type(data) is bytes
    assert data[:5] == b"\0\0\0\0\1"
    assert made.from_bytes(data) == case.value
    assert type(made.from_bytes(data)) is case.kind
    assert made.object_type is case.kind


def test_a_null_is_refused(case, url):
    made = writing(case, url)
    made.to_bytes(case.value)
    with pytest.raises((AttributeError, SerdeError, TypeError, ValueError)):
        made.from_bytes(None)


@pytest.mark.parametrize("case", CASES[:2], ids=["avro", "json-schema"])
def test_a_reader_without_a_class_gets_dicts(case, url):
    data = writing(case, url).to_bytes(case.value)
    assert serde(case._replace(schema=None), url).from_bytes(data) == PLAIN


@pytest.mark.parametrize("case", CASES[:2], ids=["avro", "json-schema"])
def test_dicts_are_written_by_the_latest_schema(case, url):
    data = writing(case, url).to_bytes(case.value)
    plain = serde(case._replace(schema=None), url, use_latest_version="true").at("orders", "value")
    assert plain.to_bytes(PLAIN) == data


def test_any_text_and_number_comes_back(case, url):
    made = writing(case, url)

    @given(st.text(), st.integers(-(2**63), 2**63 - 1))
    def check(user, amount):
        value = case.kind(user=user, amount=amount)
        assert made.from_bytes(made.to_bytes(value)) == value

    check()


def test_the_registry_is_asked_once_and_not_for_each_message(case, server):
    made = writing(case, server.url)
    data = made.to_bytes(case.value)
    made.from_bytes(data)
    before = list(server.requests)
    for _ in range(100):
        made.from_bytes(made.to_bytes(case.value))
    assert server.requests == before


def test_a_schema_is_registered_only_if_the_job_says_so(case, server):
    made = serde(case, server.url).of_type(case.kind).at("orders", "value")
    with pytest.raises(
        SerdeError, match=r"subject orders-value: .*\(404\): the subject has no schema like the job's; reg"
    ):
        made.to_bytes(case.value)
    assert server.subjects == {}


def test_keys_and_values_have_subjects_of_their_own(case, server):
    made = writing(case, server.url)
    made.to_bytes(case.value)
    made.at("orders", "key").to_bytes(case.value)
    assert sorted(server.subjects) == ["orders-key", "orders-value"]


@pytest.mark.parametrize(("strategy", "end"), [("record", "Order"), ("topic-record", "Order")])
def test_the_strategy_gives_the_subject(case, server, strategy, end):
    made = writing(case, server.url, subject_strategy=strategy)
    made.to_bytes(case.value)
    (subject,) = server.subjects
    record = end if case.name == "json-schema" else f"shop.{end}"
    assert subject == (record if strategy == "record" else f"orders-{record}")


def test_it_travels_to_another_process(case, server):
    made = writing(case, server.url)
    data = made.to_bytes(case.value)
    again = pickle.loads(pickle.dumps(made)) if case.name != "protobuf" else made
    assert again.to_bytes(case.value) == data
    assert again.from_bytes(data) == case.value


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected a magic byte 0 and a schema id, got 0 bytes"),
        (b"\0\0\0\1", "expected a magic byte 0 and a schema id, got 4 bytes"),
        (b'{"user": "ann"}', "expected the magic byte 0, got 123: the message was not written by a serde with a reg"),
        (b"\0\0\0\0\x63\0", r"id 99: Schema not found \(404\)"),
    ],
)
def test_bytes_of_another_kind_are_refused_with_the_reason(case, server, data, message):
    made = serde(case._replace(schema=None), server.url).of_type(case.kind)
    with pytest.raises(SerdeError, match=message) as caught:
        made.from_bytes(data)
    assert "\n" not in str(caught.value)


def test_any_bytes_are_read_or_refused_by_a_serde_error(case, url):
    made = writing(case, url)
    head = made.to_bytes(case.value)[:5]

    @given(st.binary(max_size=30))
    def check(rest):
        for data in (rest, head + rest):
            with contextlib.suppress(SerdeError):
                made.from_bytes(data)

    check()


def test_a_registry_that_is_down_is_no_fault_of_the_message(case):
    with schema_registry() as found:
        data = writing(case, found.url).to_bytes(case.value)
    made, read = writing(case, found.url), serde(case._replace(schema=None), found.url)
    for call in (lambda: read.from_bytes(data), lambda: made.to_bytes(case.value)):
        with pytest.raises(Unreachable, match=f"schema registry {found.url}: does not answer") as caught:
            call()
        assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """Its certificate in a file, and those that it signs."""
    made = trustme.CA()
    path = tmp_path_factory.mktemp("authority") / "ca.pem"
    made.cert_pem.write_to_path(path)
    return made, str(path)


def test_a_registry_over_tls_is_asked_with_its_authority(case, authority):
    signs, ca = authority
    with schema_registry(tls=tls_of(signs.issue_cert("127.0.0.1"))) as found:
        made = writing(case, found.url, ssl_ca_location=ca)
        assert made.from_bytes(made.to_bytes(case.value)) == case.value
        assert found.url.startswith("https://")


def test_a_registry_with_a_certificate_of_another_authority_is_refused_in_one_line(case):
    key = rf"serializers\.registry\.{case.name}\.ssl\.ca\.location"
    reason = r"\((?:self.signed|unable to get local).*\)"
    expected = rf"https://\S+: its certificate is not trusted {reason}: set {key} to .*, got none$"
    with schema_registry(tls=tls_of(trustme.CA().issue_cert("127.0.0.1"))) as found:
        with pytest.raises(HandshakeFailed, match=expected) as caught:
            writing(case, found.url).to_bytes(case.value)
        assert "\n" not in str(caught.value)
        assert not caught.value.outage
        assert found.requests == []


def test_a_certificate_that_is_no_longer_trusted_is_named_while_a_job_waits(authority):
    signs, ca = authority
    tls = tls_of(signs.issue_cert("127.0.0.1"))
    with schema_registry(tls=tls) as found:
        made = writing(CASES[0], found.url, ssl_ca_location=ca)
        made.to_bytes(CASES[0].value)
        trustme.CA().issue_cert("127.0.0.1").configure_cert(tls)
        with pytest.raises(Unreachable, match=r"its certificate is not trusted \(.*\): set \S+ to ") as caught:
            made.from_bytes(b"\0\0\0\0\x63-")
        with pytest.raises(Unreachable, match="its certificate is not trusted"):
            caught.value.ask()
        signs.issue_cert("127.0.0.1").configure_cert(tls)
        caught.value.ask()


def test_the_registry_gets_the_token():
    with schema_registry("Bearer t-1") as found:
        writing(CASES[0], found.url, bearer_auth_token="t-1").to_bytes(CASES[0].value)
        with pytest.raises(EnvironmentFailure, match=r"refuses the job \(401 Unauthorized\)"):
            writing(CASES[0], found.url).to_bytes(CASES[0].value)


@pytest.mark.parametrize("case", CASES[:2], ids=["avro", "json-schema"])
def test_a_value_that_does_not_fit_the_schema_is_refused(case, url):
    made = serde(case, url, auto_register="true").at("orders", "value")
    for bad in ({"user": "ann"}, {"user": "ann", "amount": "3"}, {**PLAIN, "more": 1}):
        with pytest.raises((SerdeError, ValueError, TypeError)) as caught:
            made.to_bytes(bad)
        assert made.refusal(bad, caught.value).startswith(f"{case.name} serde: ")


def test_messages_of_older_and_newer_schemas_are_resolved_to_the_jobs_schema(url):
    avro = CASES[0]
    old = serde(avro, url, auto_register="true").at("orders", "value").to_bytes(PLAIN)
    later = serde(avro._replace(schema=jobs.AVRO_NEXT), url, auto_register="true").at("orders", "value")
    new = later.to_bytes({**PLAIN, "city": "Ulm"})
    assert new[:5] != old[:5]
    assert later.from_bytes(old) == {**PLAIN, "city": "?"}
    assert serde(avro, url).from_bytes(new) == PLAIN
    assert serde(avro._replace(schema=None), url).from_bytes(new) == {**PLAIN, "city": "Ulm"}


def test_a_schema_that_is_not_compatible_is_refused_by_the_registry(server):
    server.register("orders-value", jobs.AVRO)
    broken = {**jobs.AVRO, "fields": [*jobs.AVRO["fields"], {"name": "city", "type": "string"}]}
    made = serde(CASES[0]._replace(schema=broken), server.url, auto_register="true").at("orders", "value")
    with pytest.raises(SerdeError, match=r"subject orders-value: the schema is not compatible \(.*city\)"):
        made.ready(writing=True)


def test_references_are_other_schemas_of_the_registry(server):
    user = {"type": "record", "name": "User", "namespace": "shop", "fields": [{"name": "name", "type": "string"}]}
    server.register("users", user)
    schema = {"type": "record", "name": "Sale", "namespace": "shop", "fields": [{"name": "by", "type": "shop.User"}]}
    avro = CASES[0]._replace(schema=schema)
    server.register("sales-value", schema, references=[{"name": "shop.User", "subject": "users", "version": 1}])
    made = serde(avro._replace(schema=None), server.url, use_latest_version="true").at("sales", "value")
    value = {"by": {"name": "ann"}}
    assert made.from_bytes(made.to_bytes(value)) == value


def test_an_outage_of_the_registry_at_a_new_schema_ends_when_it_answers():
    with schema_registry() as found:
        data = writing(CASES[0], found.url).to_bytes(CASES[0].value)
        reader = serde(CASES[0]._replace(schema=None), found.url)
        found.down = True
        batch = RecordBatch(SystemStreamPartition("k", "in", 0), [5], [None], [data], [0], None)
        with pytest.raises(
            Unreachable, match=r"^k\.in\[0\]@5 to 5: cannot be decoded now: schema registry "
        ) as silence:
            Decoder(None, reader).decode(batch, 0)
        failure = silence.value
        assert failure.outage
        assert failure.service == f"schema registry {found.url}"
        with pytest.raises(Unreachable):
            failure.ask()
        found.down = False
        failure.ask()
        assert [each.message for each in Decoder(None, reader).decode(batch, 0)] == [PLAIN]


DEEP = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"items": {"$ref": "#/$defs/c"}}}, "$ref": "#/$defs/a"}


@pytest.mark.parametrize(
    ("schema", "lost"),
    [
        ({"properties": {"by": {"$ref": "user.json"}}}, "user.json"),
        ({"allOf": [{"items": {"$dynamicRef": "#node"}}]}, "#node"),
        (DEEP, "#/$defs/c"),
    ],
)
def test_a_ref_of_a_json_schema_that_leads_nowhere_is_refused_at_start(url, schema, lost):
    made = serde(CASES[1]._replace(schema=schema), url, auto_register="true").at("sales", "value")
    for writing in (True, False):
        with pytest.raises(SerdeError, match=re.escape(f"$ref {lost!r} leads nowhere; register the schema with its")):
            made.ready(writing=writing)


def test_imports_of_a_protobuf_file_are_references(url):
    kind = jobs.message_class(("note", jobs.STRING), name="Sale", inner=jobs.OrderMessage)
    made = serde(CASES[2], url, auto_register="true").of_type(kind).at("sales", "value")
    inner = made.object_type.DESCRIPTOR.fields_by_name["inner"].message_type
    assert inner.full_name == "shop.Order"
    value = kind(note="n", inner={"user": "ann", "amount": 3})
    data = made.to_bytes(value)
    assert made.from_bytes(data) == value
    with pytest.raises(
        SerdeError, match=r"expected an object of a generated class, named by samza\.msg\.type, got shop"
    ):
        serde(CASES[2], url).from_bytes(data)


def test_a_later_class_of_a_protobuf_file_is_found_by_its_place(url):
    first = jobs.message_class(("note", jobs.STRING), name="Sale", inner=jobs.OrderMessage)
    second_name = first.DESCRIPTOR.file.message_types_by_name["SecondSale"]
    from google.protobuf import message_factory

    second = message_factory.GetMessageClass(second_name)
    made = serde(CASES[2], url, auto_register="true").of_type(second).at("sales", "value")
    data = made.to_bytes(second(inner=[{"user": "ann", "amount": 3}]))
    assert data[5:7] == b"\2\2"
    assert made.from_bytes(data).inner[0].user == "ann"
    with pytest.raises(SerdeError, match=r"expected shop\.Sale, got shop\.SecondSale \(schema 2\)"):
        serde(CASES[2], url).of_type(first).from_bytes(data)


def test_the_bytes_are_those_of_confluents_own_serializers(url):
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    client = SchemaRegistryClient.new_client({"url": url})
    where = SerializationContext("orders", MessageField.VALUE)
    avro = AvroSerializer(client, json.dumps(jobs.AVRO), conf={"subject.name.strategy.type": "TOPIC"})
    assert writing(CASES[0], url).to_bytes(CASES[0].value)[5:] == avro(PLAIN, where)[5:]
    conf = {"use.deprecated.format": False, "subject.name.strategy.type": "TOPIC"}
    protobuf = ProtobufSerializer(jobs.OrderMessage, client, conf)
    assert writing(CASES[2], url).to_bytes(CASES[2].value)[5:] == protobuf(CASES[2].value, where)[5:]
