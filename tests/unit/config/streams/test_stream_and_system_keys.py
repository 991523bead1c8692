"""`systems.*`, `streams.*` and `serializers.*`."""

import pytest

from samzapy.api.stream import SystemStream
from samzapy.config.streams import StreamConfig
from samzapy.config.streams.systems import new_stream

VIEWS = SystemStream("kafka", "page-views")


@pytest.mark.parametrize(
    ("given", "factory"),
    [
        ("org.apache.samza.system.kafka.KafkaSystemFactory", "samzapy.system.kafka:KafkaSystemFactory"),
        ("org.apache.samza.system.inmemory.InMemorySystemFactory", "samzapy.system.local.factory:MemorySystemFactory"),
        ("local", "samzapy.system.local.factory:LocalSystemFactory"),
        ("my.module.MyFactory", "my.module.MyFactory"),
    ],
)
def test_system_factories_have_short_java_and_own_names(load, given, factory):
    assert load({"systems.kafka.samza.factory": given}).systems["kafka"].factory == factory


@pytest.mark.parametrize("given", ["kafak", "org.apache.samza.system.hdfs.HdfsSystemFactory", "a b:C"])
def test_a_factory_nobody_knows_lists_the_known_ones(problems, given):
    assert problems({"systems.kafka.samza.factory": given}) == [
        (
            "systems.kafka.samza.factory: expected a class like my.module:MySystemFactory, or one of kafka, "
            f"local, memory, database, got {given!r}"
        )
    ]


def test_a_stream_has_its_own_keys_then_its_systems(load):
    config = load(
        {
            "task.inputs": "views",
            "streams.views.samza.system": "kafka",
            "streams.views.samza.physical.name": "page-views",
            "streams.views.samza.msg.serde": "json",
            "streams.views.samza.reset.offset": "true",
            "streams.views.samza.priority": "2",
            "streams.views.samza.bootstrap": "true",
            "streams.views.samza.bounded": "true",
            "streams.views.samza.intermediate": "true",
            "streams.views.cleanup.policy": "compact",
            "systems.kafka.default.stream.samza.msg.serde": "string",
            "systems.kafka.samza.key.serde": "long",
            "systems.kafka.samza.offset.default": "oldest",
        }
    )
    assert config.stream(VIEWS) == StreamConfig(
        VIEWS,
        key_serde="long",
        msg_serde="json",
        offset_default="oldest",
        reset_offset=True,
        priority=2,
        bootstrap=True,
        bounded=True,
        properties={"cleanup.policy": "compact"},
        intermediate=True,
    )
    assert config.stream(SystemStream("kafka", "out")) == StreamConfig(
        SystemStream("kafka", "out"), key_serde="long", msg_serde="string", offset_default="oldest"
    )


def test_the_older_form_of_stream_keys_is_read(load):
    config = load(
        {
            "systems.kafka.streams.page-views.samza.msg.serde": "json",
            "systems.kafka.streams.a.b.samza.key.serde": "string",
        }
    )
    assert config.stream(VIEWS).msg_serde == "json"
    assert config.stream(SystemStream("kafka", "a.b")).key_serde == "string"
    assert config.warnings == ()


@pytest.mark.parametrize(
    "key",
    ["streams.v.samza.key.serde", "systems.kafka.samza.msg.serde", "systems.kafka.streams.page-views.samza.msg.serde"],
)
def test_an_unknown_serde_says_what_was_probably_meant(problems, key):
    assert problems({"streams.v.samza.system": "kafka", key: "jsno"}) == [
        (
            f"{key}: serde 'jsno' unknown; known: string, integer, long, double, bytes, byte, bytebuffer, uuid, json, "
            "msgpack, avro, json-schema, protobuf; did you mean json?"
        )
    ]


A = {"streams.a.samza.system": "kafka", "streams.a.samza.physical.name": "page-views"}
Z = {"streams.z.samza.system": "kafka", "streams.z.samza.physical.name": "page-views"}


@pytest.mark.parametrize(
    "others", [{}, {"streams.z.samza.msg.serde": "string"}, {"streams.z.cleanup.policy": "compact"}]
)
def test_two_ids_of_one_stream_with_different_keys_are_refused(problems, others):
    keys = A | {"streams.a.samza.msg.serde": "json"} | Z | {"streams.z.samza.key.serde": "string"} | others
    assert problems(keys) == [
        "streams.z: is the same stream as streams.a (kafka.page-views) with different keys: put all keys under one id"
    ]


@pytest.mark.parametrize(("owner", "alias"), [("a", "z"), ("z", "a")])
def test_an_id_that_only_names_a_stream_takes_no_keys_from_another_id(load, owner, alias):
    keys = {f"streams.{owner}.samza.msg.serde": "json", f"streams.{owner}.cleanup.policy": "compact"}
    config = load(A | Z | keys | {"task.inputs": alias})
    (stream,) = config.streams.values()
    assert stream.msg_serde == "json"
    assert stream.properties == {"cleanup.policy": "compact"}
    assert config.systems["kafka"].streams["page-views"].properties == {"cleanup.policy": "compact"}


DEFAULT = "systems.kafka.default.stream."


@pytest.mark.parametrize(
    "key",
    [
        f"{DEFAULT}message.format.version",
        "streams.views.consumer.auto.offset.reset",
        "systems.kafka.streams.page-views.consumer.fetch.message.max.bytes",
    ],
)
def test_a_key_that_no_topic_takes_is_left_out_with_a_warning(load, problems, key):
    keys = {key: "1", "job.default.system": "kafka"}
    config = load(keys)
    assert config.warnings == (f"{key}: not a topic setting of Kafka",)
    made = [new_stream(config.systems["kafka"], stream, 1).config for stream in ("views", "page-views")]
    assert made == [{}, {}]
    assert problems(keys, strict=True) == [f"{key}: not a topic setting of Kafka"]


def test_a_plug_in_has_keys_of_its_own_for_streams(load):
    keys = {"systems.own.samza.factory": "my.module:MySystemFactory", "streams.out.samza.system": "own"}
    assert load({**keys, "streams.out.shards.per.node": "2"}, strict=True).warnings == ()
