"""Every commit step x every guarantee x every system, for a batch task: the promise table holds as for other tasks."""

import uuid

import pytest
from crash_job import CrashJob
from crash_rounds import CrashRounds, KilledRounds, RoundsByCase
from test_crash_matrix import GUARANTEES, STEPS, system

__all__ = ["system"]

COMMITS = [step for step in STEPS if step.startswith("commit.")]
CASES = [(guarantee, step) for guarantee in GUARANTEES for step in COMMITS]
#: After each of these a commit is neither begun nor done.
KILLS = ["commit.2", "commit.3", "commit.4", "commit.5a", "commit.5", "commit.6"]


@pytest.fixture(scope="module")
def rounds():
    jobs = RoundsByCase()
    yield jobs
    jobs.close()


def batch_job(keys, folder, guarantee):
    job = CrashJob(keys, uuid.uuid4().hex[:8], folder / "state", guarantee)
    # An at-most-once start waits for as long as the process before may go on.
    job.flat |= {"task.class": "crash_job:LedgerBatchTask", "job.spark.lease.ms": "1000"}
    return job


@pytest.mark.parametrize(("guarantee", "step"), CASES)
def test_a_crash_in_a_commit_of_batches(system, rounds, guarantee, step, tmp_path_factory, outcome):
    name, keys = system

    def make():
        return CrashRounds(batch_job(keys, tmp_path_factory.mktemp("state"), guarantee), guarantee, events=20)

    with rounds.of((name, guarantee), make) as crashed:
        numbers = crashed.run(step)
    outcome("crash of a batch task", guarantee=guarantee, system=name, **numbers)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_batch_task_that_is_killed_in_its_commits(guarantee, tmp_path, outcome):
    keys = {"systems.sys.samza.factory": "local", "systems.sys.path": str(tmp_path / "local.db")}
    job = batch_job(keys, tmp_path, guarantee)
    job.send(20)
    job.run()
    killed = KilledRounds(job, guarantee, events=20)
    for step in KILLS:
        if guarantee != "at-most-once" or step != "commit.2":
            outcome("SIGKILL of a batch task", guarantee=guarantee, system="local", **killed.run(step))
    job.close()
