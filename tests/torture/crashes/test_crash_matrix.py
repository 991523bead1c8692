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
IN_FLIGHT = {"task.max.concurrency": "8", "task.async.key.order": "true"}
#: The kinds of tasks that are no StreamTask, and their keys.
TASKS = {
    "batches": {"task.class": "crash_job:LedgerBatchTask"},
    "coroutines": IN_FLIGHT | {"task.class": "async_ledgers:CoroutineLedger"},
    "callbacks": IN_FLIGHT | {"task.class": "async_ledgers:CallbackLedger"},
}
OFTEN = {"stores.ledger.uncommitted.max.bytes": "100", "task.poll.batch.size": "20"}


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


@pytest.fixture
def crash(system, rounds, tmp_path_factory, outcome):
    """Crashes a job of this kind at a step, and holds what came of it to the promise table."""

    def crash_at(scenario, guarantee, step, nth=1, *, keys=None, events=20, lost_state=False):
        name, system_keys = system

        def make():
            job = CrashJob(system_keys, uuid.uuid4().hex[:8], tmp_path_factory.mktemp("state") / "state", guarantee)
            job.flat |= keys or {}
            return CrashRounds(job, guarantee, events=events, lost_state=lost_state)

        with rounds.of((name, guarantee, str(keys), lost_state), make) as crashed:
            numbers = crashed.run(step, nth)
        outcome(scenario, guarantee=guarantee, system=name, **numbers)

    return crash_at


@pytest.mark.parametrize("local_state", ["kept", "lost"])
@pytest.mark.parametrize(("guarantee", "step"), CASES)
def test_crash_matrix(crash, guarantee, step, local_state):
    crash("crash at a commit or start step", guarantee, step, lost_state=local_state == "lost")


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("guarantee", "step"), CASES)
def test_crash_matrix_of_other_tasks(crash, guarantee, step, task):
    crash(f"crash of {task}", guarantee, step, keys=TASKS[task], events=40)


@pytest.mark.parametrize("task", ["coroutines", "callbacks"])
@pytest.mark.parametrize("nth", [2, 5])
@pytest.mark.parametrize("step", ["commit.1", "commit.3", "commit.4", "commit.5", "commit.6"])
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_crash_in_a_commit_amid_messages_in_flight(crash, guarantee, step, nth, task):
    crash("crash with messages in flight", guarantee, step, nth, keys=TASKS[task] | OFTEN, events=400)
