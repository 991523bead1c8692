"""The feeder and the watcher, on the memory system."""

from __future__ import annotations

import uuid

import pytest

from samzapy.api.system import SystemSettings
from samzapy.errors import EnvironmentFailure, ProducerError, UnknownStream
from samzapy.verify.evidence import Streams
from samzapy.verify.processes import until
from samzapy.verify.scene import Feeder, Watcher, mean_burst
from samzapy.verify.workload import Event, events

DEADLINE_S = 60.0
PARTITIONS = 4


@pytest.fixture
def streams():
    settings = SystemSettings(
        "memory", "samzapy.system.local.factory:MemorySystemFactory", properties={"cluster": uuid.uuid4().hex}
    )
    made = Streams(settings)
    made.create("in", PARTITIONS)
    yield made
    made.close()


@pytest.fixture
def feed(streams):
    made = []

    def start(count: int, burst: int | None = None) -> Feeder:
        pace = {"seed": "seed", "burst": burst or mean_burst(count, 2)}
        made.append(Feeder(streams.producer(), "in", PARTITIONS, events(count, "seed"), **pace))
        return made[-1]

    yield start
    for feeder in made:
        feeder.close()


@pytest.mark.slow
def test_events_are_written_in_order_up_to_the_current_limit(streams, feed):
    feeder = feed(600)
    feeder.allow(200)
    until(lambda: feeder.acknowledged == 200, lambda: "200 events", DEADLINE_S)
    assert sum(feeder.ends) == len(streams.read("in")) == 200
    feeder.allow(600)
    until(lambda: feeder.acknowledged == 600, lambda: "600 events", DEADLINE_S)
    records = streams.read("in")
    assert sorted(Event.decode(r.key, r.value) for r in records) == sorted(events(600, "seed"))
    assert feeder.ends == tuple(streams.ends("in").values())
    feeder.check()


def test_a_failure_to_write_is_raised_where_the_job_is_watched(streams, feed):
    streams.delete(["in"])
    feeder = feed(100)
    feeder.allow(100)

    def failed() -> bool:
        try:
            feeder.check()
        except UnknownStream:
            return True
        return False

    until(failed, lambda: "the failure", DEADLINE_S)


def test_events_that_the_system_refuses_are_an_environment_failure(streams, monkeypatch):
    producer = streams.producer()

    def unanswered() -> None:
        raise ProducerError("in[0]: not acknowledged within 60 s")

    monkeypatch.setattr(producer, "flush", unanswered)
    feeder = Feeder(producer, "in", PARTITIONS, events(10, "seed"), burst=5, seed="seed")
    feeder.allow(10)

    def failed() -> bool:
        try:
            feeder.check()
        except EnvironmentFailure as failure:
            return "could not be written to in, so nothing about the job is proven: in[0]" in str(failure)
        return False

    until(failed, lambda: "the failure", DEADLINE_S)
    feeder.close()


def test_a_watcher_sees_what_is_written_while_it_looks(streams, feed):
    watcher = Watcher(streams, "in")
    feeder = feed(300, burst=60)
    feeder.allow(300)
    until(lambda: feeder.acknowledged == 300, lambda: "300 events", DEADLINE_S)
    until(lambda: len(watcher.seen) == 300, lambda: "300 events seen", DEADLINE_S)
    assert sorted(watcher.close()) == sorted(streams.read("in"))
