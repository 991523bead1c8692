"""Makes the Spark configuration of a run from the job file, and refuses settings that would break a guarantee."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from samzapy.config.job import JobConfig
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.runner.spark.master import Master

PREFIX = "job.spark.conf."

#: The token's name in the executors' environment; Spark blanks values of names like it wherever it shows them.
TOKEN = "SAMZAPY_TOKEN"  # noqa: S105  # a name, not a secret

_DEFAULTS = {
    # The page of Spark itself has no password; who wants it says so.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.task.maxFailures": "4",
}

#: Where a lost container is tried again is chosen by the driver, so Spark must not.
_PLACED = {"spark.task.maxFailures": "1"}

_DRIVER_OPTIONS = "spark.driver.extraJavaOptions"

#: Spark's JVMs carry task ids and nothing else: they should start quickly and stay out of the tasks' way. Measured on
#: two busy cores, these options halve the time to the first task.
_LIGHT_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

_ON_THIS_MACHINE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    _DRIVER_OPTIONS: _LIGHT_JVM,
    "spark.executor.extraJavaOptions": _LIGHT_JVM,
}

_PYTHON = "spark.pyspark.python"

#: The values that the guarantees need, each with the reason. Any other value is refused.
_FIXED = {
    "spark.speculation": ("false", "a second copy of a running task would write the same state"),
    "spark.python.worker.reuse": ("false", "clients and stores must not outlive their task"),
    "spark.python.use.daemon": ("true", "a worker has to end with its executor"),
}


def spark_settings(config: JobConfig, master: Master, log_settings: Path) -> dict[str, str]:
    """Everything for the SparkConf; no secret is in it, for it becomes a command line. Raises ConfigError."""
    given = config.spark.conf
    _refuse(given)
    settings = {
        **_DEFAULTS,
        **(_PLACED if config.placement.chooses else {}),
        **given,
        **{key: value for key, (value, _) in _FIXED.items()},
    }
    settings["spark.app.name"] = config.name
    settings["spark.master"] = master.address
    if master.on_this_machine:
        for key, value in _ON_THIS_MACHINE.items():
            settings.setdefault(key, value)
    logging = f"-Dlog4j2.configurationFile={log_settings.as_uri()}"
    settings[_DRIVER_OPTIONS] = f"{settings.get(_DRIVER_OPTIONS, '')} {logging}".strip()
    return settings


def environment(config: JobConfig, master: Master, spark_home: Path) -> dict[str, str]:
    """The environment of the driver: on this machine the executors use this Python and the loopback address.

    `spark.pyspark.python` wins, as with Spark; pyspark itself reads its variable only.
    """
    wanted = {"SPARK_HOME": str(spark_home), "PYSPARK_PIN_THREAD": "true"}
    if master.on_this_machine:
        wanted["PYSPARK_PYTHON"] = wanted["PYSPARK_DRIVER_PYTHON"] = sys.executable
        wanted["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")
    given = config.spark.conf.get(_PYTHON)
    if given:
        wanted["PYSPARK_PYTHON"] = given
    return wanted


def _refuse(given: Mapping[str, str]) -> None:
    problems = [
        ConfigProblem(PREFIX + key, given[key], f"must be {needed}: {reason}")
        for key, (needed, reason) in _FIXED.items()
        if given.get(key, needed).strip().lower() != needed
    ]
    if problems:
        raise ConfigError(problems)
