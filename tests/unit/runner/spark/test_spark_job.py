"""What Spark says when it gives up, in one line that a user can act on. The texts are pyspark's own."""

import io
import re
import socket
import sys
import threading
from importlib.metadata import requires
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkRuntimeError
from pyspark.serializers import UTF8Deserializer, write_with_length
from pyspark.worker_util import check_python_version

from samzapy.errors import EnvironmentFailure
from samzapy.runner.spark import application as attempt
from samzapy.runner.spark.application import SparkApplication, SparkJob
from samzapy.runner.spark.master import Master
from samzapy.runner.spark.worker import run_task
from samzapy.version import VERSION


class FailingSpark:
    """A Spark whose every job ends in this text, wrapped as the JVM wraps what a worker printed."""

    def __init__(self, text):
        self._text = text

    def setJobGroup(self, group, description):  # noqa: N802  # pyspark's name
        pass

    @property
    def context(self):
        return self

    def mapPartitions(self, work):  # noqa: N802  # pyspark's name
        return self

    def collect(self, tasks):
        raise RuntimeError(
            "Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent failure:\n"
            f"org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n{self._text}\n\n"
            "\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(Runner.scala:1)"
        )


@pytest.fixture(autouse=True)
def no_rdd(monkeypatch):
    monkeypatch.setattr(attempt, "placed", lambda context, element, locations: context)


def why(text):
    """What an attempt says of a failure."""
    ended = threading.Event()
    submission = SparkJob(FailingSpark(text), b"", "0", [], ended.set)
    assert ended.wait(60)
    return submission.error()


def version_mismatch(driver):
    """What pyspark's worker says to a driver of that version."""
    told = io.BytesIO()
    write_with_length(driver.encode(), told)
    told.seek(0)
    assert UTF8Deserializer().loads(io.BytesIO(told.getvalue())) == driver
    with pytest.raises(PySparkRuntimeError) as caught:
        check_python_version(told)
    return f"pyspark.errors.exceptions.base.PySparkRuntimeError: {caught.value}"


def test_another_python_on_the_worker_is_told_with_both_versions():
    with pytest.raises(EnvironmentFailure) as caught:
        why(version_mismatch("2.7"))
    here = "{}.{}".format(*sys.version_info[:2])
    assert str(caught.value) == (
        f"Python in worker has different version: {here} than that in driver: 2.7, "
        "PySpark cannot run with different minor versions"
    )


#: The packages that samzapy needs; each has a module of its name.
NEEDED = [re.match(r"[\w-]+", item)[0].replace("-", "_") for item in requires("samzapy") if "extra ==" not in item]


@pytest.mark.parametrize("module", ["samzapy", "samzapy.runner", "py4j", *NEEDED])
def test_a_package_that_the_worker_lacks_is_named_with_what_to_do(module):
    with pytest.raises(EnvironmentFailure) as caught:
        why(f"ModuleNotFoundError: No module named '{module}'")
    assert str(caught.value) == (
        f"the executors' Python has no {module}: install samzapy there, or name another Python "
        "(job.spark.conf.spark.pyspark.python; with a session of your own PYSPARK_PYTHON, set before it is made)"
    )


def test_a_job_of_spark_outlasts_the_default_time_out_of_sockets():
    near, far = socket.socketpair()
    with near, far:
        near.settimeout(0.01)
        client = SimpleNamespace(get_thread_connection=lambda: SimpleNamespace(socket=near))
        context = SimpleNamespace(_gateway=SimpleNamespace(_gateway_client=client))
        tasks = SimpleNamespace(collect=near.gettimeout)
        assert SparkApplication(None, context, Master.parse("local[1]")).collect(tasks) is None


OTHER = "samzapy 0.1 is installed for the executor's Python, the driver has 0.2"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'java.io.IOException: Cannot run program "./p": error=2',
            "an executor cannot run ./p: name another Python (job",
        ),
        (f"samzapy.errors.EnvironmentFailure: {OTHER}", OTHER),
        (
            "AttributeError: Can't get attribute 'run_task' on <module 'samzapy.runner.spark.worker' from '/x.py'>",
            f"the executors' Python has an older samzapy, the driver has {VERSION}: install {VERSION} there",
        ),
    ],
)
def test_another_python_or_samzapy_on_an_executor_is_named(text, message):
    with pytest.raises(EnvironmentFailure, match=f"^{re.escape(message)}"):
        why(text)


def test_a_worker_refuses_the_task_of_another_version_before_it_unpickles_anything():
    with pytest.raises(
        EnvironmentFailure, match=rf"samzapy {VERSION} is installed for the executor's Python, the driver "
    ):
        list(run_task("9.9.9", b"nothing that can be unpickled", ["0"]))


FRAMES = "\n".join(f'  File "/a/long/path/to/a/module_{n}.py", line {n}, in work\n    work({n})' for n in range(40))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{FRAMES}\nValueError: seven is\nno number", "a Python worker failed: ValueError: seven is no number"),
        (
            "Python worker exited unexpectedly (crashed). Consider x",
            "a Python worker was killed or crashed; the system",
        ),
        ("ModuleNotFoundError: No module named 'my_models'", "a Python worker failed: ModuleNotFoundError: No module"),
    ],
)
def test_an_error_of_a_python_worker_is_one_line_without_frames(text, message):
    assert why(text).startswith(message)
    assert "\n" not in why(text)


def test_a_lost_executor_is_told_without_sparks_words_around_it():
    text, lost = "x, most recent failure: Lost task 0.0 in stage 1.0 (TID 1) (h executor 0)", "ExecutorLostFailure (y)"
    assert attempt.one_line(RuntimeError(f"{text}: {lost}\nDriver stacktrace:")) == lost


def test_a_jvm_that_ends_while_it_is_asked_is_told_as_one_that_has_ended():
    class Context:
        @property
        def _jsc(self):
            raise Py4JNetworkError("Answer from Java side is empty")

    jvm, master = SimpleNamespace(alive=True, executor_end=""), SimpleNamespace(address="local[1]", executors=0)
    with pytest.raises(EnvironmentFailure, match="driver JVM has ended; start the job again"):
        SparkApplication(jvm, Context(), master).check()
