"""`state.checkpoint.*`, and the keys of event time."""

import pytest

from samzapy.config.checkpoint import StateCheckpointConfig
from samzapy.config.job import JobClockConfig


def test_states_are_in_a_topic_next_to_the_checkpoints(load):
    config = load()
    assert config.state_checkpoint == StateCheckpointConfig(10_000, system="kafka")
    assert config.clock == JobClockConfig(60_000, 86_400_000)
    assert config.startpoints


def test_every_key_is_read(load):
    config = load(
        {
            "systems.other.samza.factory": "local",
            "state.checkpoint.interval.ms": "60000",
            "task.checkpoint.system": "other",
            "task.checkpoint.replication.factor": "3",
            "task.watermark.idle.timeout.ms": "-1",
            "task.event.time.max.ahead.ms": "0",
            "job.startpoint.enabled": "false",
        }
    )
    assert config.state_checkpoint == StateCheckpointConfig(60_000, "other", 3)
    assert config.clock == JobClockConfig(-1, 0)
    assert not config.startpoints


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("state.checkpoint.interval.ms", "0", "expected an integer >= 1"),
        ("task.watermark.idle.timeout.ms", "soon", "task.watermark.idle.timeout.ms: expected an integer, got"),
        ("task.event.time.max.ahead.ms", "soon", "expected an integer, got 'soon'"),
        ("job.startpoint.enabled", "perhaps", "expected true or false"),
    ],
)
def test_a_bad_value_says_what_is_allowed(problems, key, value, expected):
    (problem,) = problems({key: value})
    assert expected in problem


TIMERS = {"stores.reminders.factory": "timers"}
INTERMEDIATE = {"systems.kafka.streams.page-views.samza.intermediate": "true"}


@pytest.mark.parametrize(("keys", "idle_ms"), [({}, 60_000), (TIMERS, -1), (INTERMEDIATE, -1)])
def test_inputs_are_never_idle_in_a_job_that_fires_by_event_time_unless_it_says_so(load, keys, idle_ms):
    assert load(keys).clock.idle_ms == idle_ms
    assert load(keys | {"task.watermark.idle.timeout.ms": "500"}).clock.idle_ms == 500
