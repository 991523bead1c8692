"""The keys of the serdes with a schema registry."""

from __future__ import annotations

import json

import pytest

from samzapy.config.loader import load_job
from samzapy.errors import ConfigError

BASE = {
    "job.name": "orders",
    "task.class": "my:Task",
    "task.inputs": "kafka.in",
    "systems.kafka.samza.factory": "memory",
    "systems.kafka.default.stream.samza.msg.serde": "orders",
    "serializers.registry.orders.class": "avro",
    "serializers.registry.orders.url": "https://registry:8081",
    "stores.s.factory": "inmemory",
    "stores.s.key.serde": "string",
    "stores.s.msg.serde": "orders",
}
PREFIX = "serializers.registry.orders."


def load(strict=True, **keys):
    return load_job({**BASE, **keys}, strict=strict)


def problems(**keys):
    with pytest.raises(ConfigError) as caught:
        load(**{PREFIX + key.replace("_", "."): value for key, value in keys.items()})
    return str(caught.value)


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"url": "registry:8081"}, "url: expected an address like https://registry:8081, got 'registry:8081'"),
        ({"url": ""}, "url: required, e.g. https://registry:8081"),
        ({"auto_register": "yes"}, "auto.register: expected true or false, got 'yes'"),
        (
            {"auto_register": "true", "use_latest_version": "true"},
            "use.latest.version: not together with auto.register",
        ),
        ({"subject_strategy": "stream"}, "subject.strategy: expected one of topic, record, topic-record, got 'stream'"),
        ({"ssl_key_location": "k.pem"}, "ssl.certificate.location: required by ssl.key.location"),
        ({"basic_auth_user_info": "ann"}, "basic.auth.user.info: expected USER:PASSWORD"),
        ({"basic_auth_user_info": "a:b", "bearer_auth_token": "t"}, "bearer.auth.token: not together with"),
        ({"auto_registr": "true"}, "auto.registr: unknown key; did you mean auto.register?"),
        ({"class": "protobuf", "schema": "syntax"}, "schema: protobuf takes the schema of the generated class"),
    ],
)
def test_a_bad_value_is_refused_with_its_key(keys, problem):
    assert PREFIX + problem in problems(**keys)


def test_the_passwords_are_masked():
    secret = {"basic.auth.user.info": "ann:pw-1", "ssl.key.password": "pw-2", "url": "https://ann:pw-3@registry"}
    secret["ssl.certificate.location"] = "cert.pem"
    job = load(**{PREFIX + key: value for key, value in secret.items() if key != "basic.auth.user.info"})
    assert "pw-" not in repr(job.resolved)
    job = load(**{PREFIX + key: value for key, value in secret.items() if key != "url"})
    assert "pw-" not in repr(job.resolved)
    assert job.resolved[PREFIX + "basic.auth.user.info"] == "ann:pw-1"


def test_a_job_carries_the_text_of_its_schema_file(tmp_path):
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps({"type": "string", "doc": "${env:NOT_A_REFERENCE}"}))
    job = load(**{f"{PREFIX}schema.file": str(file)})
    text = file.read_text()
    file.unlink()
    assert job.resolved[f"{PREFIX}schema"] == text
    assert load_job(job.raw).resolved[f"{PREFIX}schema"] == text


def test_a_schema_stands_in_the_job_file_or_in_a_file_of_its_own(tmp_path):
    assert "schema.file: not together with schema" in problems(schema_file=str(tmp_path), schema="{}")


def test_a_class_goes_with_a_registered_schema():
    job = load(
        **{"stores.s.msg.type": "my:Order", "streams.in.samza.system": "kafka", "streams.in.samza.msg.type": "my:Order"}
    )
    assert job.stores["s"].msg_type == "my:Order"
