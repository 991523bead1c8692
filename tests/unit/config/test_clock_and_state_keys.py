"""`state.checkpoint.*` and `job.clock.*`."""

import pytest

from samzapy.config.event_time import JobClockConfig
from samzapy.config.reading.classes import FILE_STATE_CHECKPOINTS, TOPIC_STATE_CHECKPOINTS
from samzapy.config.tasks.state_checkpoint import StateCheckpointConfig


def test_states_are_kept_in_a_topic_beside_the_checkpoints_unless_told_otherwise(load):
    config = load()
    assert config.state_checkpoint == StateCheckpointConfig(TOPIC_STATE_CHECKPOINTS, 10_000, "kafka")
    assert config.clock == JobClockConfig(60_000, 120_000)
    assert config.startpoints


def test_every_key_is_read(load):
    config = load(
        {
            "systems.other.samza.factory": "local",
            "state.checkpoint.store.factory": "file",
            "state.checkpoint.path": "states",
            "state.checkpoint.interval.ms": "60000",
            "state.checkpoint.system": "other",
            "state.checkpoint.replication.factor": "3",
            "job.clock.idle.ms": "-1",
            "job.clock.stall.ms": "5000",
            "job.startpoint.enabled": "false",
        }
    )
    assert config.state_checkpoint == StateCheckpointConfig(FILE_STATE_CHECKPOINTS, 60_000, "other", "states", 3)
    assert config.clock == JobClockConfig(-1, 5_000)
    assert not config.startpoints


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("state.checkpoint.interval.ms", "0", "expected an integer >= 1"),
        ("state.checkpoint.store.factory", "hdfs", "topic, kafka, file"),
        ("state.checkpoint.store.factory", "file", "state.checkpoint.path: required"),
        ("state.checkpoint.system", "gone", "known: kafka"),
        ("state.checkpoint.replication.factor", "0", "expected an integer from 1 to 32767"),
        ("job.clock.idle.ms", "-2", "expected an integer >= -1"),
        ("job.clock.stall.ms", "0", "expected an integer >= 1"),
        ("job.startpoint.enabled", "perhaps", "expected true or false"),
    ],
)
def test_a_bad_value_says_what_is_allowed(problems, key, value, expected):
    (problem,) = problems({key: value})
    assert expected in problem
