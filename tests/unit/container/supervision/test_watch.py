import logging
import threading

import pytest

from samzapy.api.stream import SystemStreamPartition
from samzapy.container.event_time.clock import EventClock
from samzapy.container.supervision.lag import LagWatch
from samzapy.container.supervision.logs import CarriedLines
from samzapy.container.supervision.outage import Outages
from samzapy.container.supervision.watch import ContainerWatch
from samzapy.container.tasks.task_instance import TaskInstance, TaskStart, UserSide
from samzapy.errors import Unreachable
from samzapy.job.lease import UserFailure
from samzapy.testing import ManualClock

TASK = TaskInstance("Partition 0", UserSide(None, None), None, TaskStart({}), EventClock({}, ManualClock()))


class Work:
    """A thread in a call of the user's code until it is let go."""

    def __init__(self, watch):
        self._begun, self._end = threading.Event(), threading.Event()
        self._watch = watch
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        with self._watch:
            TASK.call("window", self._wait)

    def _wait(self):
        self._begun.set()
        self._end.wait()

    def __enter__(self):
        self._thread.start()
        self._begun.wait()

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def stalls():
    return []


@pytest.fixture
def lines():
    return CarriedLines()


@pytest.fixture
def lag(clock):
    return LagWatch([], None, clock)


@pytest.fixture
def watch(lag, clock, stalls, lines):
    return ContainerWatch(lag, clock, 30.0, lines, stalls.append)


def test_a_call_that_lasts_is_a_stall_with_its_stack_and_is_told_once(watch, clock, stalls):
    with Work(watch):
        assert watch.facts("running", 3).stalled is None
        clock.advance(90)
        stalled = watch.facts("running", 3).stalled
        assert str(stalled) == "in window for 90 s"
        assert "test_watch.py" in stalled.stack
        assert "in _wait" in stalled.stack
        clock.advance(1)
        watch.facts("running", 3)
        assert [str(stall) for stall in stalls] == ["in window for 90 s"]


def test_a_start_that_takes_long_says_where_it_is(watch, clock, stalls):
    with watch:
        watch.facts("starting", 0)
        clock.advance(31)
        stalled = watch.facts("starting", 0).stalled
    assert str(stalled) == "starting, without progress for 31 s"
    assert stalls == []


def test_log_lines_go_with_the_next_report(watch, lines):
    record = logging.getLogger("x").makeRecord("x", logging.INFO, "", 0, "hello", (), None)
    lines.handle(record)
    with watch:
        assert [line.text for line in watch.facts("running", 0).lines] == ["hello"]
        assert watch.facts("running", 0).lines == ()


def test_a_failure_that_did_not_end_the_attempt_is_in_one_report(watch):
    failure = UserFailure("KeyError", "'user'", "Partition 0", "process of kafka.in[0]@3")
    with watch:
        found = [watch.facts("running", 0, each).handled for each in ((), (failure,), ())]
    assert found == [(), (failure,), ()]


@pytest.fixture
def silent(clock):
    """A watch whose looks at the ends are not answered."""

    class Clients:
        def ends(self, ssps):
            raise Unreachable("kafka does not answer")

        def close(self):
            pass

    outages = Outages(clock)
    lag = LagWatch([SystemStreamPartition("kafka", "in", 0)], Clients(), clock, outages=outages)
    lag.poll()
    return ContainerWatch(lag, clock, 30.0, CarriedLines())


def test_a_container_without_a_broker_that_processes_nothing_is_stalled(silent, clock):
    silent.facts("running", 3)
    clock.advance(36)
    assert str(silent.facts("running", 3).stalled) == "broker unreachable for 31 s"


def test_a_container_that_processes_without_seeing_the_ends_is_not_stalled(silent, clock, caplog):
    for processed in range(9):
        assert silent.facts("running", processed).stalled is None
        clock.advance(20)
    begin, *reminders = [record.message for record in caplog.records]
    assert begin == "The lag of the inputs is unknown: not measured for 20 s (broker unreachable)"
    assert [line.partition(" s: ")[0] for line in reminders] == ["No answer for 60", "No answer for 120"]


def test_an_outage_has_no_lines_about_the_stalls_that_it_causes(silent, clock, caplog):
    silent.facts("running", 3)
    for _ in range(6):
        clock.advance(9)
        silent.facts("waiting", 3)
    assert str(silent.facts("waiting", 3).stalled) == "broker unreachable for 49 s"
    assert [record.message for record in caplog.records if "stalled" in record.message] == []
