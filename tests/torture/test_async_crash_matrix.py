"""Crashes with eight messages in flight: the promise table holds for asynchronous tasks as it does for others."""

import uuid

import pytest
from crash_job import CrashJob, fold, measured

from samzapy.failpoints import FailPointReached, disarm

STEPS = [f"commit.{n}" for n in range(1, 8)] + [f"start.{n}" for n in (1, 2, 3, 5, 6, 7)]
LEDGERS = ["CoroutineLedger", "CallbackLedger"]
CRASH = "crash with messages in flight"
GUARANTEES = ["at-most-once", "at-least-once", "effectively-once", "exactly-once"]

CASES = [(guarantee, step) for guarantee in GUARANTEES for step in STEPS]
CASES += [("effectively-once", "commit.5a"), ("exactly-once", "commit.5a")]


@pytest.fixture(params=["memory", "local"])
def system_keys(request, tmp_path):
    if request.param == "memory":
        return {"systems.sys.samza.factory": "memory", "systems.sys.cluster": uuid.uuid4().hex}
    return {"systems.sys.samza.factory": "local", "systems.sys.path": str(tmp_path / "local.db")}


def ledger_job(system_keys, tmp_path, guarantee, task, **keys):
    job = CrashJob(system_keys, uuid.uuid4().hex[:8], tmp_path / "state", guarantee)
    job.flat |= {"task.class": f"async_ledgers:{task}", "task.max.concurrency": "8", **keys}
    return job


def in_order(state):
    return {key: sorted(ids) for key, ids in state.items()}


@pytest.mark.parametrize("task", LEDGERS)
@pytest.mark.parametrize("key_order", ["true", "false"])
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_without_a_crash_every_guarantee_applies_every_message_once(system_keys, tmp_path, guarantee, task, key_order):
    job = ledger_job(system_keys, tmp_path, guarantee, task, **{"task.async.key.order": key_order})
    job.send(200)
    report = job.run()
    outputs, state = job.outputs(), job.state()
    job.close()
    assert report.processed == 200
    assert set(outputs) == set(range(200))
    assert max(outputs.values()) == 1
    if key_order == "true":
        assert state == fold(range(200))
    else:
        assert in_order(state) == fold(range(200))


@pytest.mark.parametrize("task", LEDGERS)
@pytest.mark.parametrize(("guarantee", "step"), CASES)
def test_async_crash_matrix(system_keys, guarantee, step, task, tmp_path, monkeypatch, outcome):
    job = ledger_job(system_keys, tmp_path, guarantee, task, **{"task.async.key.order": "true"})
    job.send(40)
    job.run()
    job.send(40)
    monkeypatch.setenv("SAMZAPY_FAIL", f"{step}:1:raise")
    with pytest.raises(FailPointReached):
        job.run()
    disarm()
    monkeypatch.delenv("SAMZAPY_FAIL")
    job.run()
    outputs, state = job.outputs(), job.state()
    job.close()
    numbers = measured(outputs, state, range(80), guarantee)
    system = system_keys["systems.sys.samza.factory"]
    outcome(CRASH, guarantee=guarantee, system=system, events=80, faults=1, **numbers)


@pytest.mark.parametrize("task", LEDGERS)
@pytest.mark.parametrize("nth", [2, 5])
@pytest.mark.parametrize("step", ["commit.1", "commit.3", "commit.4", "commit.5", "commit.6"])
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_crash_in_a_commit_amid_messages_in_flight(
    system_keys, guarantee, step, nth, task, tmp_path, monkeypatch, outcome
):
    keys = {"task.async.key.order": "true", "stores.ledger.uncommitted.max.bytes": "100", "task.poll.batch.size": "20"}
    job = ledger_job(system_keys, tmp_path, guarantee, task, **keys)
    job.send(40)
    job.run()
    job.send(400)
    monkeypatch.setenv("SAMZAPY_FAIL", f"{step}:{nth}:raise")
    with pytest.raises(FailPointReached):
        job.run()
    disarm()
    monkeypatch.delenv("SAMZAPY_FAIL")
    job.run()
    outputs, state = job.outputs(), job.state()
    job.close()
    numbers = measured(outputs, state, range(440), guarantee)
    system = system_keys["systems.sys.samza.factory"]
    outcome(CRASH, guarantee=guarantee, system=system, events=440, faults=1, **numbers)
