"""A container outlasts an outage of its broker where it is, and its first start does not."""

import threading
from dataclasses import replace

import pytest
from jobs.memory_job import MemoryJob

from samzapy.config.loader import load_job
from samzapy.container import restart
from samzapy.container.restart import build_container
from samzapy.errors import TransactionAborted, Unreachable
from samzapy.failpoints import arm, disarm
from samzapy.job.lease import ContainerLease, Directive
from samzapy.runner.prepare import prepare


class Lease(ContainerLease):
    """Grants everything; `phases` are those of the reports."""

    epoch = 1
    duration_s = 10.0

    def __init__(self, *, resumes=False):
        self._resumes = resumes
        self.phases = []
        self.directive = Directive.CONTINUE
        self.waiting = threading.Event()

    @property
    def resumes(self):
        return self._resumes

    def report(self, report):
        self.phases.append(report.phase)
        if report.phase == "waiting":
            self.waiting.set()
        return self.directive


class Attempt:
    def __init__(self, tmp_path, *, resumes=False):
        self.job = MemoryJob(tmp_path / "state")
        self.job.send((0, "a", {"id": 1}))
        config = load_job(self.job.flat)
        prepared = prepare(config, until_end=True)
        model = replace(prepared.model.containers[0], tasks=prepared.model.tasks)
        self.lease = Lease(resumes=resumes)
        self.container = build_container(config, model, self.lease, ends=prepared.ends, run_id=prepared.run_id)


@pytest.fixture
def attempt(tmp_path):
    return Attempt(tmp_path)


def unanswered(times, point="commit.5", hit=2):
    """The commits of so many starts in a row have no answer."""
    left = [times]

    def silent(name):
        left[0] -= 1
        if left[0]:
            arm(point, hit, silent)
        error = TransactionAborted("5 records were not acknowledged after 30 s")
        error.outage = True
        raise error

    arm(point, hit, silent)


def test_an_outage_counts_against_no_limit_of_starts_in_a_row(attempt, monkeypatch):
    monkeypatch.setattr("samzapy.container.supervision.outage._FIRST_S", 0.001)
    monkeypatch.setattr("samzapy.container.supervision.outage._LONGEST_S", 0.001)
    unanswered(12, "start.6", 1)
    assert attempt.container.run().phase == "done"
    assert attempt.lease.phases.count("waiting") == 12


def test_an_outage_during_the_first_start_of_a_run_ends_the_attempt(attempt):
    def away(name):
        raise Unreachable("cannot reach b:9092 within 10 s")

    arm("start.1", 1, away)
    with pytest.raises(Unreachable):
        attempt.container.run()
    assert "waiting" not in attempt.lease.phases


def test_an_outage_during_the_start_of_a_later_attempt_is_outlasted(tmp_path):
    attempt = Attempt(tmp_path, resumes=True)

    def away(name):
        raise Unreachable("cannot reach b:9092 within 10 s")

    arm("start.1", 1, away)
    assert attempt.container.run().phase == "done"
    assert "waiting" in attempt.lease.phases


def away_for_ever(config, model):
    raise Unreachable("cannot reach b:9092 within 10 s")


@pytest.mark.parametrize("by", ["signal", "coordinator"])
def test_a_stop_during_an_outage_ends_the_container_without_a_commit(tmp_path, monkeypatch, caplog, by):
    monkeypatch.setattr(restart, "_ask", away_for_ever)
    attempt, reports = Attempt(tmp_path), []
    unanswered(1)
    thread = threading.Thread(target=lambda: reports.append(attempt.container.run()), daemon=True)
    thread.start()
    assert attempt.lease.waiting.wait(60)
    if by == "signal":
        attempt.container.stop()
    else:
        attempt.lease.directive = Directive.STOP
    thread.join(60)
    disarm()
    assert [report.phase for report in reports] == ["done"]
    assert caplog.messages[-1] == "Stopped in an outage, without a commit: the next start goes on from the last one"
