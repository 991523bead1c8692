"""The order of a commit's steps: nothing is said before it is durable, and nothing is written by whoever does not own
it."""

import pytest
from jobs.memory_job import GUARANTEES, MemoryJob

from samzapy.api.stream import SystemStreamPartition
from samzapy.container.supervision.job_records import open_job
from samzapy.errors import ProducerError, TaskMigrated, TransactionAborted
from samzapy.failpoints import arm, disarm
from samzapy.system.local.factory import LogAdmin, MemorySystemFactory
from samzapy.system.local.producer import LogProducer

COMMIT_MS = {"task.commit.ms": "30000"}
WITHOUT = "at-least-once without transactions"
IN = SystemStreamPartition("mem", "in", 0)
FAILING: set[str] = set()


@pytest.fixture(autouse=True)
def nothing_fails():
    yield
    FAILING.clear()


class _FailingProducer(LogProducer):
    """Fails in the calls that `FAILING` names: `outputs` stands for the flush of a producer without transactions."""

    def flush(self, timeout_s=60.0):
        if "outputs" in FAILING and not self._calls.in_transaction:
            raise ProducerError("the outputs were not acknowledged")
        return super().flush(timeout_s)

    def commit(self):
        if "commit" in FAILING:
            raise TransactionAborted("the transaction was not committed")
        super().commit()


class FailingSystemFactory(MemorySystemFactory):
    def producer(self, settings, client_id, transactional_id=None, timeout_ms=60_000):
        made = super().producer(settings, client_id, transactional_id, timeout_ms)
        made.__class__ = _FailingProducer
        return made


def job_of(folder, guarantee, partitions=1, **keys):
    factory = {"systems.mem.samza.factory": f"{__name__}:FailingSystemFactory"}
    keys |= {"task.guarantee": guarantee.split()[0], "task.state.transactions": str(guarantee != WITHOUT).lower()}
    return MemoryJob(folder, partitions, **COMMIT_MS, **factory, **keys)


def checkpoint(job, task="Partition 0"):
    with open_job(job.config, "test") as (_, checkpoints):
        return checkpoints.read([task])[task]


@pytest.mark.parametrize("guarantee", ["at-least-once", "effectively-once"])
def test_an_output_without_an_acknowledgement_leaves_no_checkpoint(tmp_path, guarantee):
    job = job_of(tmp_path, guarantee)
    job.send((0, "a", {"id": 0}))
    arm("commit.2", 2, lambda _: FAILING.add("outputs"))
    with pytest.raises(ProducerError, match="outputs were not acknowledged"):
        job.run()
    assert checkpoint(job).input_offsets == {IN: 0}
    assert job.changelog() == {}


@pytest.mark.parametrize("guarantee", ["at-least-once", WITHOUT])
def test_a_commit_asks_once_where_its_changelogs_end(tmp_path, monkeypatch, guarantee):
    asked, by_commit, offsets = [], [], LogAdmin.offsets
    monkeypatch.setattr(
        LogAdmin, "offsets", lambda self, *ssps, **how: asked.append(ssps) or offsets(self, *ssps, **how)
    )
    job = job_of(tmp_path, guarantee)
    job.send((0, "a", {"id": 0}))
    arm("commit.3", 2, lambda _: asked.clear())
    arm("commit.4", 2, lambda _: by_commit.append(len(asked)))
    job.run()
    assert by_commit == [1]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_transaction_that_is_not_committed_changes_no_store_on_disk(tmp_path, guarantee):
    job = job_of(tmp_path, guarantee)
    job.send((0, "a", {"id": 0}))
    reached = []
    arm("commit.5a", 2, lambda _: FAILING.add("commit"))
    arm("commit.6", 2, reached.append)
    container, _ = job.container(owned=True)
    container._pauses = lambda failure: ()
    with pytest.raises(TransactionAborted):
        container.run()
    assert not reached
    FAILING.clear()
    disarm()
    job.run()
    assert job.changelog() == ({} if guarantee == "at-most-once" else {"a": 1})


@pytest.mark.parametrize("guarantee", [*GUARANTEES, WITHOUT])
@pytest.mark.parametrize("step", ["commit.1", "commit.2", "commit.3", "commit.4"])
def test_a_lease_that_is_lost_during_a_commit_writes_no_checkpoint(tmp_path, guarantee, step):
    job = job_of(tmp_path, guarantee)
    job.send((0, "a", {"id": 0, "do": "commit"}))
    container, coordinator = job.container()
    before = []

    def lose(_):
        before.append(checkpoint(job))
        coordinator.register("0")
        container._current._heartbeat._send()

    arm(step, 2, lose)
    with pytest.raises(TaskMigrated):
        container.run()
    assert checkpoint(job) == before[0]
    disarm()
    job.run()
    assert job.changelog() == ({} if guarantee == "at-most-once" else {"a": 1 + (guarantee == WITHOUT)})
