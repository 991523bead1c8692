"""Regular expressions in `task.inputs`, and the job file with streams in their place."""

import pytest

from samzapy.api.stream import SystemStream
from samzapy.config.loader import load_job, with_inputs
from samzapy.config.patterns import written_out

ORDERS = {"task.inputs": "kafka.orders-.*"}
EU, US = SystemStream("kafka", "orders-eu"), SystemStream("kafka", "orders-us")
BY_ID = {
    "task.inputs": "orders",
    "streams.orders.samza.system": "kafka",
    "streams.orders.samza.physical.name": "orders-.*",
    "streams.orders.samza.msg.serde": "json",
}


def in_place(config, *streams):
    """The job with the streams in place of its only pattern."""
    (pattern,) = config.task.patterns
    return with_inputs(config, {pattern: streams})


def test_a_name_with_a_character_that_no_name_has_is_a_pattern_beside_named_inputs(load):
    task = load({"task.inputs": "kafka.page-views, kafka.orders-.*, kafka.a.b"}).task
    assert task.inputs == (SystemStream("kafka", "page-views"), SystemStream("kafka", "a.b"))
    assert [str(pattern) for pattern in task.patterns] == ["kafka.orders-.*"]


def test_a_pattern_matches_whole_names_of_its_system(load):
    (pattern,) = load({"task.inputs": "kafka.orders-(eu|us)"}).task.patterns
    assert pattern.matches(EU)
    assert not pattern.matches(SystemStream("kafka", "orders-eu-old"))
    assert not pattern.matches(SystemStream("kafka", "new-orders-eu"))
    assert not pattern.matches(SystemStream("local", "orders-eu"))


def test_the_streams_found_take_the_place_of_the_pattern_also_in_the_file_of_the_containers(load):
    config = in_place(load({"task.inputs": "kafka.page-views,kafka.orders-.*"}), EU, US)
    assert config.task.inputs == (SystemStream("kafka", "page-views"), EU, US)
    assert load_job(config.raw).task == config.task
    assert config.task.patterns == ()


@pytest.mark.parametrize(
    "keys",
    [
        BY_ID | {"streams.orders.samza.offset.default": "oldest", "streams.orders.samza.priority": "3"},
        ORDERS
        | {
            "systems.kafka.streams.orders-.*.samza.msg.serde": "json",
            "systems.kafka.streams.orders-.*.samza.offset.default": "oldest",
            "systems.kafka.streams.orders-.*.samza.priority": "3",
        },
    ],
    ids=["by id", "by name"],
)
def test_the_keys_of_a_pattern_hold_for_each_match(load, keys):
    config = in_place(load(keys), EU, US)
    for stream in (EU, US):
        found = config.stream(stream)
        assert (found.msg_serde, found.offset_default, found.priority) == ("json", "oldest", 3)
    assert set(config.streams) == {EU, US}
    assert config.warnings == ()


@pytest.mark.parametrize(
    "own",
    [
        {"systems.kafka.streams.orders-eu.samza.msg.serde": "string"},
        {
            "streams.eu.samza.system": "kafka",
            "streams.eu.samza.physical.name": "orders-eu",
            "streams.eu.samza.msg.serde": "string",
        },
    ],
    ids=["by name", "by id"],
)
def test_a_match_with_a_key_of_its_own_keeps_that_key_and_takes_the_others(load, own):
    config = in_place(load(BY_ID | {"streams.orders.samza.offset.default": "oldest"} | own), EU, US)
    assert [config.stream(stream).msg_serde for stream in (EU, US)] == ["string", "json"]
    assert [config.stream(stream).offset_default for stream in (EU, US)] == ["oldest", "oldest"]


def test_a_store_may_be_restored_from_a_stream_that_a_pattern_matches(load):
    restored = {
        "stores.s.factory": "rocksdb",
        "stores.s.key.serde": "string",
        "stores.s.msg.serde": "json",
        "stores.s.restore.inputs": "kafka.orders-eu",
        "stores.s.restore.inputs.processor.factory": "my.module:Processor",
    }
    assert load(ORDERS | restored).stores["s"].source.streams == (EU,)


def test_a_job_without_checkpoints_cannot_take_new_inputs_while_it_runs(problems):
    assert problems(ORDERS | {"job.inputs.refresh.ms": "1s", "task.checkpoint.factory": "none"}) == [
        "job.inputs.refresh.ms: needs checkpoints: without, a new input would take all others back to their defaults"
    ]


GENERATOR = {
    "task.inputs": "kafka.page-views",
    "job.config.rewriters": "orders",
    "job.config.rewriter.orders.class": "org.apache.samza.config.RegExTopicGenerator",
    "job.config.rewriter.orders.system": "kafka",
    "job.config.rewriter.orders.regex": "orders-.*",
    "job.config.rewriter.orders.config.samza.msg.serde": "json",
    "job.config.rewriter.orders.config.samza.offset.default": "oldest",
}


def test_samzas_generator_of_topics_is_a_pattern_with_its_keys(load):
    config = load(GENERATOR, strict=True)
    assert [str(pattern) for pattern in config.task.patterns] == ["kafka.orders-.*"]
    assert config.warnings == ("job.config.rewriter.orders.*: read as kafka.orders-.* in task.inputs",)
    found = in_place(config, EU)
    assert found.task.inputs == (SystemStream("kafka", "page-views"), EU)
    assert (found.stream(EU).msg_serde, found.stream(EU).offset_default) == ("json", "oldest")
    assert load_job(found.raw).warnings == ()


def test_a_reference_to_a_key_of_a_pattern_holds_after_the_pattern_has_gone(load):
    keys = {
        "streams.orders.my.retention": "${env:DAYS}d",
        "streams.orders.retention.ms": "${streams.orders.my.retention}",
        "streams.out.samza.system": "kafka",
        "streams.out.samza.msg.serde": "${streams.orders.samza.msg.serde}",
        "streams.out.retention.ms": "${streams.orders.retention.ms}",
        "streams.out.literal": "$${streams.orders.samza.msg.serde}",
        "job.inputs.refresh.ms": "30s",
        "my.pace.ms": "${job.inputs.refresh.ms}",
    }
    config = load(BY_ID | keys, {"DAYS": "7"})
    (pattern,) = config.task.patterns
    found = written_out(config.raw, (), {pattern: [EU]})
    assert found["streams.out.retention.ms"] == "${env:DAYS}d"
    assert found["systems.kafka.streams.orders-eu.retention.ms"] == "${env:DAYS}d"
    written = load(found, {"DAYS": "7"})
    assert written.streams[SystemStream("kafka", "out")].msg_serde == "json"
    assert written.resolved["streams.out.literal"] == "${streams.orders.samza.msg.serde}"
    assert written.resolved["my.pace.ms"] == "30000"
