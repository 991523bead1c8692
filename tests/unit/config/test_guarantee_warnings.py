"""Everything that weakens a guarantee is announced, and each place that announces has a case here."""

import pytest

from samzapy.api.event_time import ClockListenerTask, StateCheckpointTask
from samzapy.api.system import StreamDescription
from samzapy.api.task import (
    BatchTask,
    DrainListenerTask,
    EndOfStreamListenerTask,
    StreamTask,
    TimerTask,
    WatermarkListenerTask,
    WindowableTask,
)
from samzapy.config.error_policy import Action, Stage
from samzapy.config.guarantee_warnings import COUNTS, guarantee_warnings, weak_copies
from samzapy.container.outputs.producers import refused, state_transactions, weakened_state
from samzapy.system.clients import load_factory

STORE = {"stores.s.factory": "rocksdb", "stores.s.key.serde": "string", "stores.s.msg.serde": "json"}
LOGGED = {**STORE, "stores.s.changelog": "kafka.s"}
LETTERS = {"task.dead.letter.stream": "kafka.letters"}
EFFECTIVELY = {"task.guarantee": "effectively-once"}
EXACTLY = {"task.guarantee": "exactly-once"}
STAGES = ["deserialize", "process", "serialize", "produce"]
EXACTLY_EVERY_SECOND = {**EXACTLY, "task.commit.ms": "1000"}


@pytest.fixture
def weakened(load):
    """The keys that weaken the promise of the smallest job with these keys changed, with what they do."""

    def keys_of(changes=None, task_class=None):
        return {each.key: each.message for each in guarantee_warnings(load(changes), load_factory, task_class)}

    return keys_of


#: What a job file may say, the key that is announced for it, and the effect.
SAID = [
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
        {"systems.kafka.streams.page-views.samza.reset.offset": "true", "systems.kafka.samza.offset.default": "oldest"},
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
        {**EXACTLY_EVERY_SECOND, "systems.other.samza.factory": "kafka"},
        "systems.other.samza.factory",
        "outside the transaction on 'kafka'",
    ),
]


@pytest.mark.parametrize(("changes", "key", "message"), SAID)
def test_a_key_that_weakens_the_guarantee_is_named_with_what_it_does(weakened, changes, key, message):
    found = weakened(changes)
    assert list(found) == [key]
    assert message in found[key]


def test_other_systems_weaken_exactly_once_only(weakened):
    assert weakened({"systems.other.samza.factory": "kafka"}) == {}


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


#: The same for the others.
OTHERS = [
    ({**LOGGED, "stores.s.drop.large.messages": "true"}, "stores.s.drop.large.messages"),
    ({"task.checkpoint.factory": "file", "task.checkpoint.path": "here"}, "task.checkpoint.path"),
    *(({f"task.error.{stage}.policy": "skip"}, f"task.error.{stage}.policy") for stage in STAGES),
    *(({f"task.error.{stage}.policy": "dead-letter", **LETTERS}, f"task.error.{stage}.policy") for stage in STAGES),
    ({"task.drop.deserialization.errors": "true"}, "task.drop.deserialization.errors"),
    ({"task.drop.producer.errors": "true"}, "task.drop.producer.errors"),
    ({"systems.x.samza.factory": "memory"}, "systems.x.samza.factory"),
    ({"systems.x.samza.factory": "local"}, "systems.x.synchronous"),
]
#: What a task's class may be.
BY_TASK = [
    (EFFECTIVELY, kind)
    for kind in (
        BatchTask,
        WindowableTask,
        TimerTask,
        ClockListenerTask,
        WatermarkListenerTask,
        DrainListenerTask,
        EndOfStreamListenerTask,
    )
] + [(EXACTLY, StateCheckpointTask)]


@pytest.mark.parametrize(("changes", "key"), OTHERS)
def test_what_a_job_file_weakens_is_announced(load, changes, key):
    assert key in {each.key for each in guarantee_warnings(load(changes), load_factory)}


@pytest.mark.parametrize(("guarantee", "kind"), BY_TASK)
def test_what_a_tasks_class_weakens_is_announced(load, guarantee, kind):
    task = type("Weak", (StreamTask, kind), {})
    assert "task.class" in {each.key for each in guarantee_warnings(load(guarantee), load_factory, task)}


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"task.state.transactions": "false"}, "task.state.transactions"),
        ({"task.checkpoint.factory": "file", "task.checkpoint.path": "here"}, "task.checkpoint.factory"),
        ({"task.checkpoint.factory": "none"}, "task.checkpoint.factory"),
        ({"systems.other.samza.factory": "memory", "stores.s.changelog": "other.s"}, "stores.s.changelog"),
    ],
)
def test_that_no_transaction_carries_the_state_is_announced(load, changes, key):
    job = load({**LOGGED, **changes})
    (found,) = weakened_state(job.stores, state_transactions(job))
    assert found.key == key
    assert "state may hold inputs twice, and may go back while two runs overlap" in found.message


def test_that_a_broker_refuses_the_transactional_ids_is_announced(load):
    (found,) = weakened_state(load(LOGGED).stores, refused("kafka", "not authorised"))
    assert found.key == "systems.kafka.samza.factory"
