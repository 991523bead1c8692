"""The jobs that show an engine each, over made-up flights of real planes, against plain Python."""

from __future__ import annotations

import random
import shutil
from collections import defaultdict
from datetime import datetime, timezone
from pathlib import Path
from statistics import mean

import orjson
import pytest

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import StreamSpec
from samzapy.config.loader import load_job
from samzapy.examples.flights.dataset import Event, planes
from samzapy.examples.flights.load import load
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.system.clients import system_factory

CONFIGS = Path(__file__).parents[4] / "configs"


@pytest.fixture(scope="module")
def register():
    return planes()


@pytest.fixture(scope="module")
def departures(register):
    drawn = random.Random(11)
    tails = ["N14228", "N24211", *(event.key for event in register[:400])]
    return [flight(drawn, tails, number) for number in range(5_000)]


def flight(drawn, tails, number):
    tail = None if drawn.random() < 0.02 else drawn.choice(tails)
    value = {
        "carrier": drawn.choice(["AA", "B6", "UA", "YV"]) if number % 300 else "HA",
        "flight": drawn.randrange(1, 900),
        "tailnum": tail,
        "origin": drawn.choice(["EWR", "JFK", "LGA"]),
        "dest": drawn.choice(["BOS", "LAX", "ORD", "SFO"]),
        "hour": drawn.randrange(24),
        "dep_delay": None if drawn.random() < 0.03 else int(drawn.expovariate(0.05)) - 10,
    }
    return Event(tail, value, 1_357_000_000_000 + number * 6_000_000)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory, departures, register):
    path = tmp_path_factory.mktemp("flights") / "local.db"
    load(load_job(CONFIGS / "flights.properties", place(path)), [("planes", register), ("flights", departures)])
    return path


def place(path):
    return {"systems.events.path": str(path), "job.logged.store.base.dir": str(path.parent / "state")}


@pytest.fixture
def report(inputs):
    def run(name):
        """The messages by key, from a second run that has nothing but the changelogs of the first."""
        job = load_job(CONFIGS / f"{name}.properties", place(inputs) | {"task.commit.ms": "100"}, strict=True)
        settings = job.systems["events"]
        factory = system_factory(settings)
        factory.admin(settings, "test").create(StreamSpec(name, 1))
        for _ in range(2):
            LocalRunner().run(prepare(job, until_end=True), RunOptions())
            found = messages(factory, settings, name)
            shutil.rmtree(inputs.parent / "state", ignore_errors=True)
        half = len(found) // 2
        assert found[:half] == found[half:], "the second run has the first one's state, and nothing to add"
        return dict(found[half:])

    return run


def messages(factory, settings, stream):
    ssp = SystemStreamPartition(settings.name, stream, 0)
    consumer = factory.consumer(settings, "test")
    consumer.register(ssp, 0)
    consumer.start()
    try:
        batches = consumer.poll(10.0, 10_000)
    finally:
        consumer.close()
    pairs = [pair for batch in batches for pair in zip(batch.keys, batch.values, strict=True)]
    return [(key.decode(), orjson.loads(value)) for key, value in pairs]


def test_the_heap_holds_the_most_delayed_flights_of_each_airline(report, departures):
    delays = defaultdict(list)
    for event in departures:
        if event.value["dep_delay"] is not None:
            delays[event.value["carrier"]].append(event.value["dep_delay"])
    found = report("worst-delays")
    assert {carrier: [each["delay"] for each in worst] for carrier, worst in found.items()} == {
        carrier: sorted(each, reverse=True)[:20] for carrier, each in delays.items()
    }
    flown = {(e.value["flight"], e.value["origin"], e.value["dest"], e.value["dep_delay"]) for e in departures}
    assert all((w["flight"], w["from"], w["to"], w["delay"]) in flown for worst in found.values() for w in worst)


def test_the_sketches_are_close_to_the_planes_and_delays_of_each_airport(report, departures):
    found = report("airports")
    for airport in ("EWR", "JFK", "LGA"):
        of_airport = [event.value for event in departures if event.value["origin"] == airport]
        planes_seen = {each["tailnum"] for each in of_airport} - {None}
        pairs = {(each["tailnum"], each["dest"]) for each in of_airport if each["tailnum"]}
        delays = sorted(each["dep_delay"] for each in of_airport if each["dep_delay"] is not None)
        assert found[airport]["planes"] == pytest.approx(len(planes_seen), rel=0.05)
        assert found[airport]["pairs"] == pytest.approx(len(pairs), rel=0.05)
        assert found[airport]["delays"] == len(delays)
        for fraction, quantile in zip((0.5, 0.9, 0.99), found[airport]["quantiles"], strict=True):
            low, high = (delays[round(max(min(fraction + off, 1), 0) * (len(delays) - 1))] for off in (-0.04, 0.04))
            assert low <= quantile <= high
    everywhere = {event.value["tailnum"] for event in departures} - {None}
    assert found["all"]["planes"] == pytest.approx(len(everywhere), rel=0.05)


def test_the_index_finds_planes_by_words_and_phrases(report, register):
    texts = {event.key: f"{event.value['manufacturer']} {event.value['model']}" for event in register}
    found = report("plane-search")
    matches = {
        "boeing AND 757": lambda text: "BOEING" in text and "757" in text.replace("-", " ").split(),
        '"AIRBUS INDUSTRIE" AND (A319 OR A320)': lambda text: "AIRBUS INDUSTRIE A3" in text,
        "cessna piper": lambda text: text.startswith(("CESSNA", "PIPER")),
    }
    assert found.keys() == matches.keys()
    for query, matching in matches.items():
        hits = found[query]
        assert len(hits) == min(5, sum(map(matching, texts.values())))
        assert all(matching(texts[hit["plane"]]) for hit in hits)
        assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)


def test_the_cube_rolls_up_and_drills_into_the_delays(report, departures):
    groups = defaultdict(list)
    for event in departures:
        month = datetime.fromtimestamp(event.time_ms / 1000, tz=timezone.utc).month
        origin, carrier = event.value["origin"], event.value["carrier"]
        for group in ((origin,), (origin, month), (origin, month, carrier)):
            groups[group].append(event.value["dep_delay"])

    def row(dimensions, delays):
        known = [delay for delay in delays if delay is not None]
        measured = {"delays": len(known), "sum": sum(known), "min": min(known), "max": max(known)}
        return dimensions | {"departures": len(delays)} | measured

    def average(group):
        return mean(delay for delay in groups[group] if delay is not None)

    found = report("delay-cube")
    airports = sorted(group for group in groups if len(group) == 1)
    assert found["airports"] == [row({"origin": origin}, groups[origin,]) for (origin,) in airports]
    (worst,) = max(airports, key=average)
    months = sorted(group for group in groups if len(group) == 2 and group[0] == worst)
    assert found["months"] == [row({"origin": worst, "month": group[1]}, groups[group]) for group in months]
    month = max(months, key=average)[1]
    airlines = sorted(group for group in groups if len(group) == 3 and group[:2] == (worst, month))
    assert [each["carrier"] for each in found["airlines"]] == [group[2] for group in airlines]
    assert [each["departures"] for each in found["airlines"]] == [len(groups[group]) for group in airlines]


def test_an_engine_of_ones_own_keeps_the_last_flights_of_each_plane(report, departures):
    found = report("latest-flights")
    for plane in ("N14228", "N24211"):
        flown = [event.value["dest"] for event in departures if event.key == plane]
        assert found[plane] == flown[-3:][::-1]
