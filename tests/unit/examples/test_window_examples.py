"""The windows' examples on the embedded system."""

from random import Random

import pytest
from jobs.window_examples import HOUR_MS, MINUTE_MS, Example, check, hours, visits

from samzapy.examples.departures import departures
from samzapy.examples.flights.dataset import Event
from samzapy.examples.flights.load import load
from samzapy.examples.gallery.load import page_views


@pytest.fixture
def example(tmp_path):
    """An example of this name with its streams, on a system of its own."""
    state = {"systems.events.path": str(tmp_path / "local.db"), "job.logged.store.base.dir": str(tmp_path / "state")}
    return lambda name, *streams: Example(name, streams, state)


def flights(count):
    """Flights by scheduled hour; one in twenty leaves hours late, one in thirty not at all."""
    chance = Random(5)
    for number in range(count):
        delay = chance.choice([None] + [chance.randrange(180, 900)] + [chance.randrange(-10, 60) for _ in range(28)])
        value = {"origin": chance.choice(["EWR", "JFK", "LGA"]), "flight": number, "dep_delay": delay}
        yield Event(f"N{number}", value, number // 20 * HOUR_MS)


def test_departures_are_counted_by_airport_and_hour_and_what_leaves_too_late_goes_aside(example):
    job = example("departures", "departures", "departures-per-hour", "late-departures")
    planned = list(flights(1_500))
    left = departures(planned)
    assert load(job.job, [("departures", left)]) == len(left) == job.run()
    counted, late = check(job, hours(job.read("departures")))
    assert late
    assert sum(count for *_, count in counted) + len(late) == len(
        [each for each in planned if each.value["dep_delay"] is not None]
    )
    assert job.run() == 0
    check(job, hours(job.read("departures")))


def test_page_views_become_visits_by_user(example):
    job = example("visits", "views", "visits", "late-views")
    views = page_views(1_500, users=30)
    assert load(job.job, [("views", views)]) == 1_500 == job.run()
    found, late = check(job, visits(job.read("views")))
    assert late
    assert sum(value["views"] for *_, value in found) + len(late) == 1_500
    assert max(value["views"] for *_, value in found) > 5


def test_the_same_seed_gives_the_same_page_views_out_of_order():
    views = page_views(500, seed=3)
    assert views == page_views(500, seed=3) != page_views(500, seed=4)
    times = [view.time_ms for view in views]
    assert times != sorted(times)
    assert max(times) - min(times) > 60 * MINUTE_MS
