"""A started Spark application: asks for its executors, watches it, and stops it.

A `SparkJob` is an attempt of a container: a Spark job with one task, in a thread, whose failure is put into one line.
"""

from __future__ import annotations

import logging
import re
import threading
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import dropwhile, takewhile
from typing import Any, Protocol
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark import RDD
from pyspark.serializers import CPickleSerializer

from samzapy.coordinator.wire import Place
from samzapy.errors import EnvironmentFailure, counted
from samzapy.runner.spark.jvm import patient
from samzapy.runner.spark.master import Master
from samzapy.runner.spark.worker import run_task
from samzapy.version import VERSION

logger = logging.getLogger(__name__)

#: Seconds to wait for executors on the hosts with state: a task that is submitted earlier runs elsewhere.
_EXECUTORS_S, _EXECUTORS_PACE_S = 10.0, 0.2


def add_code(add: Callable[[str], object], files: Iterable[str], master: Master) -> None:
    """Ship `files`, by the context's method `add`. Raises EnvironmentFailure."""
    with starting(master.address):
        for path in files:
            add(path)


@contextmanager
def starting(address: str, failed: str = "Spark did not start on ") -> Iterator[None]:
    """Turns the errors of a Spark that starts, or is asked, into EnvironmentFailure."""
    try:
        yield
    except (Py4JError, ValueError, OSError) as cause:
        raise EnvironmentFailure(f"{failed}{address}: {one_line(cause)}") from cause


class Jvm(Protocol):
    """The driver's JVM, of this run or of the program around it. `executor_end`: the end of the last executor of a
    standalone master, with its cause; empty for none, and if it is unknown. `kill` and `close` end it if it is this
    run's."""

    @property
    def alive(self) -> bool: ...

    @property
    def executor_end(self) -> str: ...

    def kill(self) -> None: ...

    def close(self) -> None: ...


class SparkApplication:
    """A started Spark application: the driver's JVM and its context."""

    def __init__(self, jvm: Jvm, context: Any, master: Master) -> None:
        self._jvm = jvm
        self._address = master.address
        self._executors = master.executors
        self.context = context

    def collect(self, tasks: Any) -> object:
        """Run the job of an RDD; blocks. Raises Spark's own errors."""
        patient(self.context._gateway)  # noqa: SLF001
        return tasks.collect()

    def close(self) -> None:
        """Stop Spark and end its JVM."""
        try:
            with warnings.catch_warnings():
                # pyspark warns about a JVM that has ended.
                warnings.simplefilter("ignore", RuntimeWarning)
                self.context.stop()
        except (Py4JError, OSError):
            self.kill()
            # The failed call has dropped the JVM's context; a second call clears pyspark's own.
            self.context.stop()
        finally:
            self._jvm.close()

    @property
    def alive(self) -> bool:
        return self._jvm.alive

    def check(self) -> None:
        """Raise EnvironmentFailure if this Spark application has ended."""
        is_stopped = None
        if self.alive:
            with suppress(Py4JError, OSError):  # it may end at any time
                is_stopped = self.context._jsc.sc().isStopped()  # noqa: SLF001  # not offered to Python
        if is_stopped is None:
            raise EnvironmentFailure(
                "Spark's driver JVM has ended; start the job again, and it resumes from its last commit"
            )
        if is_stopped:
            raise EnvironmentFailure(
                f"Spark has ended the application: {self._address} is unreachable, or killed the application"
                f"{self._last_executor()}"
            )

    def end_task(self, task_id: int, reason: str) -> None:
        """Make Spark kill the Python worker of one task attempt and retry the task; Spark does not count this as a
        failure.

        Spark itself gives up an executor that does not answer, after `spark.network.timeout`.
        """
        try:
            self.context._jsc.sc().killTaskAttempt(task_id, True, reason)  # noqa: SLF001  # not offered to Python
        except (Py4JError, OSError) as cause:
            logger.warning("Spark did not kill task %d: %s", task_id, one_line(cause))

    def executors(self) -> tuple[Place, ...]:
        """The present executors; none for a `local` master, or if Spark does not answer."""
        try:
            result = self.context._jsc.sc().statusStore().executorList(True)  # noqa: SLF001  # not offered to Python
            listed = [result.apply(number) for number in range(result.size())]
            places = [Place(executor.hostPort().rpartition(":")[0], executor.id()) for executor in listed]
        except (Py4JError, OSError) as cause:
            logger.warning("Spark does not list its executors: %s", one_line(cause))
            return ()
        return tuple(place for place in places if place.executor != "driver")

    def leaving(self, executors: Iterable[Place]) -> frozenset[Place]:
        """Those of the executors that are decommissioned, as on a spot machine that will be taken away: Spark starts
        no task there any more. None without `spark.decommission.enabled`."""
        if self.context.getConf().get("spark.decommission.enabled", "false").lower() != "true":
            return frozenset()
        try:
            backend = self.context._jsc.sc().schedulerBackend()  # noqa: SLF001  # not offered to Python
            return frozenset(place for place in executors if not backend.isExecutorActive(place.executor))
        except (Py4JError, OSError) as cause:
            logger.warning("Spark does not say which executors are decommissioned: %s", one_line(cause))
            return frozenset()

    def resources(self) -> str:
        """The resources of the application, as a phrase: its executors, if the master gives it any, and its running
        tasks."""
        try:
            tracker = self.context.statusTracker()
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        except (Py4JError, OSError) as cause:
            return f"no answer ({one_line(cause)})"
        tasks = sum(stage.numActiveTasks for stage in stages if stage is not None)
        executors = f"{counted(len(self.executors()), 'executor')}, " if self._executors else ""
        return f"{executors}{counted(tasks, 'running task')}{self._last_executor()}"

    def _last_executor(self) -> str:
        return f"; the last executor {self._jvm.executor_end}" if self._jvm.executor_end else ""

    def check_executors(self, *, had_some: bool) -> None:
        """Raise EnvironmentFailure if a standalone master leaves the application without executors for good.
        `had_some`: containers have run on some.

        Such a master knows only the applications that have registered since its start, unless it keeps its state
        (`spark.deploy.recoveryMode`). Its workers end the executors of all others, and Spark's driver waits for ever.
        It also waits for ever for executors that end while they start."""
        if not self._address.startswith("spark://") or not (had_some or self._jvm.executor_end):
            return
        try:
            is_without = self.context._jsc.sc().getExecutorIds().isEmpty()  # noqa: SLF001  # not offered to Python
        except (Py4JError, OSError):
            return
        if is_without:
            raise EnvironmentFailure(
                f"{self._address} leaves the application without executors{self._last_executor()}: its workers are "
                "gone or cannot start any, or it has restarted without its state "
                "(spark.deploy.recoveryMode=FILESYSTEM keeps it); start the job again, and it resumes from its last "
                "commit"
            )

    def wait_for(self, hosts: Collection[str]) -> None:
        """Wait until Spark has an executor on each of the hosts, at most some seconds."""
        self._wait(lambda: set(hosts) <= {place.host for place in self.executors()})

    def wait_for_executors(self) -> None:
        """Wait until Spark has as many executors as expected, at most some seconds."""
        self._wait(lambda: len(self.executors()) >= self._executors)

    def _wait(self, condition: Callable[[], bool]) -> None:
        pause, rounds = threading.Event(), int(_EXECUTORS_S / _EXECUTORS_PACE_S)
        while not condition() and rounds:
            pause.wait(_EXECUTORS_PACE_S)
            rounds -= 1

    def kill(self) -> None:
        """Kill the driver's JVM at once; the executors end with it."""
        self._jvm.kill()


_TRACEBACK = "Traceback (most recent call last):\n"
#: Spark's words around the reason why a task was lost.
_AROUND = re.compile(r".*most recent failure: Lost task [^:]*: |\s*Driver stacktrace:.*", re.DOTALL)


def one_line(cause: BaseException) -> str:
    """The message of a Java exception, without its stack; of an error of a Python worker, the worker's."""
    java = getattr(cause, "java_exception", None)
    text = str(java if java is not None else cause)
    if "Python worker exited unexpectedly" in text:
        return "a Python worker was killed or crashed; the system kills one that takes too much memory (dmesg says so)"
    _, result, traceback = text.rpartition(_TRACEBACK)
    if result:
        # The frames are indented, and so is Java's stack, which follows behind an empty line.
        behind = dropwhile(lambda line: not line or line[0].isspace(), traceback.splitlines())
        error = list(takewhile(lambda line: line.strip() and not line.startswith("\tat "), behind))
        if error:
            text = f"a Python worker failed: {' '.join(error)}"
    return " ".join(_AROUND.sub("", text).split())[:500]


def placed(context: Any, element: str, locations: Sequence[str]) -> Any:
    """One partition with one element, at one of `locations` if there is room within `spark.locality.wait`."""
    jvm, pickled = context._jvm, CPickleSerializer()  # noqa: SLF001  # the only way to it
    seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq
    pairs = [jvm.scala.Tuple2(bytearray(pickled.dumps(element)), seq(list(locations)))]
    tag = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("[B"))
    rdd = context._jsc.sc().makeRDD(seq(pairs), tag)  # noqa: SLF001
    return RDD(rdd.toJavaRDD(), context, pickled)


_PYTHON_MISMATCH = re.compile(r"\[PYTHON_VERSION_MISMATCH\]\s*(.*?)\.(?:\s|$)", re.DOTALL)
#: samzapy, its dependencies and Spark's Python. Any other missing module is one of the user's code, and the error of
#: that code names it.
_NO_MODULE = re.compile(
    r"ModuleNotFoundError: No module named "
    r"'(samzapy[\w.]*|click|confluent_kafka|cryptography|javaproperties|msgpack|msgspec|numpy|orjson|packaging|"
    r"prometheus_client|psutil|py4j|pyspark|rich|rocksdict|starlette|urllib3|uvicorn)'"
)
_NO_PYTHON = re.compile(r'IOException: Cannot run program "([^"]+)"')
_OTHER_SAMZAPY = re.compile(r"EnvironmentFailure: (samzapy \S+ is installed for the executor's Python, .*)")
#: An executor's samzapy that lacks the function of the task.
_OLDER_SAMZAPY = re.compile(rf"Can't get attribute '{run_task.__name__}' on <module 'samzapy\b")


class SparkJob:
    """An attempt of a slot: a Spark job with one task. Starts at once; its thread calls `ended` after Spark has ended
    the job, well or not."""

    def __init__(
        self,
        spark: SparkApplication,
        work: bytes,
        container_id: str,
        locations: Sequence[str],
        ended: Callable[[], None],
    ) -> None:
        """`work`: the pickled address of the coordinator, and the user's code. `locations`: where the container should
        run if there is room, as Spark names hosts and executors."""
        self._spark = spark
        self._work = partial(run_task, VERSION, work)
        self._id = container_id
        self._locations = locations
        self._ended = ended
        self._group = uuid4().hex
        self._error: Exception | None = None
        self._over = False
        self._thread = threading.Thread(target=self._run, name="spark-job", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether Spark still works on it."""
        return not self._over

    def cancel(self) -> None:
        """Make Spark kill the tasks, if Spark still runs; then `ended` is called."""
        try:
            self._spark.context.cancelJobGroup(self._group)
        except Exception as cause:  # noqa: BLE001  # py4j raises many errors after the JVM has ended
            logger.info("Spark did not cancel the job of container %s: %s", self._id, one_line(cause))

    def error(self) -> str | None:
        """The reason why Spark gave up, in one line; None if every task ended. Raises EnvironmentFailure for problems
        that a retry cannot solve."""
        self._thread.join()
        if self._error is None:
            return None
        message, text = str(self._error), ""
        another = (
            "name another Python (job.spark.conf.spark.pyspark.python; with a session of your own PYSPARK_PYTHON, set "
            "before it is made)"
        )
        if (mismatch := _PYTHON_MISMATCH.search(message) or _OTHER_SAMZAPY.search(message)) is not None:
            text = " ".join(mismatch[1].split())
        elif (unknown := _NO_PYTHON.search(message)) is not None:
            text = f"an executor cannot run {unknown[1]}: {another}"
        elif (missing := _NO_MODULE.search(message)) is not None:
            text = f"the executors' Python has no {missing[1]}: install samzapy there, or {another}"
        elif _OLDER_SAMZAPY.search(message):
            text = f"the executors' Python has an older samzapy, the driver has {VERSION}: install {VERSION} there"
        if text:
            raise EnvironmentFailure(text) from self._error
        return one_line(self._error)

    def _run(self) -> None:
        try:
            context = self._spark.context
            context.setJobGroup(self._group, f"container {self._id}")
            self._spark.collect(placed(context, self._id, self._locations).mapPartitions(self._work))
        except Exception as cause:  # noqa: BLE001  # every reason is kept for `error`
            self._error = cause
        finally:
            # Before `ended`, which reads it.
            self._over = True
            self._ended()
