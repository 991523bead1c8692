"""Spark that starts while the job is claimed."""

import threading

import pytest

from samzapy.errors import EnvironmentFailure
from samzapy.runner.spark.runner import StartingSpark


class Spark:
    def __init__(self, failure=None):
        self.warmed = []
        self._failure = failure

    def warm(self, containers):
        self.warmed.append(containers)
        if self._failure is not None:
            raise self._failure


def starting(spark, log, warm_for=2):
    def start(opened):
        opened.callback(log.append, "stopped")
        log.append(threading.current_thread() is threading.main_thread())
        return spark

    return StartingSpark(start, warm_for)


def test_spark_starts_in_a_thread_and_is_stopped_in_the_end():
    spark, log = Spark(), []
    with starting(spark, log) as begun:
        assert begun.application() is spark
        begun.warm()
    assert spark.warmed == [2]
    assert log == [False, "stopped"]


def test_a_spark_that_does_not_become_warm_is_taken_as_it_is():
    spark, log = Spark(RuntimeError("no executors")), []
    with starting(spark, log) as begun:
        begun.warm()
        assert begun.application() is spark
    assert log == [False, "stopped"]


def test_a_claim_that_fails_meanwhile_stops_spark():
    log = []
    with pytest.raises(EnvironmentFailure, match="no owner"), starting(Spark(), log):
        raise EnvironmentFailure("no owner")
    assert log == [False, "stopped"]


def test_a_spark_that_does_not_start_says_so_where_it_is_needed():
    def start(opened):
        raise EnvironmentFailure("no Java")

    with StartingSpark(start, 1) as begun, pytest.raises(EnvironmentFailure, match="no Java"):
        begun.warm()
