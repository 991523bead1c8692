"""A SQL sink through crashes at every step of a commit and of a start, on SQLite and on a real PostgreSQL.

| guarantee        | rows                                                    |
| at-most-once     | none twice; those since the last commit may be missing  |
| at-least-once    | one for each input; the numbers in them may be too high |
| effectively-once | one for each input, as if nothing had happened          |
| exactly-once     | one for each input, as if nothing had happened          |
"""

import os
import signal
import uuid

import pytest
from sink_job import SinkJob, expected, expected_latest, expected_offsets

from samzapy.errors import TaskFailed
from samzapy.failpoints import FailPointReached, arm, disarm

#: Some two hundred crashes: `make torture`.
pytestmark = pytest.mark.slow

COMMIT_STEPS = [f"commit.{n}" for n in ("1", "2", "3a", "3", "4", "5", "6", "7")] + ["sink.1", "sink.2", "sink.3"]
START_STEPS = [f"start.{n}" for n in (1, 2, 3, 5, 6, 7)]
GUARANTEES = ["at-most-once", "at-least-once", "effectively-once", "exactly-once"]
CASES = [(guarantee, step) for guarantee in GUARANTEES for step in [*COMMIT_STEPS, *START_STEPS]]
CASES += [("effectively-once", "commit.5a"), ("exactly-once", "commit.5a")]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'rows.db'}"
    return request.getfixturevalue("postgres_server").create_database(f"rows-{uuid.uuid4().hex}")


@pytest.fixture
def make_job(tmp_path, url):
    jobs = []

    def make(guarantee, mode="transactional"):
        jobs.append(SinkJob(tmp_path, url, guarantee, mode))
        return jobs[-1]

    yield make
    disarm()
    for job in jobs:
        job.close()


def once_a_run(guarantee, step):
    """Whether a run passes the point once: at most once, the checkpoints go with the polls."""
    return step.startswith("start") or (guarantee, step) == ("at-most-once", "commit.5")


@pytest.mark.parametrize(("guarantee", "step"), CASES)
def test_rows_keep_the_promise_of_the_guarantee_after_a_crash_at(make_job, guarantee, step):
    job = make_job(guarantee)
    job.send(20)
    job.run()
    job.send(30)
    # Of the commits of the second run one in the middle crashes: something is committed before it, and more comes.
    arm(step, 1 if once_a_run(guarantee, step) else 3)
    with pytest.raises((FailPointReached, TaskFailed), match=step):
        job.run()
    job.run()
    rows = job.rows()
    assert job.offsets() == expected_offsets(50)
    if guarantee == "at-most-once":
        ids = [i for i, _, _ in rows]
        assert len(set(ids)) == len(ids)
        assert set(range(20)) <= set(ids)
    elif guarantee == "at-least-once":
        assert [row[:2] for row in rows] == [row[:2] for row in expected(50)]
    else:
        assert rows == expected(50)


@pytest.mark.parametrize("step", ["commit.3a", "sink.2", "commit.3", "commit.4"])
def test_upserted_rows_follow_the_state_after_a_crash_at(make_job, step):
    job = make_job("exactly-once", "upsert")
    job.send(20)
    job.run()
    job.send(30)
    arm(step, 3)
    with pytest.raises((FailPointReached, TaskFailed), match=step):
        job.run()
    job.run()
    assert job.latest() == expected_latest(50)
    assert job.offsets() == expected_offsets(50)


@pytest.mark.parametrize(
    ("url", "step"),
    # In SQLite, a stopped transaction keeps the lock of the file for as long as it is stopped.
    [("sqlite", "commit.3a"), ("postgres", "commit.3a"), ("postgres", "sink.2")],
    indirect=["url"],
)
def test_a_stopped_attempt_writes_nothing_once_its_successor_has_started(make_job, tmp_path, step):
    job = make_job("at-least-once")
    job.send(20)
    zombie = job.start(f"{step}:2:stop")
    try:
        _, status = os.waitpid(zombie.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), (tmp_path / "job-0.err").read_text()
        # The successor has a state folder of its own, as on another machine: the zombie holds its lock.
        job.run(**{"job.logged.store.base.dir": str(tmp_path / "elsewhere")})
        job.send(10)
        os.kill(zombie.pid, signal.SIGCONT)
        assert zombie.wait(60) == 1
    finally:
        zombie.kill()
        zombie.wait()
    assert "a newer attempt" in (tmp_path / "job-0.err").read_text()
    assert job.offsets() == expected_offsets(20)
    assert [row[:2] for row in job.rows()] == [row[:2] for row in expected(20)]
    job.run(**{"job.logged.store.base.dir": str(tmp_path / "elsewhere")})
    assert [row[:2] for row in job.rows()] == [row[:2] for row in expected(30)]
