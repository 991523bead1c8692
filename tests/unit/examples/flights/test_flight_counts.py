"""The persistent flight counts, as a user tests a task with a state of its own."""

from pathlib import Path

import pytest

from samzapy.examples.flights.jobs import FlightCountTask
from samzapy.testing import TaskTestDriver, TestRunner

JOB = Path(__file__).parents[4] / "configs" / "flight-counts.properties"
DAY_MS = 86_400_000


@pytest.fixture
def driver():
    with TaskTestDriver(FlightCountTask, JOB) as made:
        yield made


def fly(driver, *flights):
    """Flights of (airport, day)."""
    for airport, day in flights:
        driver.send("flights", {"origin": airport}, key="N1", timestamp=int(day * DAY_MS))


def counts(driver):
    return [(told["until"][:10], told["counts"]) for told in driver.outputs("flight-counts").messages]


def test_a_checkpoint_tells_the_counts_of_before_its_day(driver):
    fly(driver, ("JFK", 0.1), ("EWR", 0.9), ("JFK", 1.2))
    driver.commit()
    fly(driver, ("LGA", 0.5), ("LGA", 2.1))
    driver.commit()
    assert counts(driver) == [("1970-01-02", {"JFK": 1, "EWR": 1}), ("1970-01-03", {"JFK": 2, "EWR": 1, "LGA": 1})]


@pytest.mark.parametrize("at", ["commit.1", "state.taken", "state.persisted"])
def test_a_crash_neither_loses_nor_repeats_a_flight(driver, at):
    fly(driver, ("JFK", 0.1), ("EWR", 1.2))
    driver.commit()
    fly(driver, ("JFK", 1.5), ("LGA", 2.5))
    driver.crash(at=at, during=driver.commit)
    driver.restart()
    fly(driver, ("EWR", 4.5))
    driver.commit()
    assert counts(driver)[-1] == ("1970-01-05", {"JFK": 2, "EWR": 1, "LGA": 1})


def test_the_end_of_the_input_tells_everything():
    flights = [{"origin": airport} for airport in ("JFK", "JFK", "LGA")]
    result = TestRunner.of(JOB).with_input("flights", flights).run()
    assert {"task": "Partition 0", "counts": {"JFK": 2, "LGA": 1}} in result.outputs("flight-counts").messages
