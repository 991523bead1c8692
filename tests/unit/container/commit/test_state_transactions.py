"""Who owns a job's state: one transaction a container in every guarantee, fenced whatever the last run looked like."""

import threading
from dataclasses import replace

import pytest
from jobs.memory_job import MemoryJob

from samzapy.admin import take_over as taking
from samzapy.api.checkpoint import Checkpoint, JobRecord, JobRun
from samzapy.api.stream import SystemStreamPartition
from samzapy.checkpoint.records import read_owner, write_owner
from samzapy.config.loader import load_job
from samzapy.container.outputs.producers import state_transactions, transactional_id
from samzapy.container.restart import build_container
from samzapy.container.supervision.job_records import open_job
from samzapy.coordinator.coordinator import Coordinator, LocalLease
from samzapy.coordinator.wire import JobSpec
from samzapy.errors import (
    ConfigError,
    EnvironmentFailure,
    JobTakenOver,
    ProducerFenced,
    SamzapyError,
    TaskMigrated,
    TransactionsRefused,
)
from samzapy.failpoints import arm, disarm
from samzapy.runner.prepare import prepare
from samzapy.system.clients import SystemClients, system_factory
from samzapy.system.local.factory import MemorySystemFactory
from samzapy.system.local.producer import LogProducer
from samzapy.testing import ManualClock

GUARANTEES = ["at-most-once", "at-least-once", "effectively-once", "exactly-once"]
COMMIT_MS = {"task.commit.ms": "30000"}


class WithoutTransactions(MemorySystemFactory):
    """A system of a user's own that has none."""

    def traits(self, settings):
        return replace(super().traits(settings), transactional=False)


class _Refused(LogProducer):
    def init_transactions(self):
        raise TransactionsRefused("init_transactions: not authorised: TransactionalId")


class RefusesIds(MemorySystemFactory):
    """As a broker whose ACLs grant no transactional id."""

    def producer(self, settings, client_id, transactional_id=None, timeout_ms=60_000):
        made = super().producer(settings, client_id, transactional_id, timeout_ms)
        if transactional_id is not None:
            made.__class__ = _Refused
        return made


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_late_commit_of_an_old_run_takes_no_state_back(tmp_path, guarantee):
    job = MemoryJob(tmp_path / "old", partitions=1, **{"task.guarantee": guarantee, **COMMIT_MS})
    job.send((0, "a", {"id": 0}))
    stopped, goes_on = threading.Event(), threading.Event()

    def stop(_):
        stopped.set()
        assert goes_on.wait(30)

    # The old run stands still in its second commit, as a stopped process would.
    arm("commit.2", 2, stop)
    old, _ = job.container(owned=True)
    failures = []

    def run():
        try:
            old.run()
        except SamzapyError as failure:
            failures.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    assert stopped.wait(30)
    disarm()
    job.send(*((0, "a", {"id": number}) for number in range(1, 5)))
    job.run(**{"job.logged.store.base.dir": str(tmp_path / "new")})
    owned = job.changelog()
    goes_on.set()
    thread.join(60)
    assert isinstance(failures[0], ProducerFenced | JobTakenOver)
    assert job.changelog() == owned
    with open_job(job.config, "test") as (_, checkpoints):
        assert checkpoints.read(["Partition 0"])["Partition 0"].input_offsets == {
            SystemStreamPartition("mem", "in", 0): 5
        }
    job.send((0, "a", {"id": 5}))
    job.run(**{"job.logged.store.base.dir": str(tmp_path / "third")})
    assert job.changelog()["a"] == owned["a"] + 1


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_container_has_one_transactional_producer_whatever_its_tasks(tmp_path, guarantee, monkeypatch):
    made = []

    def transactional(self, system, name):
        made.append(name)
        return original(self, system, name)

    original = SystemClients.transactional
    monkeypatch.setattr(SystemClients, "transactional", transactional)
    job = MemoryJob(tmp_path, partitions=20, **{"task.guarantee": guarantee, **COMMIT_MS})
    job.run()
    assert made == ["counting-1-0"]


ANY_JOB = load_job({"job.name": "x", "task.class": "a:B", "task.inputs": "s.in", "systems.s.samza.factory": "memory"})


def test_a_member_with_a_hyphen_is_refused():
    with pytest.raises(ValueError, match="hyphen"):
        transactional_id("orders-1", "0-1")


def test_checkpoints_of_a_job_whose_topic_is_spelled_alike_are_refused(tmp_path):
    job = MemoryJob(tmp_path, **{"job.name": "a-b"})
    prepare(job.config)
    with pytest.raises(EnvironmentFailure, match=r"job a_b \(id 1\) are those of job a-b \(id 1\)"):
        prepare(load_job(job.flat | {"job.name": "a_b", "stores.counts.changelog": "mem.other"}))


def test_a_run_with_fewer_containers_fences_all_those_of_the_run_before(tmp_path):
    job = MemoryJob(tmp_path, partitions=4)
    prepare(load_job(job.flat | {"job.container.count": "4"}))
    settings = job.config.systems["mem"]
    old = [system_factory(settings).producer(settings, "old", f"counting-1-{number}") for number in range(4)]
    for producer in old:
        producer.init_transactions()
        producer.begin()
    prepare(job.config)
    for producer in old:
        with pytest.raises(ProducerFenced):
            producer.commit()


def test_what_a_dead_run_left_open_is_aborted_by_a_run_of_other_containers(tmp_path):
    job = MemoryJob(tmp_path, partitions=4)
    prepare(load_job(job.flat | {"job.container.count": "4"}))
    settings = job.config.systems["mem"]
    dead = system_factory(settings).producer(settings, "dead", "counting-1-3")
    dead.init_transactions()
    dead.begin()
    with open_job(job.config, "test") as (_, checkpoints):
        checkpoints.write({"Partition 3": Checkpoint({SystemStreamPartition("mem", "in", 3): 99})}, dead)
        dead.flush()
    job.run()
    with open_job(job.config, "test") as (_, checkpoints):
        assert checkpoints.read(["Partition 3"])["Partition 3"].input_offsets == {
            SystemStreamPartition("mem", "in", 3): 0
        }


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"task.state.transactions": "false"}, "task.state.transactions"),
        ({"systems.mem.samza.factory": f"{__name__}:WithoutTransactions"}, "task.checkpoint.system"),
        ({"systems.mem.samza.factory": f"{__name__}:RefusesIds"}, "systems.mem.samza.factory"),
    ],
)
def test_a_job_without_transactions_runs_and_says_what_that_weakens(tmp_path, keys, key):
    job = MemoryJob(tmp_path, partitions=1, **keys)
    job.send((0, "a", {"id": 0}))
    prepared = prepare(job.config, until_end=True)
    said = {each.key: each.message for each in prepared.guarantee_warnings}
    assert "state may hold inputs twice, and may go back while two runs overlap" in said[key]
    assert prepared.transactions is False
    coordinator = Coordinator("counting", JobSpec(prepared.model, job.config.raw, prepared.ends), 5.0)
    model = prepared.model.containers[0]
    lease = LocalLease(coordinator, "0")
    build_container(job.config, model, lease, ends=prepared.ends, transactions=prepared.transactions).run()
    assert job.changelog() == {"a": 1}
    with open_job(job.config, "test") as (_, checkpoints):
        assert not checkpoints.read(["Partition 0"])["Partition 0"].atomic


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
@pytest.mark.parametrize("changelog", ["", "mem.log"])
def test_checkpoints_that_may_go_back_need_no_transaction(tmp_path, changelog, guarantee, monkeypatch):
    begin, calls = LogProducer.begin, []
    monkeypatch.setattr(LogProducer, "begin", lambda self: calls.append(self) or begin(self))
    MemoryJob(tmp_path, **COMMIT_MS, **{"stores.counts.changelog": changelog, "task.guarantee": guarantee}).run()
    assert bool(calls) is (changelog != "" or guarantee == "exactly-once")


@pytest.mark.parametrize("guarantee", ["effectively-once", "exactly-once"])
def test_a_guarantee_that_needs_transactions_is_refused_without_them(tmp_path, guarantee):
    job = MemoryJob(tmp_path, **{"task.guarantee": guarantee, **COMMIT_MS})
    with pytest.raises(ConfigError, match=r"task\.state\.transactions: must be true"):
        load_job(job.flat | {"task.state.transactions": "false"})
    own = load_job(job.flat | {"systems.mem.samza.factory": f"{__name__}:WithoutTransactions"})
    with pytest.raises(ConfigError, match=r"task\.checkpoint\.system: .*-once needs a system with transactions"):
        state_transactions(own)
    with pytest.raises(TransactionsRefused):
        prepare(load_job(job.flat | {"systems.mem.samza.factory": f"{__name__}:RefusesIds"}))


def plain_owner(job, host="elsewhere", lease_ms=7000):
    with open_job(job.config, "test") as (_, checkpoints):
        write_owner(
            checkpoints, JobRun("before", 1, host, 2, ("counting", "1"), 5, ("counting-1-0",), lease_ms=lease_ms)
        )


def claim(job, waits):
    config = job.config
    with open_job(config, "test") as (clients, checkpoints):
        state = state_transactions(config)
        return taking.take_over(config, clients, checkpoints, state, ["0"], ["Partition 0"], waits.append)


def test_a_run_waits_out_the_lease_of_one_that_nothing_fences_or_has_ended(tmp_path):
    job = MemoryJob(tmp_path, partitions=1)
    prepare(job.config)
    plain_owner(job)
    waits = []
    assert claim(job, waits).run.lease_ms == 0
    assert waits == [7.0]
    claim(job, waits)
    assert waits == [7.0]
    plain_owner(job)
    with open_job(job.config, "test") as (_, checkpoints):
        checkpoints.write_record(JobRecord.ENDED, {"run": "before"})
    claim(job, waits)
    assert waits == [7.0]


def test_a_run_of_at_most_once_is_waited_for(tmp_path):
    job = MemoryJob(tmp_path, partitions=1, **{"task.guarantee": "at-most-once", "job.spark.lease.ms": "7000"})
    assert prepare(job.config).transactions
    with open_job(job.config, "test") as (_, checkpoints):
        write_owner(checkpoints, replace(read_owner(checkpoints), host="elsewhere"))
    waits = []
    claim(job, waits)
    assert waits == [7.0]


def test_a_poll_with_positions_behind_a_newer_attempt_is_not_processed(tmp_path):
    job = MemoryJob(tmp_path, partitions=1, **{"task.guarantee": "at-most-once", **COMMIT_MS})
    job.run()
    job.send((0, "a", {"id": 0}))
    clock = ManualClock()
    container, coordinator = job.container(clock=clock)

    def superseded(_):
        clock.advance(60)
        coordinator.register("0")

    arm("ahead.1", 1, superseded)
    with pytest.raises(TaskMigrated):
        container.run()
    assert job.outputs() == []


def test_a_poll_is_not_processed_if_another_run_took_over_meanwhile(tmp_path):
    job = MemoryJob(tmp_path, partitions=1, **{"task.guarantee": "at-most-once", **COMMIT_MS})
    job.run()
    job.send((0, "a", {"id": 0}), (0, "a", {"id": 1}))
    clock = ManualClock()
    container, _ = job.container(clock=clock, owned=True, **{"task.poll.batch.size": "1"})

    def superseded(_):
        clock.advance(60)
        prepare(job.config)  # the coordinator of the earlier run does not know of this one

    arm("ahead.1", 2, superseded)
    with pytest.raises(JobTakenOver):
        container.run()
    assert len(job.outputs()) == 1


def test_a_run_cut_off_while_it_waited_leaves_the_waiting_to_the_next(tmp_path):
    job = MemoryJob(tmp_path, partitions=1)
    prepare(job.config)
    plain_owner(job)

    class Cutting(list):
        def append(self, _):
            raise InterruptedError

    with pytest.raises(InterruptedError):
        claim(job, Cutting())
    with open_job(job.config, "test") as (_, checkpoints):
        owner = read_owner(checkpoints)
        write_owner(checkpoints, replace(owner, host="elsewhere"))
    waits = []
    claim(job, waits)
    assert waits == [7.0]


def test_names_and_ids_that_read_alike_make_two_jobs():
    names_and_ids = [("orders", "v2-1"), ("orders-v2", "1"), ("orders", "1"), ("orders", "2")]
    assert len({replace(ANY_JOB, name=name, id=job_id).job_name for name, job_id in names_and_ids}) == 4
