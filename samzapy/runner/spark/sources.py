"""Gets the Spark of a run: its own, a session's, or the one of the `spark-submit` that started this process.

1. A Spark of its own starts with the run, with the settings of the job file, and ends with it.
2. A session is shared and given back as it was: it is not stopped, and its settings and its log stay. The run shares no
   workers with the session or with other runs: Spark separates workers by their environment, and the run's environment
   has the run's name. Only shipped files stay with the session, as Spark cannot remove any; no other run imports them.
3. A JVM without a context, as `spark-submit` provides it, gets a context for the run. The master and the settings of
   the submission take precedence over the job file.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, final
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException

from samzapy.config.job import FIXED, JobConfig
from samzapy.errors import ConfigError, ConfigProblem, EnvironmentFailure, raise_if_any
from samzapy.java import SPARK, find_java
from samzapy.job.files import TemporaryFolder
from samzapy.runner.base import TOKEN
from samzapy.runner.spark.application import SparkApplication, add_code, starting
from samzapy.runner.spark.jvm import DriverJvm, log_settings, patient, spark_home, spark_properties
from samzapy.runner.spark.master import (
    KEY,
    PREFIX,
    SPARKS_SIZES,
    Master,
    added_settings,
    environment,
    known_settings,
    spark_settings,
    with_sparks_defaults,
)
from samzapy.runner.spark.user_code import shipped_files

#: Settings of a session that a job needs. Reused workers do no harm: no other job gets the run's workers.
_NEEDED = ("spark.speculation", "spark.python.use.daemon", "spark.python.worker.killOnIdleTimeout")
_MASTER_S = 5.0
_ENDED = "the JVM of this process's Spark has ended, start the process (of a notebook: the kernel) again"


#: Held by the run with a Spark of its own, from the start to the end of its JVM or context.
_OWN = threading.Lock()
_ANOTHER = (
    "another job of this process runs on a Spark of its own, and a process has only one: run both on one session "
    "(spark=...), or with runner='local'"
)


@contextmanager
def only_one() -> Iterator[None]:
    """Lets only one run of this process have a Spark of its own: pyspark has one JVM and one context per process, and
    its start changes environment variables. Raises EnvironmentFailure if another run has one."""
    if not _OWN.acquire(blocking=False):
        raise EnvironmentFailure(_ANOTHER)
    try:
        yield
    finally:
        _OWN.release()


class SparkSource(ABC):
    """The source of a run's Spark."""

    def check(self, config: JobConfig) -> None:  # noqa: B027  # a Spark that is there already has started
        """Check that this Spark can start, for that job. Raises EnvironmentFailure."""

    @abstractmethod
    def fit(self, config: JobConfig) -> JobConfig:
        """The job for this Spark. Raises ConfigError if this Spark cannot run it, EnvironmentFailure."""

    @abstractmethod
    def application(
        self, config: JobConfig, master: Master, token: str, *, verbose: bool, began: Callable[[DriverJvm], None]
    ) -> AbstractContextManager[SparkApplication]:
        """The application for a fitted job; the context ends it. `began` gets a JVM of its own before that
        answers. Raises EnvironmentFailure, ConfigError."""


def _silence(place: str) -> str:
    """Why no master answers there; nothing if one does. Spark itself would wait for more than a minute."""
    host, _, port = place.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _MASTER_S).close()
    except (OSError, ValueError, OverflowError) as cause:
        return f"{place}: {getattr(cause, 'strerror', None) or cause}"
    return ""


@final
class OwnSpark(SparkSource):
    """A Spark that starts and ends with the run."""

    def check(self, config: JobConfig) -> None:
        find_java(SPARK)
        places = (config.spark.master or "").partition("spark://")[2]
        if places:
            reasons = list(map(_silence, places.split(",")))
            if all(reasons):
                result = ", ".join(reasons)
                raise EnvironmentFailure(f"{KEY}: no Spark master answers ({result}); start it, or correct the address")

    def fit(self, config: JobConfig) -> JobConfig:
        return with_sparks_defaults(config)

    @contextmanager
    def application(
        self, config: JobConfig, master: Master, token: str, *, verbose: bool, began: Callable[[DriverJvm], None]
    ) -> Iterator[SparkApplication]:
        java = find_java(SPARK)
        with only_one(), TemporaryFolder("spark") as temporary:
            folder = temporary.path
            with starting(master.address):
                files = shipped_files(config, folder)
            home = spark_home(folder, on_this_machine=master.on_this_machine)
            settings = spark_settings(config, master, log_settings(folder, verbose=verbose))
            properties = spark_properties(folder, settings, home)
            variables = {**environment(config.spark.conf, master, home, properties), **java.environment(folder)}
            with _environment(variables), warnings.catch_warnings():
                # pyspark warns about the version of an installed pandas, which no container uses.
                warnings.filterwarnings("ignore", category=FutureWarning, module=r"pyspark\.")
                jvm = DriverJvm(verbose=verbose, began=began)
                try:
                    context = _new_context(jvm, settings, token, master.address)
                except BaseException:
                    jvm.close()
                    raise
            with closing(SparkApplication(jvm, context, master)) as application:
                add_code(context.addPyFile, files, master)
                jvm.settled()
                yield application


def _new_context(jvm: DriverJvm, settings: Mapping[str, str], token: str, address: str) -> Any:
    """A context in that JVM; the workers of its executors get the token. `address`: the master, for errors. Raises
    EnvironmentFailure."""
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        # The token is not a Spark setting, because Spark shows its settings in several places.
        with starting(address):
            return SparkContext(conf=conf, gateway=jvm.gateway, environment={TOKEN: token})
    finally:
        if threading.current_thread() is threading.main_thread():
            # pyspark has installed its own handler of Ctrl-C.
            signal.signal(signal.SIGINT, interrupt)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ[name] for name in variables.keys() & os.environ.keys()}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)
        os.environ.update(before)


@final
class SessionSpark(SparkSource):
    """The Spark of a session, by its context."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def fit(self, config: JobConfig) -> JobConfig:
        with starting("", _ENDED):
            settings = dict(self._context.getConf().getAll())
        ignored = [key for key in config.raw if key.startswith(PREFIX)]
        note = (f"{', '.join(ignored)}: without effect, the session has its settings already",) if ignored else ()
        master = str(self._context.master)
        base = SPARKS_SIZES if Master.parse(master).on_demand else {}
        return _fitted(config, master, settings, note, base)

    @contextmanager
    def application(
        self, config: JobConfig, master: Master, token: str, *, verbose: bool, began: Callable[[DriverJvm], None]
    ) -> Iterator[SparkApplication]:
        files = _files(config, master)
        # Only the run's functions name the files: `addPyFile` would add them to the session and to this process.
        add_code(self._context.addFile, files, master)
        names = [Path(path).name for path in files]
        with closing(SharedApplication(self._context, master, token, names)) as application:
            yield application


@final
class SubmittedSpark(SparkSource):
    """The Spark of a JVM that has no context yet."""

    def fit(self, config: JobConfig) -> JobConfig:
        settings = dict(_settings_of_jvm().getAll())
        return _fitted(config, settings.get("spark.master") or config.spark.master, settings, (), config.spark.conf)

    @contextmanager
    def application(
        self, config: JobConfig, master: Master, token: str, *, verbose: bool, began: Callable[[DriverJvm], None]
    ) -> Iterator[SparkApplication]:
        files, conf = _files(config, master), _settings_of_jvm()
        for key, value in added_settings(config, master).items():
            conf.setIfMissing(key, value)
        for key, (value, _) in FIXED.items():
            conf.set(key, value)
        conf.setMaster(master.address).setAppName(config.name)
        with only_one():
            with starting(master.address):
                patient(SparkContext._gateway)  # noqa: SLF001
                context = SparkContext(conf=conf, environment={TOKEN: token})
            with closing(SparkApplication(GivenJvm(context), context, master)) as application:
                add_code(context.addPyFile, files, master)
                yield application


def spark_source(session: object = None) -> SparkSource:
    """The source for a SparkSession or SparkContext; None for the Spark that this process has already, else its own.

    Raises ConfigError for a session that has no context, EnvironmentFailure if the process runs another job on a Spark
    of its own, which ends with that job."""
    if session is not None:
        return SessionSpark(spark_context(session))
    if _OWN.locked():
        raise EnvironmentFailure(_ANOTHER)
    active = SparkContext._active_spark_context  # noqa: SLF001  # not offered without making one
    if active is not None:
        return SessionSpark(active)
    # `spark-submit` sets the variable for the programs that it starts.
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:  # noqa: SLF001
        return SubmittedSpark()
    return OwnSpark()


def spark_context(session: object) -> Any:
    """The context of a classic SparkSession, or the given one. Raises ConfigError for anything else."""
    result: Any = session if isinstance(session, SparkContext) else None
    if result is None:
        with suppress(PySparkException):
            result = getattr(session, "sparkContext", None)
    if result is None:
        raise ConfigError.of("spark", type(session).__name__, "must be a classic SparkSession")
    if result._jsc is None:  # noqa: SLF001  # not offered
        raise ConfigError.of("spark", None, "the session is stopped: make a new one")
    return result


def _settings_of_jvm() -> SparkConf:
    with starting("", _ENDED):
        SparkContext._ensure_initialized()  # noqa: SLF001  # settings are read from the JVM
        return SparkConf()


def _fitted(
    config: JobConfig, master: str | None, settings: Mapping[str, str], notes: tuple[str, ...], base: Mapping[str, str]
) -> JobConfig:
    """The job for a Spark with these `settings`, which take precedence over `base`."""
    problems = [
        ConfigProblem(f"spark: {key}", settings[key], f"must be {FIXED[key][0]}: {FIXED[key][1]}")
        for key in _NEEDED
        if settings.get(key, FIXED[key][0]).strip().lower() != FIXED[key][0]
    ]
    # Whether pyspark gives each Python thread a JVM thread of its own, to which Spark ties job groups and tags.
    pinned = os.environ.get("PYSPARK_PIN_THREAD", "true")
    if pinned.strip().lower() != "true":
        reason = "a container's job group and tag would stay on connections that other jobs of the process use"
        problems.append(ConfigProblem("spark: PYSPARK_PIN_THREAD", pinned, f"must be true: {reason}"))
    raise_if_any(problems)
    given = config.spark.master
    if given is not None and given != master:
        notes = (f"{KEY}={given}: without effect, this Spark runs on {master}", *notes)
    spark = replace(config.spark, master=master, conf={**base, **known_settings(settings)})
    return replace(config, spark=spark, warnings=(*config.warnings, *notes))


def _files(config: JobConfig, master: Master) -> tuple[str, ...]:
    """The files that Spark ships. Raises ConfigError, EnvironmentFailure."""
    with starting(master.address):
        return shipped_files(config, private_folder())


@cache
def private_folder() -> Path:
    """A folder that only this user can read, until this process ends: executors that come later get shipped files
    there."""
    folder = TemporaryFolder("spark")
    atexit.register(folder.__exit__, None, None, None)
    return folder.path


@final
class GivenJvm:
    """The JVM of the program around the run, which ends it."""

    #: Its log is the program's.
    executor_end = ""

    def __init__(self, context: Any, parent: Callable[[], int] = os.getppid) -> None:
        """`parent`: the id of this process's parent. `spark-submit` starts programs from its JVM."""
        self._context = context
        self._parent = parent
        self._started_by = parent()

    @property
    def alive(self) -> bool:
        """Whether it runs, as far as this process knows, and has the context."""
        gateway = self._context._gateway  # noqa: SLF001  # not offered
        process = getattr(gateway, "proc", None)
        if self._context._jsc is None or (process is not None and process.poll() is not None):  # noqa: SLF001
            return False
        return process is not None or self._parent() == self._started_by or self._answers()

    def _answers(self) -> bool:
        try:
            self._context._jsc.sc().isStopped()  # noqa: SLF001
        except (Py4JError, OSError):
            return False
        return True

    def kill(self) -> None:
        """Do nothing: it goes on."""

    close = kill


@final
class SharedApplication(SparkApplication):
    """The application of a session that goes on after the run."""

    def __init__(self, context: Any, master: Master, token: str, shipped: Collection[str] = ()) -> None:
        """Only the workers of this run get `token` and `shipped`, the names of the run's shipped files."""
        super().__init__(GivenJvm(context), context, master)
        self._tag = f"samzapy-{uuid4().hex}"
        # Several runs may have the same token.
        self._variables = {"SAMZAPY_RUN": self._tag, TOKEN: token}
        self._shipped = [name for name in shipped if name.endswith(SparkContext.PACKAGE_EXTENSIONS)]

    def collect(self, tasks: Any) -> object:
        self.context.addJobTag(self._tag)
        # Spark reads the environment and the archives once, here, where it pickles the function.
        tasks.ctx = self._context_of_run()
        tasks._jrdd  # noqa: B018, SLF001
        tasks.ctx = self.context
        return super().collect(tasks)

    def _context_of_run(self) -> Any:
        """A copy of the session's context, with the environment and the archives of this run. The session's own context
        stays as it is for its other jobs."""
        built = object.__new__(type(self.context))
        vars(built).update(vars(self.context))
        built.environment = {**self.context.environment, **self._variables}
        # A worker inserts each archive in front of the earlier ones.
        others = [name for name in self.context._python_includes if name not in self._shipped]  # noqa: SLF001
        built._python_includes = [*others, *self._shipped]
        return built

    def check(self) -> None:
        if not self.alive:
            raise EnvironmentFailure(
                "the SparkSession of this run was stopped; run the job again, and it resumes from its last commit"
            )
        super().check()

    def close(self) -> None:
        """Cancel the remaining jobs of the run."""
        with suppress(Py4JError, OSError):  # the JVM may just have ended, and the jobs with it
            if self.alive:
                self.context.cancelJobsWithTag(self._tag)
