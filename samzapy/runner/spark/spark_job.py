"""Runs containers as one Spark job: started at once, awaited in a thread, and its failure put into one line."""

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
from samzapy.runner.spark.application import one_line
from samzapy.runner.spark.worker import run_container

logger = logging.getLogger(__name__)


def placed(context: Any, elements: Sequence[str], locations: Sequence[str]) -> Any:
    """One partition for each element, all of them at one of `locations` if there is room within `spark.locality.wait`."""
    jvm, pickled = context._jvm, CPickleSerializer()  # noqa: SLF001  # the only way to it
    seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq
    preferred = seq(list(locations))
    pairs = [jvm.scala.Tuple2(bytearray(pickled.dumps(element)), preferred) for element in elements]
    tag = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("[B"))
    made = context._jsc.sc().makeRDD(seq(pairs), tag)  # noqa: SLF001
    return RDD(made.toJavaRDD(), context, pickled)


_PYTHON_MISMATCH = re.compile(r"\[PYTHON_VERSION_MISMATCH\]\s*(.*?)\.(?:\s|$)", re.DOTALL)
#: samzapy and its dependencies; any other module is missed by the user's code, and the error names it.
_NO_MODULE = re.compile(
    r"ModuleNotFoundError: No module named "
    r"'(samzapy[\w.]*|confluent_kafka|rocksdict|orjson|msgpack|numpy|javaproperties|urllib3|psutil)'"
)
_OTHER_SAMZAPY = re.compile(r"EnvironmentFailure: (samzapy \S+ is installed for the executor's Python, .*)")


class SparkJob:
    """The attempt at a slot. Starts at once; its thread calls `ended` when Spark is done with it, well or not."""

    def __init__(
        self,
        context: Any,
        url: str,
        container_ids: Sequence[str],
        ended: Callable[[], None],
        locations: Sequence[str] | None = None,
    ) -> None:
        """`locations`: where each container should run if there is room, as Spark names hosts and executors; None leaves
        it to Spark."""
        self._context = context
        self._locations = locations
        self._group = uuid4().hex
        self._work = partial(run_container, url)
        self._ids = list(container_ids)
        self._ended = ended
        self._error: Exception | None = None
        self._over = False
        self._thread = threading.Thread(target=self._run, name="spark-job", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether Spark still works on it."""
        return not self._over

    def cancel(self) -> None:
        """Have Spark kill its tasks, if it is there to do so; `ended` follows."""
        try:
            self._context.cancelJobGroup(self._group)
        except Exception as cause:  # noqa: BLE001  # what py4j raises of a JVM that is gone is many things
            logger.info("Spark did not take the end of container %s: %s", ", ".join(self._ids), one_line(cause))

    def error(self) -> str | None:
        """The reason why Spark gave up, in one line; None if every task ended. Raises EnvironmentFailure for what no retry
        mends."""
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
                f"the executors' Python has no {missing[1]}: install samzapy there, or set "
                "job.spark.conf.spark.pyspark.python"
            ) from self._error
        return one_line(self._error)

    def _run(self) -> None:
        try:
            if self._locations is None:
                tasks = self._context.parallelize(self._ids, len(self._ids))
            else:
                self._context.setJobGroup(self._group, f"container {', '.join(self._ids)}")
                tasks = placed(self._context, self._ids, self._locations)
            tasks.mapPartitions(self._work).collect()
        except Exception as cause:  # noqa: BLE001  # every reason is kept for `error`
            self._error = cause
        finally:
            # First, so that `ended` finds it over.
            self._over = True
            self._ended()
