"""Joins over complete inputs: as they are, crashed at commits, and killed on the embedded system and on Kafka."""

from __future__ import annotations

import pytest
from jobs.joining import AsOf, Intervals, Tables, inputs
from join_jobs import JoinJob

from samzapy.failpoints import FailPointReached, arm, disarm

JOBS = [Intervals, AsOf, Tables]


@pytest.fixture(autouse=True)
def no_fail_points():
    yield
    disarm()


@pytest.mark.parametrize("task", JOBS)
def test_a_join_that_crashes_at_commit_after_commit(tmp_path, task):
    job = JoinJob(tmp_path, task)
    job.load(inputs(task))
    often = {"task.commit.ms": "1", "task.window.ms": "1", "task.poll.batch.size": "50"}
    crashes = 0
    for step, nth in (("commit.3", 4), ("commit.4", 3), ("commit.5", 3), ("commit.6", 2), ("commit.2", 5)):
        arm(step, nth)
        try:
            job.run(**often)
        except FailPointReached:
            crashes += 1
        disarm()
    job.run()
    assert crashes >= 3
    job.check()
    assert job.run() == 0
    job.check()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("system", ["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
@pytest.mark.parametrize("task", JOBS)
def test_a_join_survives_kills(tmp_path, request, unique_topic, system, task):
    prefix, keys = "", {}
    if system == "kafka":
        prefix = unique_topic("x")[-40:].strip("-_")
        keys = {
            "systems.events.samza.factory": "kafka",
            "systems.events.consumer.bootstrap.servers": request.getfixturevalue("kafka"),
            "systems.events.default.stream.replication.factor": "1",
        }
    job = JoinJob(tmp_path, task, prefix, **keys)
    job.survive(inputs(task, 5_000), kills=6)
    job.check()
