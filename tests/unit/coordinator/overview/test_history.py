"""The figures of a job over time: what a sample is, and that there are never too many."""

from dataclasses import replace

import pytest
from jobs.job_status import container, job

from samzapy.coordinator.overview.history import History, Sample
from samzapy.metrics.registry import COMMIT_STEPS, PERCENTILES


def at(second, processed=0, lag=0, *, attempts=1, starts=1.0, cpu=0.0, steps=(), process=()):
    of_ten_seconds = dict(zip((*COMMIT_STEPS, *PERCENTILES), (*steps, *process), strict=bool(steps)))
    numbers = {"container": {"cpu-s": cpu, "starts": starts}, "recent": of_ten_seconds}
    each = container(0, processed, [0], lag=lag, attempts=attempts, metrics=numbers)
    return job(each, time_ms=1_000 * second, at=float(second))


def noted(*statuses):
    history = History()
    for status in statuses:
        history.note(status)
    return history


def test_a_sample_has_the_differences_of_ten_seconds():
    steps, process = (0.1, 0.2, 0.3, 0.0, 0.5), (0.001, 0.05)
    last = at(10, 2_100, 40, attempts=2, cpu=9.5, steps=steps, process=process)
    history = noted(at(0, 100, 5, cpu=2.0), at(4, 900), last)
    assert history.fine == (Sample(10_000, 200.0, 40, steps, process, 0.75, 1),)
    assert history.coarse == ()


def test_steps_and_percentiles_are_those_of_the_slowest_container_and_ten_seconds():
    slow, quick = {"steps": (0.5,) * 5, "process": (0.1, 1.0)}, {"steps": (0.1,) * 5, "process": (0.5, 0.5)}
    history = noted(*(at(second, **(slow if second == 60 else quick)) for second in range(0, 121, 10)))
    assert (history.fine[-1].commit, history.fine[-1].process) == ((0.1,) * 5, (0.5, 0.5))
    assert (history.coarse[0].commit, history.coarse[0].process) == ((0.5,) * 5, (0.5, 1.0))


def test_a_container_that_begins_again_or_was_silent_brings_no_jump():
    statuses = [at(number * 10, cpu=cpu) for number, cpu in enumerate((500.0, 1.0, 6.0, 0.0, 8.0))]
    (lost,) = statuses[3].containers
    statuses[3] = replace(statuses[3], containers=(replace(lost, state="lost", metrics={}, lags=None),))
    assert [(each.cpu, each.lag) for each in noted(*statuses).fine] == [(0.1, 0), (0.5, 0), (None, None), (0.2, 0)]


@pytest.mark.parametrize("again", [{"attempts": 3}, {"attempts": 2, "starts": 4.0}], ids=["an attempt", "in place"])
def test_starts_in_a_process_and_further_attempts_are_restarts(again):
    history = noted(at(0, attempts=2, starts=3.0), at(10, **again), at(20, **again))
    assert [each.restarts for each in history.fine] == [1, 0]


def test_a_day_of_samples_is_ten_minutes_and_six_hours():
    history = noted(*(at(second, second * 50) for second in range(0, 86_400, 10)))
    assert len(history.fine) == 60
    assert len(history.coarse) == 180
    assert history.coarse[-1].time_ms - history.coarse[0].time_ms == 179 * 120_000
    assert {each.rate for each in (*history.fine, *history.coarse)} == {50.0}


def test_a_wall_clock_that_jumps_changes_no_rate():
    times = (0, 0), (10, 3_600_000), (20, 20_000)
    history = noted(*(replace(at(second, 50 * second), time_ms=wall_ms) for second, wall_ms in times))
    assert [(each.time_ms, each.rate) for each in history.fine] == [(3_600_000, 50.0), (20_000, 50.0)]
