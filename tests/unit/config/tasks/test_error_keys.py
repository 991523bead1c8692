"""`task.error.*`, dead letters, and the keys of asynchronous tasks."""

import pytest

from samzapy.config.error_policy import Action, ErrorPolicy, Stage

LETTERS = {"task.dead.letter.stream": "kafka.dead"}
ALLOWED = "expected fail, skip, dead-letter or retry, as in: retry(3, 100ms) then dead-letter"


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("fail", ErrorPolicy()),
        ("skip", ErrorPolicy(Action.SKIP)),
        ("Dead_Letter", ErrorPolicy(Action.DEAD_LETTER)),
        ("retry", ErrorPolicy(Action.FAIL, 3, 100)),
        ("retry(5)", ErrorPolicy(Action.FAIL, 5, 100)),
        ("retry(5, 20)", ErrorPolicy(Action.FAIL, 5, 20)),
        ("retry( 5 , 2s ) then skip", ErrorPolicy(Action.SKIP, 5, 2_000)),
        ("RETRY(1,0ms)  THEN  dead-letter", ErrorPolicy(Action.DEAD_LETTER, 1, 0)),
        ("retry then dead-letter", ErrorPolicy(Action.DEAD_LETTER, 3, 100)),
    ],
)
@pytest.mark.parametrize("stage", [Stage.PROCESS, Stage.PRODUCE])
def test_a_policy_is_an_action_or_repetitions_and_then_an_action(load, stage, text, policy):
    errors = load({f"task.error.{stage.value}.policy": text, **LETTERS}).task.errors
    assert errors.policies[stage] == policy
    assert all(other.only_fails for key, other in errors.policies.items() if key is not stage)


def test_each_pause_is_twice_the_one_before_and_a_minute_at_most():
    assert list(ErrorPolicy(Action.FAIL, 3, 100).pauses_s()) == [0.1, 0.2, 0.4]
    assert list(ErrorPolicy(Action.FAIL, 3, 40_000).pauses_s()) == [40, 60, 60]
    assert list(ErrorPolicy().pauses_s()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"error.process.policy": "ignore"}, f"error.process.policy: {ALLOWED}, got 'ignore'"),
        ({"error.process.policy": "retry(1, 5m)"}, f"error.process.policy: {ALLOWED}, got 'retry(1, 5m)'"),
        ({"error.process.policy": "skip then fail"}, f"error.process.policy: {ALLOWED}, got 'skip then fail'"),
        ({"error.process.policy": "retry(0)"}, "error.process.policy: expected 1 to 1000 retries, got 'retry(0)'"),
        (
            {"error.deserialize.policy": "retry"},
            "error.deserialize.policy: expected fail, skip or dead-letter, without retry: it would fail again",
        ),
        (
            {"error.process.policy": "retry(1, 9999s)"},
            "error.process.policy: expected a backoff of at most 3600000 ms, got 'retry(1, 9999s)'",
        ),
        (
            {"error.serialize.policy": "dead-letter"},
            "dead.letter.stream: required by task.error.serialize.policy, e.g. kafka.dead-letters",
        ),
        (
            {"error.deserialize.policy": "fail", "drop.deserialization.errors": "true"},
            "error.deserialize.policy: contradicts task.drop.deserialization.errors, which skips",
        ),
        (
            {"error.process.policy": "retry", "ignored.exceptions": "*"},
            "error.process.policy: contradicts task.ignored.exceptions, which skips: remove one of them, got 'retry'",
        ),
        (
            {"guarantee": "exactly-once", "commit.ms": "100", "error.process.policy": "retry(6, 1s)"},
            "error.process.policy: the sum of all pauses (63000 ms) and task.commit.ms (100) must be <",
        ),
        (
            {"guarantee": "at-most-once", "error.produce.policy": "retry(2)"},
            "error.produce.policy: retry needs a guarantee that repeats inputs, at-most-once drops them",
        ),
        (
            {"guarantee": "exactly-once", "commit.ms": "100", "callback.timeout.ms": "60000"},
            "callback.timeout.ms: (60000) must be < task.transaction.timeout.ms (60000) with exactly-once",
        ),
        (
            {"guarantee": "exactly-once", "commit.ms": "100", "async.commit": "true"},
            "async.commit: needs at-least-once: exactly-once commits with nothing in flight, got 'true'",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_with_key_value_and_what_is_allowed(problems, changes, message):
    (found,) = problems({f"task.{key}": value for key, value in changes.items()})
    assert found.startswith(f"task.{message}")


@pytest.mark.parametrize(
    ("key", "stage"),
    [
        ("task.drop.deserialization.errors", Stage.DESERIALIZE),
        ("task.drop.serialization.errors", Stage.SERIALIZE),
        ("task.drop.producer.errors", Stage.PRODUCE),
    ],
)
def test_samzas_drop_keys_skip_and_agree_with_a_policy_that_skips(load, key, stage):
    assert load({key: "true"}).task.errors.policies[stage].then is Action.SKIP
    both = load({key: "true", f"task.error.{stage.value}.policy": "skip"})
    assert both.task.errors.policies[stage] == ErrorPolicy(Action.SKIP)
    assert load({key: "false", f"task.error.{stage.value}.policy": "fail"}).task.errors.only_fails


def test_ignored_exceptions_are_skipped_by_class_or_base_class_and_the_rest_follows_the_policy(load):
    policy = load({"task.ignored.exceptions": "LookupError, builtins.ValueError"}).task.errors.policies[Stage.PROCESS]
    assert policy.then is Action.FAIL
    assert not policy.only_fails
    assert policy.ignores(KeyError("x"))
    assert policy.ignores(UnicodeDecodeError("utf-8", b"", 0, 1, "x"))
    assert not policy.ignores(TypeError("x"))
    everything = load({"task.ignored.exceptions": "*"}).task.errors.policies[Stage.PROCESS]
    assert everything == ErrorPolicy(Action.SKIP)


def test_a_dead_letter_stream_that_nobody_writes_to_is_warned_of(load):
    assert load(LETTERS).warnings == (
        "task.dead.letter.stream: has no effect without a task.error.*.policy of dead-letter",
    )


def test_dead_letters_that_are_inputs_are_warned_of_unless_only_a_pattern_matches_them(load):
    keys = LETTERS | {"task.error.process.policy": "dead-letter"}
    (warning,) = load(keys | {"task.inputs": "kafka.in,kafka.dead"}).warnings
    assert warning.startswith("task.dead.letter.stream: kafka.dead is an input, too: ")
    assert not load(keys | {"task.inputs": "kafka.de.*"}).warnings


@pytest.mark.parametrize(
    ("key", "value"), [("task.error.produce.policy", "skip"), ("task.drop.producer.errors", "true")]
)
def test_what_the_produce_policy_does_not_cover_is_said(load, key, value):
    (warning,) = load({key: value}).warnings
    assert warning.startswith(f"{key}: only records that their stream refuses are skipped; ")
