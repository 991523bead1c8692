"""A Spark that starts and ends with its run: one at a time, and nothing of it stays in the process."""

import os
import queue
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext
from rigs.store_rig import SMALLEST

from samzapy.config.loader import load_job
from samzapy.errors import EnvironmentFailure
from samzapy.java import Java
from samzapy.runner.spark import sources
from samzapy.runner.spark.application import SparkApplication
from samzapy.runner.spark.master import Master
from samzapy.runner.spark.sources import OwnSpark, spark_source

DEADLINE_S = 60.0


@pytest.fixture(autouse=True)
def _hanging_spark(program, monkeypatch):
    """A Spark whose program never answers."""
    program("exec sleep 600")
    monkeypatch.setattr(sources, "find_java", lambda _: Java(Path("java"), 17))


def start(began):
    """A run's start; `began` gets its JVM."""
    with OwnSpark().application(load_job(SMALLEST), Master.default(1), "token", verbose=False, began=began):
        raise AssertionError("it has started")


def test_a_second_spark_is_refused_from_the_moment_that_the_first_one_starts_and_disturbs_nothing(monkeypatch):
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    before, jvms, further = dict(os.environ), queue.Queue(), []

    def kill(jvm):
        further.append(jvm)
        jvm.kill()

    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(start, jvms.put)
        jvm = jvms.get(timeout=DEADLINE_S)
        try:
            with pytest.raises(EnvironmentFailure, match="another job of this process runs on a Spark of its own"):
                start(kill)
            assert not further
            with pytest.raises(EnvironmentFailure, match="another job of this process runs on a Spark of its own"):
                spark_source()
            assert jvm.alive
        finally:
            jvm.kill()
        with pytest.raises(EnvironmentFailure, match="did not start"):
            first.result()
    assert dict(os.environ) == before
    with pytest.raises(EnvironmentFailure, match="did not start"):
        start(kill)
    assert len(further) == 1, "the next one may start"


class DeadJvm:
    """A JVM that has ended."""

    alive = False
    executor_end = ""

    def __init__(self):
        self.closed = False

    def kill(self):
        """It is dead."""

    def close(self):
        self.closed = True


def test_a_context_whose_jvm_has_died_is_forgotten_so_that_the_next_run_may_start(monkeypatch):
    def stop():
        raise Py4JNetworkError("no answer")

    context = object.__new__(SparkContext)
    context._jsc = SimpleNamespace(stop=stop)
    monkeypatch.setattr(SparkContext, "_active_spark_context", context)
    jvm = DeadJvm()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SparkApplication(jvm, context, Master.default(1)).close()
    assert jvm.closed
    assert SparkContext._active_spark_context is None
