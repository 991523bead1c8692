"""What a container learns about its lease, and from whom; whatever a report fails of, the heartbeat goes on."""

import threading

import pytest

from samzapy.container.supervision.heartbeat import Heartbeat
from samzapy.errors import EnvironmentFailure, RetriableError, TaskMigrated
from samzapy.job.lease import ContainerLease, ContainerReport, Directive
from samzapy.testing import ManualClock


class Lease(ContainerLease):
    """Ten seconds, from a coordinator that a test can silence. It raises what it is given, one a report."""

    epoch = 1
    duration_s = 10.0
    pace_s = 0.001
    answer = Directive.CONTINUE
    silent = False

    def __init__(self, clock, delay_s=0.0, failures=()):
        self.clock, self.delay_s, self.failures = clock, delay_s, list(failures)
        self.reports, self.answered = [], threading.Event()

    def report(self, report):
        self.reports.append(report)
        if self.silent:
            raise RetriableError("no answer")
        if self.failures:
            raise self.failures.pop(0)
        self.clock.advance(self.delay_s)
        self.answered.set()
        return self.answer


@pytest.fixture
def clock():
    return ManualClock()


def report(phase):
    return ContainerReport("0", 1, phase, processed=5)


def beating(lease, clock):
    heartbeat = Heartbeat(lease, report, clock)
    heartbeat.start()
    return heartbeat


def test_a_process_stopped_for_longer_than_its_lease_lets_go_unasked(clock):
    lease = Lease(clock)
    heartbeat = beating(lease, clock)
    assert heartbeat.should_stop() is False
    lease.silent = True
    clock.advance(10.5)
    with pytest.raises(TaskMigrated, match="the lease has run out"):
        heartbeat.should_stop()
    # And it stays so, whoever answers later.
    lease.silent = False
    with pytest.raises(TaskMigrated):
        heartbeat.should_stop()
    heartbeat.finish("failed")


def test_a_lease_runs_from_when_it_was_asked_for_and_not_from_the_answer(clock):
    lease = Lease(clock, delay_s=11.0)
    heartbeat = beating(lease, clock)
    lease.silent = True
    with pytest.raises(TaskMigrated, match="the lease has run out"):
        heartbeat.should_stop()
    lease.silent = False
    heartbeat.finish("failed")


def test_a_superseded_container_is_told_to_let_go(clock):
    lease = Lease(clock)
    lease.answer = Directive.ABANDON
    heartbeat = beating(lease, clock)
    with pytest.raises(TaskMigrated, match="a newer attempt runs this container"):
        heartbeat.should_stop()
    heartbeat.finish("failed")


def test_an_owner_that_must_be_sure_asks_at_once(clock):
    lease = Lease(clock)
    heartbeat = beating(lease, clock)
    heartbeat.confirm()
    lease.answer = Directive.ABANDON
    with pytest.raises(TaskMigrated, match="a newer attempt"):
        heartbeat.confirm()
    heartbeat.finish("failed")


def test_an_owner_that_must_be_sure_lets_go_when_nobody_answers(clock):
    lease = Lease(clock)
    heartbeat = beating(lease, clock)
    lease.silent = True
    clock.advance(1)
    with pytest.raises(TaskMigrated, match="does not say which attempt owns"):
        heartbeat.confirm()
    heartbeat.finish("failed")


@pytest.mark.parametrize("kind", [EnvironmentFailure, RetriableError, ValueError, RecursionError])
def test_a_report_that_fails_for_any_reason_does_not_end_the_thread(clock, kind):
    lease = Lease(clock, failures=(kind("refused") for _ in range(20)))
    heartbeat = beating(lease, clock)
    assert lease.answered.wait(30)
    assert not heartbeat.should_stop()
    heartbeat.finish("done")
    assert len(lease.reports) > 20


def test_reports_that_fail_for_the_length_of_the_lease_end_the_container(clock):
    lease = Lease(clock, failures=(EnvironmentFailure("too large") for _ in range(3)))
    heartbeat = Heartbeat(lease, report, clock)
    clock.advance_to(16.0)
    with pytest.raises(TaskMigrated, match="too large"):
        heartbeat.should_stop()


def test_a_report_that_cannot_be_made_is_the_last_one_with_a_new_phase(clock):
    lease, broken = Lease(clock), threading.Event()

    def build(phase):
        if broken.is_set():
            raise ValueError("a bug in a gauge")
        return report(phase)

    heartbeat = Heartbeat(lease, build, clock)
    heartbeat.start()
    broken.set()
    heartbeat.phase("running")
    heartbeat.confirm()
    broken.clear()
    heartbeat.finish("done")
    assert lease.reports[0].phase == "starting"
    assert any(each == report("running") for each in lease.reports[1:])
