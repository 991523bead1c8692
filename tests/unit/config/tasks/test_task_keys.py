"""`task.*`, its inputs and its checkpoints."""

import pytest

from samzapy.api.stream import SystemStream

TWO_SYSTEMS = {"systems.other.samza.factory": "local", "task.inputs": "kafka.a,other.b"}


def test_inputs_are_streams_of_a_system_or_ids(load):
    config = load(
        {
            "task.inputs": "kafka.a.b , clicks,local.x",
            "systems.local.samza.factory": "local",
            "job.default.system": "kafka",
            "streams.clicks.samza.system": "local",
            "streams.clicks.samza.physical.name": "raw-clicks",
        }
    )
    assert config.task.inputs == (
        SystemStream("kafka", "a.b"),
        SystemStream("local", "raw-clicks"),
        SystemStream("local", "x"),
    )


def test_an_input_on_an_unknown_system_names_the_known_ones(problems):
    assert problems({"task.inputs": "kafak.a"}) == [
        "task.inputs: system 'kafak' has no systems.kafak.samza.factory; known: kafka; did you mean kafka?"
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("kafka.a", "expected system.stream#3, system.stream#[0-2] or system.stream#*"),
        ("kafka.a#x", "expected system.stream#3, system.stream#[0-2] or system.stream#*"),
        ("kafka.a#[2-0]", "partition range 2-0 is empty"),
        ("kafka.a#[0-99999999999]", "expected system.stream#3, system.stream#[0-2] or system.stream#*"),
    ],
)
def test_a_malformed_broadcast_input_is_refused(problems, given, message):
    assert problems({"task.broadcast.inputs": given}) == [f"task.broadcast.inputs: {message}, got {given!r}"]


@pytest.mark.parametrize("path", ["mytask", "../x.py", "my.module:", "http://x/y:Z", "a:b:C", "1a:B", "my-module:A"])
def test_a_task_class_that_is_no_class_path_is_refused(problems, path):
    assert problems({"task.class": path}) == [
        f"task.class: expected an importable class like my.module:MyTask, got {path!r}"
    ]


@pytest.mark.parametrize("commit", ["60000", "90000", "0", "-5"])
def test_a_transaction_must_outlast_the_commit_interval(problems, commit):
    assert problems({"task.guarantee": "exactly-once", "task.commit.ms": commit}) == [
        f"task.commit.ms: ({commit}) must be > 0 and < task.transaction.timeout.ms (60000) with exactly-once"
    ]


@pytest.mark.parametrize("value", ["soon", "${env:NONE}"])
@pytest.mark.parametrize(
    ("key", "more"), [("commit.ms", {"task.guarantee": "exactly-once"}), ("batch.max.messages", {})]
)
def test_a_value_that_cannot_be_read_is_one_problem(problems, key, more, value):
    (problem,) = problems({f"task.{key}": value, **(more or {"task.batch.max.wait.ms": "5"})})
    assert problem.startswith((f"task.{key}: expected an integer", f"task.{key}: environment variable NONE"))


def test_with_several_input_systems_one_must_be_chosen(load, problems):
    assert problems(TWO_SYSTEMS) == [
        "task.checkpoint.system: required when there are several input systems and no job.default.system"
    ]
    assert load({**TWO_SYSTEMS, "job.default.system": "other"}).task.checkpoint.system == "other"
    assert load({**TWO_SYSTEMS, "task.checkpoint.system": "kafka"}).task.checkpoint.system == "kafka"


@pytest.mark.parametrize(
    ("guarantee", "commit_ms"),
    [("at-most-once", 60_000), ("at-least-once", 60_000), ("effectively-once", 10_000), ("exactly-once", 10_000)],
)
def test_the_guarantee_alone_makes_a_job_that_loads_with_a_commit_interval_that_suits_it(load, guarantee, commit_ms):
    assert load({"task.guarantee": guarantee}).task.commit_ms == commit_ms


@pytest.mark.parametrize("path", ["mine", "org.apache.samza.system.chooser.OddChooserFactory"])
def test_a_chooser_that_cannot_be_is_refused(problems, path):
    said = "expected a class like my.module:MyChooser, or one of round-robin"
    assert problems({"task.chooser.class": path}) == [f"task.chooser.class: {said}, got {path!r}"]


def test_a_bootstrap_stream_that_starts_where_nothing_is_left_to_read_is_warned_of(load):
    key = "systems.kafka.streams.page-views.samza"
    (warning,) = load({f"{key}.bootstrap": "true"}).warnings
    assert warning == (
        f"{key}.bootstrap: kafka.page-views starts at upcoming, so it has nothing to bootstrap from; "
        f"set {key}.offset.default=oldest"
    )
    assert not load({f"{key}.bootstrap": "true", f"{key}.offset.default": "oldest"}).warnings
