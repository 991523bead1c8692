"""Where containers and standbys are submitted, with a Spark that is played by the test."""

import threading

import pytest

from samzapy.api.stream import SystemStreamPartition
from samzapy.clock import SYSTEM_CLOCK
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.wire import AttemptProcess, JobSpec, Place
from samzapy.errors import JobFailed, SamzapyError
from samzapy.job.lease import ContainerReport, Directive
from samzapy.job.planner import ContainerModel, JobModel, TaskModel
from samzapy.runner.base import SOUND, Backoff, RunOptions
from samzapy.runner.spark import supervisor
from samzapy.runner.spark.placement import ROOM_S, SILENT_S, Locality, Places
from samzapy.runner.spark.supervisor import Supervisor
from samzapy.testing import ManualClock

TASK = TaskModel("Partition 0", frozenset({SystemStreamPartition("m", "in", 0)}), 0)
A, B, C = Place("a", "1"), Place("b", "2"), Place("b", "3")
DEADLINE_S, LEASE_S, LONGEST_S = 60.0, 3_600.0, 30.0


class Try:
    """One submission: runs until the test ends it."""

    def __init__(self, spark, container, locations, ended):
        self.container, self.locations = container, list(locations)
        self.running, self.cancelled = True, False
        self._spark, self._ended, self._error = spark, ended, None

    def registers(self, place, phase="running"):
        process = AttemptProcess("here", 1, 2, 3, place)
        self.epoch = self._spark.coordinator.register(self.container, process)
        self.reports(phase)
        return self

    def reports(self, phase):
        return self._spark.coordinator.report(ContainerReport(self.container, self.epoch, phase))

    def ends(self, error=None):
        if error is None:
            self.reports("done")
        self._error, self.running = error, False
        self._ended()

    def error(self):
        if isinstance(self._error, Exception):
            raise self._error
        return self._error

    def cancel(self):
        self.cancelled = True
        self._error, self.running = "cancelled", False


class WatchedClock:
    """Notes that it was asked, as each step does once at least."""

    def __init__(self, clock):
        self._clock = clock
        self.asked = 0
        self.changed = threading.Condition()

    def monotonic(self):
        with self.changed:
            self.asked += 1
            self.changed.notify_all()
        return self._clock.monotonic()


class Spark:
    """A supervisor in a thread, and the Spark that it supervises."""

    def __init__(self, copies=2, tries=4, clock=SYSTEM_CLOCK):
        standbys = tuple(ContainerModel(f"0-{n}", (TASK,)) for n in range(1, copies))
        model = JobModel((ContainerModel("0", (TASK,)),), standbys)
        self.coordinator = Coordinator("job", JobSpec(model, {}), LEASE_S, clock)
        self.locality = Locality(None)
        self.places = [A, B]
        self.tries = []
        self.changed = threading.Condition()
        self.clock = WatchedClock(clock)
        self.leaving = frozenset()
        self._placement = Places(
            self.coordinator, lambda: list(self.places), self.locality, lambda places: self.leaving & set(places)
        )
        self.supervisor = Supervisor(
            self.coordinator,
            self.submit,
            self._placement,
            self,
            self.clock,
            RunOptions(),
            backoff=lambda: Backoff(tries - 1, 0.0, LONGEST_S),
            shutdown_s=30.0,
        )
        self._failure = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            self.supervisor.run()
        except SamzapyError as failure:
            self._failure = failure

    @property
    def alive(self):
        self._placement.poll()
        return True

    def check(self):
        pass

    def end_task(self, task_id, reason):
        pass

    def resources(self):
        return "2 executors"

    def check_executors(self, *, had_some):
        pass

    def goes_on(self):
        return self._thread.is_alive()

    def end(self):
        """Wait for the end; raises what the supervisor has raised."""
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        if self._failure is not None:
            raise self._failure

    def submit(self, container, locations, ended):
        with self.changed:
            self.tries.append(Try(self, container, locations, ended))
            self.changed.notify_all()
            return self.tries[-1]

    def looks(self, times):
        """Wait until it has looked so many times more."""
        with self.clock.changed:
            until = self.clock.asked + times
            assert self.clock.changed.wait_for(lambda: self.clock.asked >= until, DEADLINE_S)

    def nth(self, number):
        """The submission of that number, waited for."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.tries) > number, DEADLINE_S), "nothing more was submitted"
            return self.tries[number]


@pytest.fixture(autouse=True)
def many_looks(monkeypatch):
    monkeypatch.setattr(supervisor, "PACE_S", 0.01)


@pytest.fixture
def until():
    def wait_until(condition):
        deadline = SYSTEM_CLOCK.monotonic() + DEADLINE_S
        pause = threading.Event()
        while not condition():
            assert SYSTEM_CLOCK.monotonic() < deadline, "it did not come to that"
            pause.wait(0.02)

    return wait_until


def test_a_standby_goes_to_an_executor_on_another_host_once_its_container_runs():
    spark = Spark()
    spark.places.append(Place("a", "4"))
    assert spark.nth(0).container == "0"
    assert len(spark.tries) == 1
    spark.nth(0).registers(A)
    assert (spark.nth(1).container, spark.nth(1).locations) == ("0-1", ["executor_b_2", "b"])


def test_a_container_that_loses_its_executor_goes_to_the_one_of_its_standby_which_lets_go_first(until):
    spark = Spark()
    lost = spark.nth(0).registers(A)
    standby = spark.nth(1).registers(B)
    spark.places.remove(A)
    lost.ends("ExecutorLostFailure (executor 1 exited)")
    until(lambda: standby.reports("running") is Directive.STOP)
    assert len(spark.tries) == 2
    standby.ends()
    successor = spark.nth(2)
    assert (successor.container, successor.locations) == ("0", ["executor_b_2", "b"])
    successor.registers(B).ends()
    spark.end()


def test_a_container_of_a_decommissioned_executor_commits_and_moves_before_its_host_is_gone(until):
    spark = Spark(copies=1, tries=2)
    moving = spark.nth(0).registers(A)
    assert moving.reports("running") is Directive.CONTINUE
    spark.leaving = frozenset({A})
    until(lambda: moving.reports("running") is Directive.STOP)
    moving.ends()
    assert (spark.nth(1).container, spark.nth(1).locations) == ("0", ["executor_b_2"])
    (waiting,) = spark.coordinator.status().containers
    assert (waiting.state, waiting.phase) == ("waiting", "starting"), "it has ended well, and is not done"
    spark.nth(1).ends("ExecutorLostFailure (executor 2 exited)")
    successor = spark.nth(2).registers(B)
    spark.looks(times=20)
    assert successor.reports("running") is Directive.CONTINUE
    successor.ends()
    spark.end()


def test_a_container_of_a_decommissioned_executor_takes_the_copies_of_its_standby(until):
    spark = Spark()
    moving = spark.nth(0).registers(A)
    standby = spark.nth(1).registers(B)
    spark.leaving = frozenset({A})
    until(lambda: moving.reports("running") is Directive.STOP)
    moving.ends()
    until(lambda: standby.reports("running") is Directive.STOP)
    standby.ends()
    assert spark.nth(2).locations == ["executor_b_2", "b"]


def test_a_container_whose_worker_dies_goes_back_to_its_executor_and_its_standby_stays():
    spark = Spark()
    lost = spark.nth(0).registers(A)
    standby = spark.nth(1).registers(B)
    lost.ends("Python worker exited unexpectedly")
    successor = spark.nth(2)
    assert (successor.container, successor.locations) == ("0", ["executor_a_1", "a"])
    assert standby.reports("running") is Directive.CONTINUE


def test_a_container_whose_host_is_lost_is_taken_back_though_spark_tells_nothing(until):
    spark = Spark()
    lost = spark.nth(0).registers(A)
    standby = spark.nth(1).registers(B)
    spark.places.remove(A)
    until(lambda: standby.reports("running") is Directive.STOP)
    assert lost.cancelled
    standby.ends()
    successor = spark.nth(2)
    assert (successor.container, successor.locations) == ("0", ["executor_b_2", "b"])
    successor.registers(B).ends()
    spark.end()


def test_a_container_is_not_taken_back_while_spark_tells_of_no_executor_or_before_it_has_started(until):
    spark = Spark()
    spark.nth(0).registers(A)
    standby = spark.nth(1).registers(B)
    spark.places[:] = []
    spark.looks(3)
    spark.places[:] = [B]
    until(lambda: standby.reports("running") is Directive.STOP)
    standby.ends()
    # Until it registers, all that is known is the attempt before.
    successor = spark.nth(2)
    spark.looks(3)
    assert [successor.cancelled, len(spark.tries)] == [False, 3]
    successor.registers(B)
    spark.looks(3)
    assert not successor.cancelled


def test_a_standby_that_has_not_caught_up_is_not_taken_over_while_the_host_of_the_state_is_there():
    spark = Spark()
    spark.places.append(Place("a", "4"))
    lost = spark.nth(0).registers(A)
    standby = spark.nth(1).registers(B, "restoring")
    spark.places.remove(A)
    lost.ends("ExecutorLostFailure (executor 1 exited)")
    assert spark.nth(2).locations == ["a"]
    assert standby.reports("restoring") is Directive.CONTINUE


def test_when_the_host_of_the_state_is_gone_a_standby_is_taken_over_before_it_has_caught_up(until):
    spark = Spark()
    lost = spark.nth(0).registers(A)
    standby = spark.nth(1).registers(B, "restoring")
    spark.places.remove(A)
    lost.ends("ExecutorLostFailure (executor 1 exited)")
    until(lambda: standby.reports("restoring") is Directive.STOP)
    standby.ends()
    assert spark.nth(2).locations == ["executor_b_2", "b"]


def test_a_container_that_waits_for_room_gets_that_of_its_standby(until):
    clock = ManualClock()
    spark = Spark(clock=clock)
    spark.places.append(Place("a", "4"))
    lost = spark.nth(0).registers(A)
    standby = spark.nth(1).registers(B, "restoring")
    spark.places.remove(A)
    lost.ends("ExecutorLostFailure (executor 1 exited)")
    waiting = spark.nth(2)
    spark.looks(3)
    assert not waiting.cancelled
    clock.advance(ROOM_S + 1)
    until(lambda: standby.reports("restoring") is Directive.STOP)
    assert waiting.cancelled
    standby.ends()
    assert spark.nth(3).locations == ["executor_b_2", "b"]


@pytest.mark.parametrize("copies", [1, 2])
def test_a_container_of_which_nothing_is_heard_goes_elsewhere_before_spark_gives_its_executor_up(until, copies):
    clock = ManualClock()
    spark = Spark(copies, clock=clock)
    silent = spark.nth(0).registers(A)
    standby = spark.nth(1).registers(B) if copies == 2 else None
    clock.advance(LEASE_S + 1)
    if standby is not None:
        standby.reports("running")
    spark.looks(3)
    assert not silent.cancelled
    clock.advance(SILENT_S + 1)
    if standby is not None:
        until(lambda: standby.reports("running") is Directive.STOP)
        standby.ends()
    assert spark.nth(copies).locations[0] == "executor_b_2"
    assert "a" not in spark.nth(copies).locations
    assert silent.cancelled


def test_a_standby_that_came_to_its_containers_executor_is_made_to_leave(until):
    spark = Spark()
    spark.nth(0).registers(A)
    standby = spark.nth(1).registers(A)
    until(lambda: standby.reports("running") is Directive.STOP)


def test_without_a_second_executor_there_is_no_standby(until):
    spark = Spark()
    spark.places.remove(B)
    spark.nth(0).registers(A)
    spark.nth(0).ends()
    spark.end()
    assert [attempt.container for attempt in spark.tries] == ["0"]


def test_a_container_goes_to_the_host_that_has_its_state_when_no_executor_is_known():
    spark = Spark(copies=1)
    spark.locality.note(ContainerModel("0", (TASK,)), Place("b"))
    lost = spark.nth(0)
    lost.ends("Python worker exited unexpectedly")
    assert spark.nth(1).locations == ["b"]


def test_the_state_of_a_container_that_ran_between_two_looks_is_where_it_ran():
    spark = Spark(copies=1)
    spark.nth(0).registers(B, phase="restoring").ends()
    spark.end()
    assert spark.locality.of(spark.coordinator.spec.model.container("0")) == B


def test_an_attempt_that_failed_before_it_had_restored_leaves_the_state_where_it_was():
    spark = Spark(copies=1)
    spark.nth(0).registers(A).ends("lost")
    spark.nth(1).registers(B, phase="restoring")
    spark.nth(1).reports("failed")
    spark.nth(1).ends("lost again")
    spark.nth(2).registers(A).ends()
    spark.end()
    assert spark.tries[2].locations == ["executor_a_1", "a"]


def test_failures_of_a_long_life_are_not_added_up():
    clock = ManualClock()
    spark = Spark(copies=1, tries=2, clock=clock)
    for number in range(6):
        attempt = spark.nth(number)
        clock.advance(SOUND * LONGEST_S + 1)
        attempt.ends("lost after a while")
    spark.nth(6).ends("at once")
    with pytest.raises(JobFailed, match="at once"):
        spark.end()
    assert len(spark.tries) == 7


def test_when_it_gives_up_what_still_runs_is_cancelled():
    spark = Spark(tries=1)
    spark.nth(0).registers(A)
    standby = spark.nth(1).registers(B)
    spark.nth(0).ends("no")
    with pytest.raises(JobFailed):
        spark.end()
    assert standby.cancelled


def test_the_standbys_of_a_job_that_is_done_complete_their_copies(until):
    spark = Spark()
    spark.nth(0).registers(A)
    standby = spark.nth(1).registers(B)
    spark.nth(0).ends()
    until(lambda: standby.reports("running") is Directive.STOP)
    assert spark.goes_on()
    standby.ends()
    spark.end()
    assert not standby.cancelled
