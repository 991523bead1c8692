"""The two guarantees that lose or repeat, held to how much: what a crash may take is the window since the last commit.

The task commits every ten messages and polls bring ten at a time, so the window is known to the message. A crash at
each step of the third commit of a run, and one amid its third window, must cost exactly what the step says:

lost       inputs that never came out            missing   inputs that the state does not have
repeated   outputs beyond the first of an input  doubled   times that the state has an input beyond the first
"""

import uuid
from collections import Counter
from typing import NamedTuple

import pytest
from crash_job import CrashJob, LedgerTask

from samzapy.errors import TaskFailed
from samzapy.failpoints import FailPointReached, disarm, reach

WINDOW = 10
BEFORE, ROUND = 20, 60


class Cost(NamedTuple):
    lost: int = 0
    repeated: int = 0
    missing: int = 0
    doubled: int = 0


class CommittingLedgerTask(LedgerTask):
    """Asks for a commit after every tenth message; `test.process` is passed amid the work on each."""

    def init(self, context):
        super().init(context)
        self.since = 0

    def process(self, envelope, collector, coordinator):
        super().process(envelope, collector, coordinator)
        reach("test.process")
        self.since += 1
        if self.since == WINDOW:
            self.since = 0
            coordinator.commit()


AMID = f"test.process:{2 * WINDOW + 5}"
AT_MOST_ONCE = {
    # The offsets of the poll are committed already; its outputs and changes are not.
    AMID: Cost(lost=WINDOW, missing=WINDOW),
    "commit.1:3": Cost(lost=WINDOW, missing=WINDOW),
    "commit.2:3": Cost(lost=WINDOW, missing=WINDOW),
    "commit.3:3": Cost(missing=WINDOW),
    "commit.4:3": Cost(missing=WINDOW),
    "commit.5a:3": Cost(missing=WINDOW),
    "commit.5:3": Cost(lost=WINDOW, missing=WINDOW),
    "commit.6:3": Cost(),
    "commit.7:3": Cost(),
}
AT_LEAST_ONCE = {
    # What was handed to a producer and not acknowledged is gone with it.
    AMID: Cost(),
    "commit.1:3": Cost(),
    "commit.2:3": Cost(),
    "commit.3:3": Cost(repeated=WINDOW),
    "commit.4:3": Cost(repeated=WINDOW),
    "commit.5a:3": Cost(repeated=WINDOW),
    "commit.5:3": Cost(),
    "commit.6:3": Cost(),
    "commit.7:3": Cost(),
}
CASES = [("at-most-once", *case) for case in AT_MOST_ONCE.items()]
CASES += [("at-least-once", *case) for case in AT_LEAST_ONCE.items()]


@pytest.fixture(params=["memory", "local", pytest.param("kafka", marks=pytest.mark.kafka)])
def make_job(request, tmp_path):
    """A job of that guarantee with one partition, whose first twenty inputs are done; and whether nothing of what its
    producers were given is out before they are waited for."""
    keys = {"systems.sys.samza.factory": request.param}
    if request.param == "memory":
        keys["systems.sys.cluster"] = uuid.uuid4().hex
    elif request.param == "local":
        keys["systems.sys.path"] = str(tmp_path / "local.db")
    else:
        keys["systems.sys.consumer.bootstrap.servers"] = request.getfixturevalue("kafka")
    jobs = []

    def make(guarantee, poll=WINDOW):
        keys.update({"task.poll.batch.size": str(poll), "task.max.idle.ms": "1"})
        job = CrashJob(keys, uuid.uuid4().hex[:8], tmp_path / "state", guarantee, partitions=1)
        job.flat["task.class"] = f"{__name__}:CommittingLedgerTask"
        jobs.append(job)
        job.send(BEFORE)
        job.run()
        return job

    yield make, request.param != "kafka"
    disarm()
    for job in jobs:
        job.close()


def crash(job, point, monkeypatch):
    """Run until the point is reached; the process is gone as far as the job can tell."""
    monkeypatch.setenv("SAMZAPY_FAIL", f"{point}:raise")
    with pytest.raises((FailPointReached, TaskFailed), match=point.partition(":")[0]):
        job.run()
    disarm()
    monkeypatch.delenv("SAMZAPY_FAIL")


def cost(job):
    """What happened to all inputs sent so far."""
    outputs = job.outputs()
    held = Counter(number for numbers in job.state().values() for number in numbers)
    everything = range(job.sent)
    return Cost(
        lost=sum(number not in outputs for number in everything),
        repeated=sum(outputs.values()) - len(outputs),
        missing=sum(number not in held for number in everything),
        doubled=sum(held.values()) - len(held),
    )


@pytest.mark.parametrize(("guarantee", "point", "expected"), CASES)
def test_a_crash_costs_its_window_and_no_message_more(make_job, guarantee, point, expected, monkeypatch):
    make, queued_until_waited_for = make_job
    job = make(guarantee)
    job.send(ROUND)
    crash(job, point, monkeypatch)
    job.run()
    found = cost(job)
    if queued_until_waited_for:
        assert found == expected
        return
    # What Kafka's producer was given may be out before it is waited for: then it is not lost, or it is repeated. And a
    # poll may bring fewer than ten.
    assert found.missing <= WINDOW
    assert found.doubled == expected.doubled
    if guarantee == "at-most-once":
        assert found.lost <= expected.lost
        assert found.repeated == 0
    else:
        assert found.lost == found.missing == 0
        assert expected.repeated <= found.repeated <= WINDOW
