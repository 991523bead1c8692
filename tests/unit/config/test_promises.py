"""What weakens a guarantee, from the job file and from the topics."""

import pytest

from samzapy.api.system import StreamDescription
from samzapy.api.task import EndOfStreamListenerTask, StreamTask, WindowableTask
from samzapy.config.guarantee_warnings import COUNTS, GuaranteeWarning, counts_in_words, guarantee_warnings, weak_copies
from samzapy.config.tasks.error_policy import Action, Stage
from samzapy.system.factories import load_factory

STORE = {"stores.s.factory": "rocksdb", "stores.s.key.serde": "string", "stores.s.msg.serde": "json"}
EXACTLY = {"task.guarantee": "exactly-once", "task.commit.ms": "1000"}


@pytest.fixture
def weakened(load):
    """The keys that weaken the promise of the smallest job with these keys changed, with what they do."""

    def keys_of(changes=None, task_class=None):
        return {each.key: each.message for each in guarantee_warnings(load(changes), load_factory, task_class)}

    return keys_of


def test_nothing_weakens_the_smallest_job(weakened):
    assert weakened() == {}
    assert weakened({**STORE, "stores.s.changelog": "kafka.s"}) == {}


@pytest.mark.parametrize(
    ("changes", "key", "message"),
    [
        (STORE, "stores.s.changelog", "empty at each start"),
        ({"task.checkpoint.factory": "none"}, "task.checkpoint.factory", "begins at offset.default"),
        ({"task.commit.ms": "0"}, "task.commit.ms", "is repeated"),
        ({"task.commit.ms": "-1", "task.guarantee": "at-most-once"}, "task.commit.ms", "is lost"),
        ({"task.async.commit": "true"}, "task.async.commit", "hold some of them twice"),
        ({"task.error.process.policy": "skip"}, "task.error.process.policy", "counted as errors.process.skipped"),
        ({"task.drop.serialization.errors": "true"}, "task.drop.serialization.errors", "outputs that fail are lost"),
        ({"task.ignored.exceptions": "*"}, "task.ignored.exceptions", "counted as errors.process.skipped"),
        ({"task.ignored.exceptions": "KeyError"}, "task.ignored.exceptions", "raises KeyError"),
        (
            {"task.error.deserialize.policy": "dead-letter", "task.dead.letter.stream": "kafka.letters"},
            "task.error.deserialize.policy",
            "go to kafka.letters, counted as errors.deserialize.dead-lettered",
        ),
        (
            {"systems.kafka.streams.page-views.samza.reset.offset": "true"},
            "systems.kafka.streams.page-views.samza.reset.offset",
            "skips those that came meanwhile",
        ),
        (
            {
                "systems.kafka.streams.page-views.samza.reset.offset": "true",
                "systems.kafka.samza.offset.default": "oldest",
            },
            "systems.kafka.streams.page-views.samza.reset.offset",
            "repeats the messages still there",
        ),
        (
            {
                **STORE,
                "stores.s.changelog": "kafka.s",
                "stores.s.object.cache.mode": "reference",
                "task.error.process.policy": "retry",
            },
            "stores.s.object.cache.mode",
            "without a put, the change stays",
        ),
        (
            {**EXACTLY, "systems.other.samza.factory": "kafka"},
            "systems.other.samza.factory",
            "outside the transaction on 'kafka'",
        ),
    ],
)
def test_a_key_that_weakens_the_guarantee_is_named_with_what_it_does(weakened, changes, key, message):
    found = weakened(changes)
    assert list(found) == [key]
    assert message in found[key]


def test_other_systems_weaken_exactly_once_only(weakened):
    assert weakened({"systems.other.samza.factory": "kafka"}) == {}


@pytest.mark.parametrize(
    ("kind", "method"), [(WindowableTask, "window"), (EndOfStreamListenerTask, "on_end_of_stream")]
)
def test_outputs_without_an_input_have_no_id_in_effectively_once(weakened, kind, method):
    task = type("Timed", (StreamTask, kind), {})
    effectively = {"task.guarantee": "effectively-once", "task.commit.ms": "1000"}
    assert method in weakened(effectively, task)["task.class"]
    assert weakened(effectively, StreamTask) == {}
    assert weakened(EXACTLY, task) == {}


@pytest.mark.parametrize(
    ("system", "key"),
    [
        ({"systems.x.samza.factory": "memory"}, "systems.x.samza.factory"),
        ({"systems.x.samza.factory": "local"}, "systems.x.synchronous"),
        ({"task.checkpoint.factory": "file", "task.checkpoint.path": "here"}, "task.checkpoint.path"),
    ],
)
def test_what_a_system_does_not_survive_is_about_durability(load, system, key):
    assert [(each.key, each.durability) for each in guarantee_warnings(load(system), load_factory)] == [(key, True)]
    assert (
        guarantee_warnings(load({"systems.x.samza.factory": "local", "systems.x.synchronous": "full"}), load_factory)
        == ()
    )


@pytest.mark.parametrize(
    ("replicas", "config", "messages"),
    [
        (None, {}, []),
        (3, {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}, []),
        (1, {"min.insync.replicas": "1"}, ["1 copy"]),
        (3, {"min.insync.replicas": "1"}, ["min.insync.replicas=1"]),
        (
            2,
            {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"},
            ["min.insync.replicas=1", "unclean.leader.election.enable=true"],
        ),
    ],
)
def test_the_copies_of_a_topic_are_announced(replicas, config, messages):
    found = list(weak_copies("k", StreamDescription("t", 1, "id", config, replicas)))
    assert len(found) == len(messages)
    for downgrade, message in zip(found, messages, strict=True):
        assert downgrade.key == "k"
        assert downgrade.durability
        assert "topic 't' has " + message in downgrade.message


def test_every_way_to_lose_or_move_a_message_is_among_the_counts():
    endings = {Action.SKIP: "skipped", Action.DEAD_LETTER: "dead-lettered"}
    assert {f"errors.{stage.value}.{ending}" for stage in Stage for ending in endings.values()} <= set(COUNTS)


def test_counts_are_put_in_words_and_zeros_left_out():
    assert counts_in_words({"errors.process.skipped": 1_200, "guarantee.outside-transaction": 0}) == [
        "1,200 inputs skipped (process)"
    ]
    assert counts_in_words({}) == []


def test_a_downgrade_is_one_line():
    assert str(GuaranteeWarning("a.b", "does this")) == "a.b: does this"
