"""What a container learns about its lease, and from whom."""

import pytest

from samzapy.container.supervision.heartbeat import Heartbeat
from samzapy.errors import RetriableError, TaskMigrated
from samzapy.job.lease import ContainerLease, ContainerReport, Directive
from samzapy.testing import ManualClock


class Lease(ContainerLease):
    """Ten seconds, from a coordinator that a test can silence."""

    epoch = 1
    duration_s = 10.0
    answer = Directive.CONTINUE
    silent = False

    def __init__(self, clock, delay_s=0.0):
        self.clock = clock
        self.delay_s = delay_s

    def report(self, report):
        if self.silent:
            raise RetriableError("no answer")
        self.clock.advance(self.delay_s)
        return self.answer


@pytest.fixture
def clock():
    return ManualClock()


def beating(lease, clock):
    heartbeat = Heartbeat(lease, lambda phase: ContainerReport("0", 1, phase), clock)
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
