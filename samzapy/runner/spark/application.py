"""Starts the SparkContext of one run, asks it about its executors, and stops it."""

from __future__ import annotations

import logging
import os
import signal
import threading
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext

from samzapy.config.job import JobConfig
from samzapy.coordinator.wire import Place
from samzapy.errors import EnvironmentFailure
from samzapy.runner.spark.jvm import DriverJvm, RunFolder
from samzapy.runner.spark.master import Master
from samzapy.runner.spark.settings import TOKEN, environment, spark_settings

logger = logging.getLogger(__name__)

#: Seconds that executors on the hosts that have state get to register: a task that is submitted earlier runs elsewhere.
_EXECUTORS_S, _EXECUTORS_PACE_S = 10.0, 0.2


@final
class SparkApplication:
    """Starts Spark on `enter`, stops it on `exit`. Raises EnvironmentFailure when it does not start, ConfigError."""

    def __init__(self, config: JobConfig, master: Master, token: str, *, verbose: bool = False) -> None:
        self._config = config
        self._master = master
        self._token = token
        self._verbose = verbose
        self._folder = RunFolder()
        self._jvm: DriverJvm | None = None
        self.context: Any = None

    def __enter__(self) -> SparkApplication:
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        try:
            if self.context is not None and self.alive:
                self.context.stop()
        except (Py4JError, OSError):
            self.kill()
        finally:
            if self._jvm is not None:
                self._jvm.close()
            self._folder.__exit__(None, None, None)

    @property
    def alive(self) -> bool:
        """Whether the driver's JVM runs."""
        return self._jvm is not None and self._jvm.alive

    def check(self) -> None:
        """Raise EnvironmentFailure when this Spark takes no more work."""
        if not self.alive:
            raise EnvironmentFailure(
                "Spark's driver JVM has ended; started again, the job goes on from its last commit"
            )
        if self.context._jsc.sc().isStopped():  # noqa: SLF001  # pyspark does not tell otherwise
            raise EnvironmentFailure(
                f"Spark has ended the application: {self._master.address} is not reachable, or it was killed there"
            )

    def end_task(self, task_id: int, reason: str) -> None:
        """Have Spark kill the Python worker of one task attempt and try the task again; not counted as its failure.

        An executor that does not answer either is given up by Spark itself, after `spark.network.timeout`.
        """
        try:
            self.context._jsc.sc().killTaskAttempt(task_id, True, reason)  # noqa: SLF001  # not offered to Python
        except (Py4JError, OSError) as cause:
            logger.warning("Spark did not take the end of task %d: %s", task_id, one_line(cause))

    def executors(self) -> tuple[Place, ...]:
        """The executors that are there now; none for a `local` master, or when Spark does not say."""
        try:
            found = self.context._jsc.sc().statusStore().executorList(True)  # noqa: SLF001  # not offered to Python
            listed = [found.apply(number) for number in range(found.size())]
            places = [Place(executor.hostPort().rpartition(":")[0], executor.id()) for executor in listed]
        except (Py4JError, OSError) as cause:
            logger.warning("Spark does not tell its executors: %s", one_line(cause))
            return ()
        return tuple(place for place in places if place.executor != "driver")

    def wait_for(self, hosts: Collection[str], wait: Callable[[float], object]) -> None:
        """Wait until Spark has an executor on each of the hosts, or has had a while to get them."""
        for _ in range(int(_EXECUTORS_S / _EXECUTORS_PACE_S)):
            if set(hosts) <= {place.host for place in self.executors()}:
                return
            wait(_EXECUTORS_PACE_S)

    def kill(self) -> None:
        """End the driver's JVM at once; executors follow."""
        if self._jvm is not None:
            self._jvm.kill()

    def _start(self) -> None:
        settings = spark_settings(self._config, self._master, self._folder.log_settings(verbose=self._verbose))
        with (
            _environment(environment(self._config, self._master, self._spark_home())),
            warnings.catch_warnings(),
        ):
            # pyspark looks whether pandas is there, and complains about its version; no container touches pandas.
            warnings.filterwarnings("ignore", category=FutureWarning, module=r"pyspark\.")
            self._jvm = DriverJvm(settings, verbose=self._verbose)
            conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
            interrupt = signal.getsignal(signal.SIGINT)
            try:
                # The token goes by the context and not by the configuration, which is a command line of the JVM.
                self.context = SparkContext(conf=conf, gateway=self._jvm.gateway, environment={TOKEN: self._token})
                for path in self._config.spark.py_files:
                    self.context.addPyFile(path)
            except (Py4JError, ValueError, OSError) as cause:
                raise EnvironmentFailure(f"Spark did not start on {self._master.address}: {one_line(cause)}") from cause
            finally:
                if threading.current_thread() is threading.main_thread():
                    # pyspark takes Ctrl-C for itself.
                    signal.signal(signal.SIGINT, interrupt)
        self._jvm.settled()

    def _spark_home(self) -> Path:
        return self._folder.spark_home(on_this_machine=self._master.on_this_machine)


def one_line(cause: BaseException) -> str:
    """The message of a Java exception, without its stack."""
    java = getattr(cause, "java_exception", None)
    return " ".join(str(java if java is not None else cause).split())[:500]


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
