"""Crashes with eight messages in flight: the promise table holds for asynchronous tasks as it does for others."""

import uuid

import pytest
from crash_job import CrashJob, fold
from crash_rounds import CrashRounds, RoundsByCase

STEPS = [f"commit.{n}" for n in ("1", "2", "3a", "3", "4", "5a", "5", "6", "7")]
STEPS += [f"start.{n}" for n in (1, 2, 3, 5, 6, 7)]
LEDGERS = ["CoroutineLedger", "CallbackLedger"]
CRASH = "crash with messages in flight"
IN_KEY_ORDER = {"task.async.key.order": "true"}
GUARANTEES = ["at-most-once", "at-least-once", "effectively-once", "exactly-once"]

CASES = [(guarantee, step) for guarantee in GUARANTEES for step in STEPS]


@pytest.fixture(params=["memory", "local"], scope="module")
def system(request, tmp_path_factory):
    """A system's name and its keys in a job file."""
    keys = {"systems.sys.samza.factory": request.param}
    if request.param == "memory":
        return request.param, keys | {"systems.sys.cluster": uuid.uuid4().hex}
    return request.param, keys | {"systems.sys.path": str(tmp_path_factory.mktemp("local") / "local.db")}


@pytest.fixture(scope="module")
def rounds():
    jobs = RoundsByCase()
    yield jobs
    jobs.close()


def ledger_job(system_keys, folder, guarantee, task, **keys):
    job = CrashJob(system_keys, uuid.uuid4().hex[:8], folder / "state", guarantee)
    job.flat |= {"task.class": f"async_ledgers:{task}", "task.max.concurrency": "8", **keys}
    return job


def in_order(state):
    return {key: sorted(ids) for key, ids in state.items()}


@pytest.mark.parametrize("task", LEDGERS)
@pytest.mark.parametrize("key_order", ["true", "false"])
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_without_a_crash_every_guarantee_applies_every_message_once(system, tmp_path, guarantee, task, key_order):
    _, keys = system
    job = ledger_job(keys, tmp_path, guarantee, task, **{"task.async.key.order": key_order})
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
def test_async_crash_matrix(system, rounds, guarantee, step, task, tmp_path_factory, outcome):
    name, keys = system

    def make():
        job = ledger_job(keys, tmp_path_factory.mktemp("state"), guarantee, task, **IN_KEY_ORDER)
        return CrashRounds(job, guarantee, events=40)

    with rounds.of((name, guarantee, task, "at the end"), make) as crashed:
        numbers = crashed.run(step)
    outcome(CRASH, guarantee=guarantee, system=name, **numbers)


@pytest.mark.parametrize("task", LEDGERS)
@pytest.mark.parametrize("nth", [2, 5])
@pytest.mark.parametrize("step", ["commit.1", "commit.3", "commit.4", "commit.5", "commit.6"])
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_crash_in_a_commit_amid_messages_in_flight(
    system, rounds, guarantee, step, nth, task, tmp_path_factory, outcome
):
    name, keys = system

    def make():
        often = {"stores.ledger.uncommitted.max.bytes": "100", "task.poll.batch.size": "20"}
        job = ledger_job(keys, tmp_path_factory.mktemp("state"), guarantee, task, **IN_KEY_ORDER, **often)
        return CrashRounds(job, guarantee, events=400)

    with rounds.of((name, guarantee, task, "amid"), make) as crashed:
        numbers = crashed.run(step, nth)
    outcome(CRASH, guarantee=guarantee, system=name, **numbers)
