from __future__ import annotations

from pathlib import Path
from typing import final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samzapy.examples.flights.task import FlightDelayTask, merge_all
from samzapy.testing import TaskTestDriver

JOB = Path(__file__).parents[4] / "configs" / "flights.properties"
MODELS = {"N1": "A320", "N2": "A320", "N3": "737-800"}
IN_MEMORY = {f"stores.{name}.factory": "memory" for name in ("delays", "planes", "waiting")}


@final
class Bench:
    """The task of the job file, and words for what happens to it."""

    def __init__(self) -> None:
        self._driver = TaskTestDriver(FlightDelayTask, JOB, IN_MEMORY)

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self._driver.close()

    def commit_and_crash(self) -> None:
        self._driver.commit()
        self._driver.crash()
        self._driver.restart()

    def send(self, stream: str, key: str | None, message: dict | None) -> None:
        self._driver.send(stream, message, key)

    def plane(self, tail: str, model: str | None = None) -> None:
        self.send("planes", tail, {"tailnum": tail, "model": model or MODELS[tail]})

    def flight(self, tail: str | None, minutes: int | None, carrier: str = "UA", hour: int = 7) -> None:
        self.send("flights", tail, {"carrier": carrier, "hour": hour, "tailnum": tail, "dep_delay": minutes})

    def contents(self, name: str) -> dict:
        with self._driver.store(name).all() as entries:
            return dict(entries)


@pytest.fixture
def bench():
    with Bench() as made:
        yield made


def test_flights_count_at_once_and_join_their_plane_when_it_comes(bench):
    bench.flight("N1", 10)
    bench.flight("N1", -4, hour=8)
    bench.flight("N1", 30)
    assert bench.contents("delays")["UA 07"] == {"flights": 2, "cancelled": 0, "delay": [2, 40, 30], "models": {}}
    assert bench.contents("waiting") == {"N1": {"UA 07": [2, 40, 30], "UA 08": [1, -4, -4]}}
    bench.plane("N1")
    assert bench.contents("delays")["UA 07"]["models"] == {"A320": [2, 40, 30]}
    assert bench.contents("delays")["UA 08"]["models"] == {"A320": [1, -4, -4]}
    assert bench.contents("waiting") == {}


def test_cancelled_flights_are_counted_apart(bench):
    bench.plane("N1")
    bench.flight("N1", None)
    bench.flight("N1", 5)
    assert bench.contents("delays")["UA 07"] == {
        "flights": 2,
        "cancelled": 1,
        "delay": [1, 5, 5],
        "models": {"A320": [1, 5, 5]},
    }


def test_flights_without_a_tail_number_count_and_wait_for_nothing(bench):
    bench.flight(None, 12)
    assert bench.contents("delays")["UA 07"]["delay"] == [1, 12, 12]
    assert bench.contents("waiting") == {}


def test_a_withdrawn_plane_makes_its_later_flights_wait(bench):
    bench.plane("N1")
    bench.send("planes", "N1", None)
    bench.flight("N1", 3)
    assert bench.contents("waiting") == {"N1": {"UA 07": [1, 3, 3]}}


def test_what_waits_survives_a_crash(bench):
    bench.flight("N1", 10)
    bench.commit_and_crash()
    bench.plane("N1")
    assert bench.contents("delays")["UA 07"]["models"] == {"A320": [1, 10, 10]}
    assert bench.contents("waiting") == {}


flights = st.lists(
    st.tuples(
        st.sampled_from([*MODELS, "N9", None]),
        st.none() | st.integers(-60, 1_300),
        st.sampled_from(["UA", "DL"]),
        st.sampled_from([5, 23]),
    ),
    max_size=30,
)


@settings(max_examples=60)
@given(flights=flights, data=st.data())
def test_the_order_of_planes_and_flights_does_not_change_the_answer(flights, data):
    messages = data.draw(
        st.permutations([("plane", tail) for tail in MODELS] + [("flight", *each) for each in flights])
    )
    crashes = data.draw(st.sets(st.integers(0, len(messages)), max_size=2))
    with Bench() as bench:
        for number, (kind, *arguments) in enumerate(messages):
            getattr(bench, kind)(*arguments)
            if number in crashes:
                bench.commit_and_crash()
        delays, waiting = bench.contents("delays"), bench.contents("waiting")
    for key in {f"{carrier} {hour:02}" for _, _, carrier, hour in flights}:
        here = [(tail, minutes) for tail, minutes, carrier, hour in flights if f"{carrier} {hour:02}" == key]
        left = [minutes for _, minutes in here if minutes is not None]
        value = delays[key]
        assert (value["flights"], value["cancelled"]) == (len(here), len(here) - len(left))
        assert value["delay"] == ([len(left), sum(left), max(left)] if left else None)
        for model in ("A320", "737-800"):
            flown = [minutes for tail, minutes in here if minutes is not None and MODELS.get(tail) == model]
            assert value["models"].get(model) == ([len(flown), sum(flown), max(flown)] if flown else None)
    assert waiting.keys() <= {"N9"}


def test_values_of_two_tasks_merge_to_that_of_one():
    one = {"flights": 3, "cancelled": 1, "delay": [2, 10, 9], "models": {"A320": [1, 9, 9]}}
    other = {"flights": 2, "cancelled": 0, "delay": [2, -3, -1], "models": {"A320": [1, -1, -1], "737": [1, -2, -2]}}
    assert merge_all(one, other) == {
        "flights": 5,
        "cancelled": 1,
        "delay": [4, 7, 9],
        "models": {"A320": [2, 8, 9], "737": [1, -2, -2]},
    }
