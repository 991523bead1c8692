"""The measuring harness over a small run on the embedded system: whether it works, not how fast."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from samzapy.bench.events import Events, load_events
from samzapy.bench.measuring import MeasurementFailed, measure_job
from samzapy.config.loader import load_job

EVENTS = 2_000
JOB = Path(__file__).parents[3] / "configs" / "bench" / "keyed-count.properties"
SAMZAPY = Path(sys.executable).with_name("samzapy")


@pytest.fixture
def overrides(tmp_path):
    return {
        "systems.kafka.samza.factory": "local",
        "systems.kafka.path": str(tmp_path / "local.db"),
        "job.logged.store.base.dir": str(tmp_path / "state"),
    }


def load(overrides: dict[str, str]) -> None:
    job = load_job(JOB, overrides)
    stream = job.task.inputs[0]
    assert load_events(job.systems[stream.system], stream, Events(EVENTS)) == EVENTS


def test_a_job_is_measured_in_a_process_of_its_own(overrides):
    load(overrides)
    measured = measure_job(JOB, overrides)
    assert measured.messages == EVENTS
    assert measured.seconds > 0
    assert measured.cpu_s > 0
    assert measured.peak_rss["main"] > 0
    assert measured.more["commits"] >= 1
    again = measure_job(JOB, overrides)
    assert again.messages == 0, "the first run has committed"


def test_a_job_that_fails_is_told_with_its_reason(overrides):
    with pytest.raises(MeasurementFailed, match="topic 'bench-events' does not exist on system 'kafka'"):
        measure_job(JOB, overrides)


def test_the_commands_load_and_measure(overrides):
    config = [part for key, value in overrides.items() for part in ("--config", f"{key}={value}")]
    loaded = subprocess.run(
        [str(SAMZAPY), "bench", "events", str(JOB), *config, "--count", str(EVENTS)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert loaded.stdout == "2,000 events written to kafka.bench-events\n"
    measured = subprocess.run(
        [str(SAMZAPY), "bench", "job", str(JOB), *config, "--repeat", "2", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert [each["messages"] for each in json.loads(measured.stdout)] == [EVENTS, EVENTS]
