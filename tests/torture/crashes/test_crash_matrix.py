"""Every commit and start step x every guarantee x every system: crash there, start again, hold the promise table to it.

| guarantee        | lost inputs                | repeated outputs               | state                       |
| at-most-once     | those since the last commit | none                          | never doubles               |
| at-least-once    | none                       | those since the last commit    | equals the fold             |
| effectively-once | none                       | the same id again              | equals the fold             |
| exactly-once     | none                       | none for committed readers     | equals the fold             |
"""

import uuid

import pytest
from crash_job import CrashJob
from crash_rounds import CrashRounds, RoundsByCase

#: 3a: outputs are acknowledged, sinks are not; 5a: between the checkpoint record and the transaction's commit.
STEPS = [f"commit.{n}" for n in ("1", "2", "3a", "3", "4", "5a", "5", "6", "7")]
STEPS += [f"start.{n}" for n in (1, 2, 3, 5, 6, 7)]
GUARANTEES = ["at-most-once", "at-least-once", "effectively-once", "exactly-once"]
CASES = [(guarantee, step) for guarantee in GUARANTEES for step in STEPS]


@pytest.fixture(params=["memory", "local", pytest.param("kafka", marks=pytest.mark.kafka)], scope="module")
def system(request, tmp_path_factory):
    """A system's name and its keys in a job file."""
    keys = {"systems.sys.samza.factory": request.param}
    if request.param == "memory":
        return request.param, keys | {"systems.sys.cluster": uuid.uuid4().hex}
    if request.param == "local":
        return request.param, keys | {"systems.sys.path": str(tmp_path_factory.mktemp("local") / "local.db")}
    return request.param, keys | {"systems.sys.consumer.bootstrap.servers": request.getfixturevalue("kafka")}


@pytest.fixture(scope="module")
def rounds():
    jobs = RoundsByCase()
    yield jobs
    jobs.close()


@pytest.mark.parametrize("local_state", ["kept", "lost"])
@pytest.mark.parametrize(("guarantee", "step"), CASES)
def test_crash_matrix(system, rounds, guarantee, step, local_state, tmp_path_factory, outcome):
    name, keys = system

    def make():
        job = CrashJob(keys, uuid.uuid4().hex[:8], tmp_path_factory.mktemp("state") / "state", guarantee)
        return CrashRounds(job, guarantee, events=20, lost_state=local_state == "lost")

    with rounds.of((name, guarantee, local_state), make) as crashed:
        numbers = crashed.run(step)
    outcome("crash at a commit or start step", guarantee=guarantee, system=name, **numbers)
