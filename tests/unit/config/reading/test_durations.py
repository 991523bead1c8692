"""Durations with a unit, as values of keys that end in `.ms`."""

import pytest

from samzapy.config.loader import load_job
from samzapy.config.reading.keys import in_ms
from samzapy.errors import ConfigError

JOB = {
    "job.name": "durations",
    "task.class": "some.module:Task",
    "task.inputs": "kafka.in",
    "systems.kafka.samza.factory": "kafka",
}


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("500ms", 500),
        ("3s", 3_000),
        ("1.5s", 1_500),
        ("2 s", 2_000),
        ("10m", 600_000),
        ("10min", 600_000),
        ("2h", 7_200_000),
        ("7d", 604_800_000),
        ("250", 250),
        ("-1", -1),
    ],
)
def test_a_duration_is_read_in_milliseconds(text, milliseconds):
    assert load_job({**JOB, "task.window.ms": text}).task.window_ms == milliseconds


def test_a_key_that_does_not_end_in_ms_has_no_duration():
    assert in_ms("job.terms", "3s") == "3s"


def test_keys_that_are_passed_on_are_in_milliseconds_too():
    job = load_job({**JOB, "systems.kafka.consumer.session.timeout.ms": "45s", "my.own.patience.ms": "1m"})
    assert job.systems["kafka"].consumer["session.timeout.ms"] == "45000"
    assert job.context.config["my.own.patience.ms"] == "60000"


@pytest.mark.parametrize("text", ["3 seconds", "5x", "0.5ms"])
def test_a_bad_duration_is_refused_with_examples(text):
    with pytest.raises(ConfigError) as caught:
        load_job({**JOB, "task.window.ms": text})
    assert str(caught.value).endswith(f" (or a duration like 500ms, 3s, 10m, 2h), got '{text}'")
