"""Spark that starts while the job is claimed."""

import threading

import pytest
from rigs.store_rig import TickingClock

from samzapy.clock import SYSTEM_CLOCK
from samzapy.errors import EnvironmentFailure
from samzapy.runner.spark import runner as starting_module
from samzapy.runner.spark.runner import StartingSpark


class Spark:
    def __init__(self, failure=None):
        self.warmed = 0
        self._failure = failure

    def wait_for_executors(self):
        self.warmed += 1
        if self._failure is not None:
            raise self._failure


class Jvm:
    """A JVM that hangs until it is killed."""

    last_line = "Application report for app_1 (state: ACCEPTED)"

    def __init__(self):
        self.killed = threading.Event()

    def kill(self):
        self.killed.set()

    def start(self, begun):
        begun.began(self)
        begun.opened.callback(self.kill)
        assert self.killed.wait(60)
        raise EnvironmentFailure("the JVM has ended")


def begun(start, *, clock=SYSTEM_CLOCK, on_event=print):
    return StartingSpark(start, "yarn", clock, on_event)


def starting(spark, log):
    def start(begun):
        begun.opened.callback(log.append, "stopped")
        log.append(threading.current_thread() is threading.main_thread())
        return spark

    return begun(start)


@pytest.mark.parametrize("failure", [(), (RuntimeError("no executors"),)])
def test_spark_starts_in_a_thread_warm_or_not_and_is_stopped_in_the_end(failure):
    spark, log = Spark(*failure), []
    with starting(spark, log) as begun:
        begun.warm()
        assert begun.application() is spark
    assert spark.warmed == 1
    assert log == [False, "stopped"]


def test_a_claim_that_fails_meanwhile_stops_spark():
    log = []
    with pytest.raises(EnvironmentFailure, match="no owner"), starting(Spark(), log):
        raise EnvironmentFailure("no owner")
    assert log == [False, "stopped"]


def test_a_spark_that_hangs_is_named_while_it_is_waited_for_and_ends_the_run_after_the_limit(monkeypatch):
    monkeypatch.setattr(starting_module, "START_S", 100.0)
    jvm, events = Jvm(), []
    with (
        pytest.raises(EnvironmentFailure) as failure,
        begun(jvm.start, clock=TickingClock(6.0), on_event=events.append) as spark,
    ):
        spark.application()
    assert jvm.killed.is_set()
    assert str(failure.value) == (
        "job.spark.master: Spark did not start on yarn within 100 s; its last line: " + jvm.last_line
    )
    assert 1 < len(events) < 4, "after 20, 40 and 80 seconds"
    assert all(each.startswith("Spark has not started on yarn after ") for each in events)
    assert all(each.endswith(f" s; its last line: {jvm.last_line}") for each in events)


@pytest.mark.parametrize("late", [False, True])
def test_a_stop_while_spark_starts_kills_its_jvm_early_or_late(late):
    jvm, may_begin = Jvm(), threading.Event()

    def start(begun):
        assert not late or may_begin.wait(60)
        return jvm.start(begun)

    with begun(start) as spark:
        assert spark.application(lambda: True) is None
        may_begin.set()
    assert jvm.killed.wait(60)


def test_a_ctrl_c_does_not_wait_for_a_spark_that_hangs():
    jvm = Jvm()
    with pytest.raises(KeyboardInterrupt), begun(jvm.start):
        raise KeyboardInterrupt
    assert jvm.killed.is_set()


def test_a_spark_that_nobody_can_kill_is_stopped_when_it_comes_after_the_run_has_given_it_up():
    late, stopped = threading.Event(), threading.Event()

    def start(begun):
        assert late.wait(60)
        begun.opened.callback(stopped.set)
        return Spark()

    with pytest.raises(EnvironmentFailure, match="no owner"), begun(start, clock=TickingClock(6.0)):
        raise EnvironmentFailure("no owner")
    assert not stopped.is_set()
    late.set()
    assert stopped.wait(60)
