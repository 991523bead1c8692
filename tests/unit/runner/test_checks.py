"""The table of the driver's checks: paces, failures, and a cluster that does not answer in an outage."""

import logging
import threading
from contextlib import contextmanager

import pytest

from samzapy.container.supervision import outage
from samzapy.container.supervision.job_records import JobRecords
from samzapy.errors import Unreachable
from samzapy.job.lease import Facts, LogLine
from samzapy.runner.checks import Checks, Row
from samzapy.runner.driver import log_report
from samzapy.testing import ManualClock

DEADLINE_S = 60.0


class Table:
    """A table of checks, and the numbers of clients that it has opened and closed."""

    def __init__(self):
        self.opened = self.closed = 0
        self.checks = Checks(JobRecords(self._clients, kept=True), outages=outage.Outages())

    @contextmanager
    def _clients(self):
        self.opened += 1
        yield object(), object()
        self.closed += 1

    def asking(self, check):
        """The check, with the clients."""
        return lambda: self.checks.records.clients is not None and check()


class Check:
    """A check that counts its calls; it raises `failures` first."""

    def __init__(self, *failures, until=3):
        self.failures, self.until, self.calls = list(failures), until, 0
        self.enough, self.threads = threading.Event(), set()

    def __call__(self):
        self.calls += 1
        self.threads.add(threading.current_thread().name)
        if self.calls >= self.until:
            self.enough.set()
        if self.failures:
            raise self.failures.pop(0)
        return True


@pytest.fixture
def table():
    made = Table()
    yield made
    made.checks.end()


def test_checks_that_ask_the_cluster_share_one_thread_and_one_set_of_clients(table):
    checks = [Check() for _ in range(4)]
    for number, check in enumerate(checks):
        table.checks.add(Row(f"check-{number}", 0.001, table.asking(check)))
    assert all(check.enough.wait(DEADLINE_S) for check in checks)
    assert table.checks.end()
    assert {name for check in checks for name in check.threads} == {"cluster-checks"}
    assert (table.opened, table.closed) == (1, 1)


def test_a_check_without_an_answer_in_an_outage_holds_up_no_local_check(table):
    answered, status = threading.Event(), Check(until=20)
    table.checks.add(Row("ownership", 0.001, lambda: answered.wait(DEADLINE_S)))
    table.checks.add(Row("status", 0.001, status), asks=False)
    assert status.enough.wait(DEADLINE_S)
    assert not answered.is_set()
    answered.set()


def test_a_check_that_hangs_in_an_outage_does_not_hold_up_the_end():
    table, answered, hangs = Table(), threading.Event(), threading.Event()

    def check():
        hangs.set()
        return answered.wait(DEADLINE_S)

    table.checks.add(Row("ownership", 0.001, check))
    assert hangs.wait(DEADLINE_S)
    assert not table.checks.end(patience_s=0.01)
    answered.set()
    assert table.checks.end(DEADLINE_S)


def test_failures_of_an_outage_are_one_line_and_close_the_clients(table, caplog):
    caplog.set_level(logging.INFO)
    first, second = (Check(*[Unreachable("no broker")] * 3, until=5) for _ in range(2))
    table.checks.add(Row("clock", 0.001, table.asking(first)))
    table.checks.add(Row("owner", 0.001, table.asking(second)))
    assert first.enough.wait(DEADLINE_S)
    assert second.enough.wait(DEADLINE_S)
    assert table.checks.end()
    assert caplog.messages == ["The check 'clock' failed (no broker); checking again", "The outage is over, after 0 s"]
    assert table.opened == table.closed
    assert table.opened >= 6


def test_a_check_that_has_failed_is_tried_again_before_its_pace(table, monkeypatch):
    monkeypatch.setattr("samzapy.runner.checks._AGAIN_S", 0.001)
    slow = Check(*[Unreachable("no broker")] * 3, until=4)
    table.checks.add(Row("changelogs", 3600.0, slow), 0.0)
    assert slow.enough.wait(DEADLINE_S)
    assert table.checks.end()
    assert slow.calls == 4


def test_an_unexpected_error_is_logged_with_its_traceback_and_the_next_check_comes(table, caplog):
    check = Check(KeyError("bug"), KeyError("bug"), until=3)
    table.checks.add(Row("inputs", 0.001, check))
    assert check.enough.wait(DEADLINE_S)
    (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert record.exc_info is not None


def test_a_check_that_is_over_runs_no_more_but_its_last_call(table):
    over, last, other = Check(), Check(until=1), Check(until=5)

    def once():
        over()
        return False

    table.checks.add(Row("once", 0.001, once, last=last))
    table.checks.add(Row("other", 0.001, other))
    assert other.enough.wait(DEADLINE_S)
    assert table.checks.end()
    assert (over.calls, last.calls) == (1, 1)


def test_a_check_may_change_its_own_pace(table):
    check = Check(until=2)
    row = Row("ownership", 0.001, check)

    def slower():
        row.pace_s = 3600.0
        return check()

    row.check = slower
    other = Check(until=20)
    table.checks.add(row)
    table.checks.add(Row("other", 0.001, other))
    assert other.enough.wait(DEADLINE_S)
    assert table.checks.end()
    assert check.calls == 1


@pytest.fixture
def outage_clock(monkeypatch):
    made = ManualClock()
    monkeypatch.setattr(outage, "OUTAGES", outage.Outages(made))
    return made


def send(container, text, logger=outage.__name__):
    lines = (LogLine(0, logging.WARNING, logger, text, "", ""),)
    log_report(container, Facts(lines=lines))


def test_an_outage_of_all_containers_is_one_for_the_driver(outage_clock, caplog):
    for number in range(200):
        send(str(number), "Waiting for the broker: no answer")
    send("7", "other", "job.tasks")
    outage_clock.advance(61)
    for number in range(200):
        send(str(number), "No answer for 61 s: Waiting for the broker: no answer")
    for number in range(200):
        send(str(number), "The outage is over, after 61 s")
    assert caplog.messages == [
        "container 0: Waiting for the broker: no answer",
        "other",
        "No answer for 61 s: container 0: Waiting for the broker: no answer",
        "The outage is over, after 61 s",
    ]
