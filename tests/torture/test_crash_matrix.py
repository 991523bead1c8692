"""Every commit and start step x every guarantee x every system: crash there, start again, hold the promise table to it.

| guarantee        | lost inputs                | repeated outputs               | state                       |
| at-most-once     | those since the last commit | none                          | never doubles               |
| at-least-once    | none                       | those since the last commit    | may hold them twice         |
| effectively-once | none                       | the same id again              | each input applied once     |
| exactly-once     | none                       | none for committed readers     | equals the fold             |
"""

import uuid

import pytest
from crash_job import CrashJob, measured

from samzapy.failpoints import FailPointReached, disarm

STEPS = [f"commit.{n}" for n in range(1, 8)] + [f"start.{n}" for n in (1, 2, 3, 5, 6, 7)]
GUARANTEES = ["at-most-once", "at-least-once", "effectively-once", "exactly-once"]


@pytest.fixture(params=["memory", "local", pytest.param("kafka", marks=pytest.mark.kafka)])
def system_keys(request, tmp_path):
    if request.param == "memory":
        return {"systems.sys.samza.factory": "memory", "systems.sys.cluster": uuid.uuid4().hex}
    if request.param == "local":
        return {"systems.sys.samza.factory": "local", "systems.sys.path": str(tmp_path / "local.db")}
    bootstrap = request.getfixturevalue("kafka")
    return {"systems.sys.samza.factory": "kafka", "systems.sys.consumer.bootstrap.servers": bootstrap}


CASES = [(guarantee, step) for guarantee in GUARANTEES for step in STEPS]
#: Between the checkpoint record and the transaction's commit.
CASES += [("effectively-once", "commit.5a"), ("exactly-once", "commit.5a")]


@pytest.mark.parametrize("local_state", ["kept", "lost"])
@pytest.mark.parametrize(("guarantee", "step"), CASES)
def test_crash_matrix(system_keys, guarantee, step, local_state, tmp_path, monkeypatch, outcome):
    system = system_keys["systems.sys.samza.factory"]
    job = CrashJob(system_keys, uuid.uuid4().hex[:8], tmp_path / "state", guarantee)
    job.send(20)
    job.run()
    job.send(20)
    # The final commit of the second run crashes; the first commit of a run only says where it begins.
    monkeypatch.setenv("SAMZAPY_FAIL", f"{step}:1:raise")
    try:
        job.run()
        crashed = False
    except FailPointReached:
        crashed = True
    disarm()
    monkeypatch.delenv("SAMZAPY_FAIL")
    job.run(**({"job.logged.store.base.dir": str(tmp_path / "elsewhere")} if local_state == "lost" else {}))
    assert crashed
    outputs, state = job.outputs(), job.state()
    job.close()
    numbers = measured(outputs, state, range(40), guarantee)
    outcome("crash at a commit or start step", guarantee=guarantee, system=system, events=40, faults=1, **numbers)
    assert set(range(20)) <= set(outputs)
