"""Runs an attempt of a container as a Spark job, waits for it in a thread, and puts its failure into one line."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

from pyspark import RDD
from pyspark.serializers import CPickleSerializer

from samzapy.errors import EnvironmentFailure
from samzapy.runner.spark.application import SparkApplication, one_line
from samzapy.runner.spark.worker import run_task
from samzapy.version import VERSION

logger = logging.getLogger(__name__)


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
    r"'(samzapy[\w.]*|pyspark|py4j|confluent_kafka|rocksdict|orjson|msgpack|numpy|javaproperties|urllib3|psutil)'"
)
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
        message = str(self._error)
        mismatch = _PYTHON_MISMATCH.search(message) or _OTHER_SAMZAPY.search(message)
        if mismatch is not None:
            raise EnvironmentFailure(" ".join(mismatch[1].split())) from self._error
        missing = _NO_MODULE.search(message)
        if missing is not None:
            raise EnvironmentFailure(
                f"the executors' Python has no {missing[1]}: install samzapy there, or name another Python "
                "(job.spark.conf.spark.pyspark.python; with a session of your own PYSPARK_PYTHON, set before it is "
                "made)"
            ) from self._error
        if _OLDER_SAMZAPY.search(message):
            raise EnvironmentFailure(
                f"the executors' Python has an older samzapy, the driver has {VERSION}: install {VERSION} there"
            ) from self._error
        return one_line(self._error)

    def _run(self) -> None:
        try:
            context = self._spark.context
            context.setJobGroup(self._group, f"container {self._id}")
            self._spark.collect(placed(context, self._id, self._locations).mapPartitions(self._work))
        except Exception as cause:  # noqa: BLE001  # every reason is kept for `error`
            self._error = cause
        finally:
            # Before `ended`, which looks at it.
            self._over = True
            self._ended()
