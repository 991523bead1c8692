"""Whatever a report fails of, the heartbeat goes on; only a lease that has run out ends the container."""

import threading

import pytest

from samzapy.container.supervision.heartbeat import Heartbeat
from samzapy.errors import EnvironmentFailure, RetriableError, TaskMigrated
from samzapy.job.lease import ContainerLease, ContainerReport, Directive
from samzapy.testing import ManualClock


class FailingLease(ContainerLease):
    """Raises what it is given, one a report, and answers once nothing is left."""

    def __init__(self, *failures):
        self._failures = list(failures)
        self.reports: list[ContainerReport] = []
        self.answered = threading.Event()

    @property
    def epoch(self):
        return 1

    @property
    def duration_s(self):
        return 15.0

    @property
    def pace_s(self):
        return 0.001

    def report(self, report):
        self.reports.append(report)
        if self._failures:
            raise self._failures.pop(0)
        self.answered.set()
        return Directive.CONTINUE


def report(phase):
    return ContainerReport("0", 1, phase, processed=5)


@pytest.mark.parametrize("kind", [EnvironmentFailure, RetriableError, ValueError, RecursionError])
def test_a_report_that_fails_for_any_reason_does_not_end_the_thread(kind):
    lease = FailingLease(*(kind("refused") for _ in range(20)))
    heartbeat = Heartbeat(lease, report, ManualClock())
    heartbeat.start()
    assert lease.answered.wait(30)
    assert not heartbeat.should_stop()
    heartbeat.finish("done")
    assert len(lease.reports) > 20


def test_reports_that_fail_for_the_length_of_the_lease_end_the_container():
    clock = ManualClock()
    lease = FailingLease(*(EnvironmentFailure("too large") for _ in range(3)))
    heartbeat = Heartbeat(lease, report, clock)
    clock.advance_to(16.0)
    with pytest.raises(TaskMigrated, match="too large"):
        heartbeat.should_stop()


def test_a_report_that_cannot_be_made_is_the_last_one_with_a_new_phase():
    lease, broken = FailingLease(), threading.Event()

    def build(phase):
        if broken.is_set():
            raise ValueError("a bug in a gauge")
        return report(phase)

    heartbeat = Heartbeat(lease, build, ManualClock())
    heartbeat.start()
    broken.set()
    heartbeat.phase("running")
    heartbeat.confirm()
    broken.clear()
    heartbeat.finish("done")
    assert lease.reports[0].phase == "starting"
    assert any(each == report("running") for each in lease.reports[1:])
