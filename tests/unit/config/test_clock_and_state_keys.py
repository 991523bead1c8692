"""`state.checkpoint.*`, and the keys of event time."""

import pytest

from samzapy.config.checkpoint import StateCheckpointConfig
from samzapy.config.job import JobClockConfig


def test_states_are_in_a_topic_next_to_the_checkpoints(load):
    config = load()
    assert config.state_checkpoint == StateCheckpointConfig(10_000, system="kafka")
    assert config.clock == JobClockConfig(60_000, 86_400_000)
    assert config.startpoints


TIMERS = {"stores.reminders.factory": "timers"}
INTERMEDIATE = {"systems.kafka.streams.page-views.samza.intermediate": "true"}


@pytest.mark.parametrize(("keys", "idle_ms"), [({}, 60_000), (TIMERS, -1), (INTERMEDIATE, -1)])
def test_inputs_are_never_idle_in_a_job_that_fires_by_event_time_unless_it_says_so(load, keys, idle_ms):
    assert load(keys).clock.idle_ms == idle_ms
    assert load(keys | {"task.watermark.idle.timeout.ms": "500"}).clock.idle_ms == 500
