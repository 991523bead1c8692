"""The figures of a job over time: what a sample is, and that there are never too many."""

from dataclasses import replace

from jobs.job_status import container, job

from samzapy.coordinator.overview.history import History, Sample


def at(second, processed=0, lag=0, attempts=1, commits=1, **metrics):
    numbers = {
        "commit": {"commit.total-s": metrics.get("commit_s", 0.0)},
        "container": {"cpu-s": metrics.get("cpu", 0)},
    }
    each = container(0, processed, [0], lag=lag, attempts=attempts, commits=commits, metrics=numbers)
    return job(each, time_ms=1_000 * second, at=float(second))


def test_a_sample_has_the_differences_of_ten_seconds():
    history = History()
    history.note(at(0, 100, 5, commit_s=1.0, cpu=2.0))
    history.note(at(4, 900))
    history.note(at(10, 2_100, 40, attempts=2, commits=5, commit_s=1.2, cpu=9.5))
    assert history.fine == (Sample(10_000, 200.0, 40, 0.05, 0.75, 1),)
    assert history.coarse == ()


def test_a_container_that_begins_again_makes_its_times_unknown_once():
    history = History()
    for second, cpu in ((0, 50.0), (10, 1.0), (20, 6.0)):
        history.note(at(second, cpu=cpu))
    assert [each.cpu for each in history.fine] == [None, 0.5]


def test_an_unknown_lag_stays_unknown():
    history = History()
    for second in (0, 10):
        status = at(second)
        history.note(replace(status, containers=(replace(status.containers[0], lags=None),)))
    assert history.fine[0].lag is None


def test_a_day_of_samples_is_ten_minutes_and_six_hours():
    history = History()
    for second in range(0, 86_400, 10):
        history.note(at(second, second * 50))
    assert len(history.fine) == 60
    assert len(history.coarse) == 180
    assert history.coarse[-1].time_ms - history.coarse[0].time_ms == 179 * 120_000
    assert {each.rate for each in (*history.fine, *history.coarse)} == {50.0}


def test_a_wall_clock_that_jumps_changes_no_rate():
    history = History()
    for second, wall_ms in ((0, 0), (10, 3_600_000), (20, 20_000)):
        history.note(replace(at(second, 50 * second), time_ms=wall_ms))
    assert [(each.time_ms, each.rate) for each in history.fine] == [(3_600_000, 50.0), (20_000, 50.0)]
