"""The driver's JVM, played by a program of a few lines."""

import os
import threading
from types import SimpleNamespace

import pytest
from pyspark import SparkContext

from samzapy.errors import EnvironmentFailure
from samzapy.runner.spark import jvm
from samzapy.runner.spark.jvm import DriverJvm


@pytest.mark.parametrize("code", [0, 1])
def test_a_program_that_ends_is_an_error_with_its_last_line(program, code):
    program(f"echo starting; echo 'no such class'; printf '\\tat org.apache.Main\\n\\n'; exit {code}")
    with pytest.raises(EnvironmentFailure) as failure:
        DriverJvm(verbose=False)
    assert str(failure.value) == "Spark's driver JVM did not start: no such class"


def test_a_program_without_a_word_is_an_error(program):
    program("exit 0")
    with pytest.raises(EnvironmentFailure, match="did not start: nothing on its output"):
        DriverJvm(verbose=False)


def test_a_home_without_spark_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    with pytest.raises(EnvironmentFailure, match=r"did not start: .*No such file"):
        DriverJvm(verbose=False)


def test_a_program_that_hangs_can_be_killed_before_it_answers(program):
    program("echo waiting; exec sleep 600")
    begun = []

    def kill(started):
        begun.append(started)
        threading.Thread(target=started.kill).start()

    with pytest.raises(EnvironmentFailure, match="did not start"):
        DriverJvm(verbose=False, began=kill)
    assert not begun[0].alive
    assert "PYSPARK_GATEWAY_PORT" not in os.environ


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("of_the_program", [True, False])
def test_the_end_of_a_jvm_leaves_the_gateway_of_a_session_that_the_program_has_started(
    program, monkeypatch, of_the_program
):
    program(r"""printf '\000\000\000\001\000\000\000\001s' >"$_PYSPARK_DRIVER_CONN_INFO_PATH.part"
mv "$_PYSPARK_DRIVER_CONN_INFO_PATH.part" "$_PYSPARK_DRIVER_CONN_INFO_PATH"
cat""")
    ours, theirs = (SimpleNamespace(shutdown=lambda: None, jvm=object()) for _ in range(2))
    ours._gateway_client = SimpleNamespace(get_thread_connection=lambda: None)
    monkeypatch.setattr(jvm, "launch_gateway", lambda: ours)
    known = theirs if of_the_program else ours
    monkeypatch.setattr(SparkContext, "_gateway", known)
    monkeypatch.setattr(SparkContext, "_jvm", known.jvm)
    driver = DriverJvm(verbose=False)
    driver.close()
    assert not driver.alive
    kept = (theirs, theirs.jvm) if of_the_program else (None, None)
    assert (SparkContext._gateway, SparkContext._jvm) == kept
