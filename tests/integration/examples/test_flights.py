"""The flights job over all flights, against an independent computation from the CSV."""

from __future__ import annotations

from pathlib import Path

import pytest
from flights_oracle import Expected, expected

from samzapy.config.job import JobConfig
from samzapy.config.loader import load_job
from samzapy.errors import EnvironmentFailure
from samzapy.examples.flights.load import dataset, load
from samzapy.examples.flights.table import Results, read_results
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare

JOB = Path(__file__).parents[3] / "configs" / "flights.properties"


@pytest.fixture(scope="module")
def answer() -> Expected:
    return expected()


def run(job: JobConfig) -> int:
    return LocalRunner().run(prepare(job, until_end=True), RunOptions()).status.processed


def check(found: Results, answer: Expected) -> None:
    delays = {(row.carrier, row.hour): row.delays for row in found.rows}
    assert delays.keys() == answer.delays.keys() | answer.cancelled.keys()
    for place, value in delays.items():
        of_place = answer.delays.get(place, [])
        assert value["cancelled"] == answer.cancelled.get(place, 0)
        assert value["flights"] == len(of_place) + value["cancelled"]
        assert value["delay"] == ([len(of_place), sum(of_place), max(of_place)] if of_place else None)
    samples = {(*place, model): sample for place, value in delays.items() for model, sample in value["models"].items()}
    assert samples == {key: [len(each), sum(each), max(each)] for key, each in answer.of_models.items()}
    assert found.waiting == answer.without_plane


@pytest.mark.slow
def test_the_totals_on_the_embedded_system_are_those_of_the_csv(tmp_path, answer):
    job = load_job(
        JOB, {"systems.events.path": str(tmp_path / "local.db"), "job.logged.store.base.dir": str(tmp_path / "state")}
    )
    events = dataset()
    assert load(job, events) == sum(len(of_stream) for _, of_stream in events) == run(job)
    check(read_results(job), answer)
    assert run(job) == 0, "a second run has nothing left to do"
    check(read_results(job), answer)
    with pytest.raises(EnvironmentFailure, match=r"topic 'planes' on system 'events' holds 3,322 records"):
        load(job, events)


@pytest.mark.kafka
@pytest.mark.slow
def test_the_totals_on_kafka_are_those_of_the_csv_with_flights_before_their_planes(tmp_path, answer, kafka):
    job = load_job(
        JOB,
        {
            "systems.events.samza.factory": "kafka",
            "systems.events.consumer.bootstrap.servers": kafka,
            "systems.events.producer.bootstrap.servers": kafka,
            "job.logged.store.base.dir": str(tmp_path / "state"),
        },
    )
    planes, flights = dataset()
    assert load(job, [flights]) == len(flights[1]) == run_with_empty_planes(job)
    assert load(job, [planes]) == len(planes[1]) == run(job)
    check(read_results(job), answer)


def run_with_empty_planes(job: JobConfig) -> int:
    load(job, [("planes", [])])
    return run(job)
