"""`${env:NAME}` and `${other.key}`."""


def test_variables_and_other_keys_are_put_in_anywhere_in_a_value(load):
    config = load({"job.id": "${env:STAGE}-${my.number}", "my.number": "7"}, {"STAGE": "test"})
    assert config.id == "test-7"
    assert config.raw["job.id"] == "${env:STAGE}-${my.number}"
    assert config.resolved["job.id"] == "test-7"


def test_a_doubled_dollar_is_a_literal_one(load):
    assert load({"my.text": "$${env:X} $5"}).resolved["my.text"] == "${env:X} $5"


def test_a_missing_variable_names_key_and_variable_and_hides_no_other_problem(problems):
    assert problems({"job.name": "${env:NOPE}", "task.commit.ms": "x"}) == [
        "job.name: environment variable NOPE is not set",
        "task.commit.ms: expected an integer, got 'x'",
    ]


def test_a_recursive_reference_shows_its_circle(problems):
    found = problems({"a": "${b}", "b": "${c}", "c": "${b}"})
    assert found == [
        "a: recursive reference: b -> c -> b",
        "b: recursive reference: b -> c -> b",
        "c: recursive reference: c -> b -> c",
    ]


def test_other_schemes_and_missing_keys_are_refused(problems):
    assert problems({"a": "${file:/etc/passwd}", "b": "${no.such}", "c": "${}"}) == [
        "a: expected ${env:NAME} or ${other.key}, got ${file:/etc/passwd}",
        "b: reference ${no.such}: key no.such is not set",
        "c: expected ${env:NAME} or ${other.key}, got ${}",
    ]


def test_the_process_environment_is_read_at_the_call(load, monkeypatch):
    from samzapy.config.loader import load_job

    raw = load().raw
    monkeypatch.setenv("STAGE_OF_TEST", "blue")
    assert load_job({**raw, "job.id": "${env:STAGE_OF_TEST}"}).id == "blue"
