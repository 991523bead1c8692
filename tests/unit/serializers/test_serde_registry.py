"""Serdes by name, and sentences about what they refuse."""

import sys
import types

import pytest

from samzapy.api.serde import Serde, SerdeFactory
from samzapy.config.loader import load_job
from samzapy.config.reading.classes import SCHEMA_SERDES, SERDES
from samzapy.errors import ConfigError, SerdeError
from samzapy.serializers import LongSerde, StringSerde, UnknownSerde, decode_failure, encode_failure, serde_registry

JOB = {"job.name": "j", "task.class": "a:B", "task.inputs": "k.s", "systems.k.samza.factory": "memory"}


class Reversed(Serde):
    def to_bytes(self, value):
        return value[::-1]

    def from_bytes(self, data):
        return data[::-1]


class Configured(SerdeFactory):
    def serde(self, name, settings):
        if "bad" in settings:
            raise SerdeError("bad: not allowed")
        made = Reversed()
        made.told = (name, settings)
        return made


class Broken:
    def __init__(self):
        raise OSError("no such thing")


@pytest.fixture
def module(monkeypatch):
    found = types.ModuleType("serdes_of_a_user")
    found.Reversed, found.Configured, found.Broken, found.Other = Reversed, Configured, Broken, dict
    monkeypatch.setitem(sys.modules, "serdes_of_a_user", found)


@pytest.mark.parametrize("name", sorted(SERDES.short))
def test_every_built_in_name_leads_to_a_serde(name):
    settings = {f"serializers.registry.{name}.url": "mock://built-in"} if name in SCHEMA_SERDES.values() else {}
    assert isinstance(serde_registry(settings)[name], Serde)


@pytest.mark.parametrize(
    "java", ["StringSerdeFactory", "JsonSerdeV2Factory", "ByteBufferSerdeFactory", "UUIDSerdeFactory"]
)
def test_java_class_names_lead_to_our_serdes(java):
    key = "serializers.registry.mine.class"
    assert isinstance(serde_registry({key: f"org.apache.samza.serializers.{java}"})["mine"], Serde)
    config = load_job({**JOB, key: f"org.apache.samza.serializers.model.{java}"}, environ={})
    assert isinstance(serde_registry(config)["mine"], Serde)


def test_a_name_gives_one_instance():
    registry = serde_registry({})
    assert registry["json"] is registry["json"]
    assert "json" in registry
    assert "jsno" not in registry
    assert len(registry) == len(list(registry))


def test_a_registry_entry_may_name_a_built_in():
    assert isinstance(serde_registry({"serializers.registry.id.class": "long"})["id"], LongSerde)
    assert isinstance(serde_registry({"serializers.registry.json.class": "string"})["json"], StringSerde)


def test_an_unknown_name_says_what_is_known_and_what_was_probably_meant():
    registry = serde_registry({})
    with pytest.raises(UnknownSerde) as caught:
        registry["jsno"]
    assert str(caught.value) == (
        "serializers.registry: serde 'jsno' unknown; known: string, integer, long, double, bytes, byte, bytebuffer, "
        "uuid, json, msgpack, avro, json-schema, protobuf; did you mean json?"
    )
    assert registry.get("jsno") is None


@pytest.mark.usefixtures("module")
def test_a_users_serde_and_factory_are_made_with_their_settings():
    registry = serde_registry(
        {
            "serializers.registry.back.class": "serdes_of_a_user:Reversed",
            "serializers.registry.told.class": "serdes_of_a_user.Configured",
            "serializers.registry.told.schema.url": "http://localhost",
        }
    )
    assert registry["back"].to_bytes(b"ab") == b"ba"
    assert registry["told"].told == ("told", {"schema.url": "http://localhost"})


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"class": "serdes_of_a_user:Reversd"}, "serdes_of_a_user has no Reversd; did you mean Reversed?"),
        ({"class": "serdes_of_a_user:Other"}, "must be a Serde, or a SerdeFactory that makes one"),
        ({"class": "serdes_of_a_user:Broken"}, "cannot be made (OSError: no such thing)"),
        ({"class": "no_such_module:X"}, "cannot import no_such_module"),
        ({"class": "serdes_of_a_user:Configured", "bad": "1"}, "serializers.registry.mine: bad: not allowed"),
    ],
)
def test_a_class_that_gives_no_serde_is_a_configuration_error(settings, message):
    registry = serde_registry({f"serializers.registry.mine.{key}": value for key, value in settings.items()})
    with pytest.raises(ConfigError) as caught:
        registry["mine"]
    assert message in str(caught.value)
    assert "serializers.registry.mine" in str(caught.value)


def failure(serde, data):
    try:
        serde.from_bytes(data)
    except Exception as cause:  # noqa: BLE001
        return cause
    raise AssertionError


def test_a_decode_failure_names_where_which_part_and_why():
    registry = serde_registry({})
    short = decode_failure("integer", "kafka.orders[2]@481", "key", failure(registry["integer"], b"abc"))
    assert str(short) == "kafka.orders[2]@481: key: integer serde needs 4 bytes, got 3"
    json = decode_failure("json", "kafka.orders[2]@481", "message", failure(registry["json"], b"{"))
    assert str(json).startswith("kafka.orders[2]@481: message: json serde: ")
    assert "\n" not in str(json)


def test_an_encode_failure_shows_the_value_cut_short():
    try:
        StringSerde().to_bytes([0] * 1000)
    except TypeError as cause:
        error = encode_failure("string", "kafka.out", "message", [0] * 1000, cause)
    assert str(error).startswith("kafka.out: message: string serde does not take list [0, 0, 0,")
    assert len(str(error)) < 300


def test_a_reason_of_several_lines_becomes_one():
    assert str(decode_failure("mine", "a.b[0]@1", "key", ValueError("a\n  b"))) == "a.b[0]@1: key: mine serde: a b"
    assert str(decode_failure("mine", "a.b[0]@1", "key", ValueError())) == "a.b[0]@1: key: mine serde: ValueError"
