"""Somebody else writes to a changelog of a job, on a real Kafka: the job refuses to go on, and its state is never built
on what it has not written. What leaves no records behind (aborted transactions, ends of transactions) does no harm.

A foreign record says that its key has the id -1: whoever had read it would write it on.
"""

import json
import uuid
from contextlib import closing

import pytest
from control_records import write_marker
from crash_job import CrashJob, fold, measured
from outcomes import GUARANTEES

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord
from samzapy.config.loader import load_job
from samzapy.errors import ForeignRecords
from samzapy.failpoints import FailPointReached, arm, disarm
from samzapy.system.clients import system_factory

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

FOREIGN = b"[-1]"
KEY = "key-0-0"
#: Before a commit sends anything, right behind its records, in the place of its end, and behind that.
WHILE_IT_RUNS = ["commit.1", "commit.4", "commit.5a", "commit.5"]


@pytest.fixture
def job(kafka, tmp_path):
    """`job(guarantee)`: a ledger that has processed its first forty inputs."""
    jobs = []

    def make(guarantee, **keys):
        system = {"systems.sys.samza.factory": "kafka", "systems.sys.consumer.bootstrap.servers": kafka}
        jobs.append(CrashJob(system, uuid.uuid4().hex[:8], tmp_path / "state", guarantee))
        jobs[-1].flat |= keys
        jobs[-1].send(40)
        jobs[-1].run()
        return jobs[-1]

    yield make
    disarm()
    for made in jobs:
        made.close()


def commits_often():
    """Keys by which a run commits several times."""
    return {"stores.ledger.uncommitted.max.bytes": "100", "task.poll.batch.size": "10"}


def run_twice(job):
    """The last commit of a run does not see what comes behind it."""
    job.run()
    job.run()


def without_the_foreign(job, before):
    """The state as the job itself has written it: the records of the others taken out of the log, which held
    `before`."""
    records = [(key.decode(), value) for key, value in job.new_records(f"{job.prefix}-changelog")]
    own = [(key, json.loads(value)) for key, value in records if value not in {None, FOREIGN}]
    assert not [ids for _, ids in own if -1 in ids], "the state was built on a foreign record"
    return before | dict(own)


def refused(job, outcome, scenario, before, after_s=None):
    """Hold what is committed now to the promises; the rest of the inputs waits for somebody to mend the changelog."""
    positions = job.positions()
    done = list(job.ids_before(positions))
    numbers = measured(job.outputs(), without_the_foreign(job, before), done, job.flat["task.guarantee"])
    outcome(scenario, guarantee=job.flat["task.guarantee"], system="kafka", events=len(done), faults=1, **numbers)
    assert job.positions() == positions


@pytest.mark.parametrize("local_state", ["kept", "lost"])
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_record_written_while_the_job_stood_is_refused_with_its_place(job, guarantee, local_state, tmp_path, outcome):
    ledger = job(guarantee)
    before = ledger.state()
    assert before == fold(range(40))
    place = ledger.append_change(KEY, FOREIGN)
    ledger.send(40)
    if local_state == "lost":
        ledger.flat["job.logged.store.base.dir"] = str(tmp_path / "elsewhere")
    for _ in range(2):
        with pytest.raises(ForeignRecords, match="store adopt") as raised:
            ledger.run()
        assert place in str(raised.value)
    assert sum(ledger.positions()) == 40
    refused(ledger, outcome, "foreign record while the job stood", before)


@pytest.mark.parametrize("step", WHILE_IT_RUNS)
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_record_written_at_any_step_of_a_commit_is_refused(job, guarantee, step, outcome):
    ledger = job(guarantee, **commits_often())
    before = ledger.state()
    places = []
    arm(step, 2, lambda _: places.append(ledger.append_change(KEY, FOREIGN)))
    ledger.send(40)
    with pytest.raises(ForeignRecords) as raised:
        run_twice(ledger)
    assert places[0] in str(raised.value)
    with pytest.raises(ForeignRecords):
        ledger.run()
    refused(ledger, outcome, "foreign record while the job ran", before)


def aborted_by_somebody_else(ledger, kafka):
    settings = load_job(ledger.flat).systems["sys"]
    with closing(system_factory(settings).producer(settings, "test", f"stranger-{ledger.prefix}")) as producer:
        producer.init_transactions()
        producer.begin()
        producer.send([OutgoingRecord(f"{ledger.prefix}-changelog", KEY.encode(), FOREIGN, 0)])
        producer.flush()
        producer.abort()


def ends_of_transactions(ledger, kafka):
    for producer_id in (1 << 40, 1 << 41):
        for committed in (True, False):
            write_marker(kafka, f"{ledger.prefix}-changelog", 0, producer_id, committed=committed)


@pytest.mark.parametrize("what", [aborted_by_somebody_else, ends_of_transactions], ids=lambda what: what.__name__)
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_what_leaves_no_committed_record_is_never_foreign(job, kafka, guarantee, what, tmp_path, outcome):
    ledger = job(guarantee, **commits_often())
    ssp = SystemStreamPartition("sys", f"{ledger.prefix}-changelog", 0)
    end = ledger.admin.offsets([ssp])[ssp].upcoming
    what(ledger, kafka)
    assert ledger.admin.offsets([ssp])[ssp].upcoming > end
    struck = []
    for nth, step in enumerate(WHILE_IT_RUNS, start=1):
        arm(step, nth, lambda step: struck.append((step, what(ledger, kafka))))
    ledger.send(80)
    ledger.run()
    assert sorted(step for step, _ in struck) == sorted(WHILE_IT_RUNS)
    ledger.send(20)
    # A crash with an open transaction, aborted by whoever comes next, and no local state then.
    arm("commit.4")
    with pytest.raises(FailPointReached):
        ledger.run()
    disarm()
    ledger.flat["job.logged.store.base.dir"] = str(tmp_path / "elsewhere")
    ledger.run()
    outcome("nothing foreign: aborted transactions, control records", **ledger.numbers(faults=6))
