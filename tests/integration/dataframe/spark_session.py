"""A SparkSession on this machine for the tests of one module; it and its JVM end with them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from samzapy.job.files import TemporaryFolder
from samzapy.runner.spark.jvm import log_settings, spark_home

_LIGHT_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.showConsoleProgress": "false",
}


@contextmanager
def spark_session(master: str) -> Iterator[Any]:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    folder, before = TemporaryFolder("spark"), dict(os.environ)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # Workers start three times as fast: see spark_home.
    os.environ["SPARK_HOME"] = str(spark_home(folder.path, on_this_machine=True))
    builder = SparkSession.builder.master(master).appName("dataframes")
    quiet = f"-Dlog4j2.configurationFile={log_settings(folder.path, verbose=False).as_uri()}"
    for key, value in {**_SETTINGS, "spark.driver.extraJavaOptions": f"{_LIGHT_JVM} {quiet}"}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()
        gateway = SparkContext._gateway
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(30)
        SparkContext._gateway = SparkContext._jvm = None
        os.environ.clear()
        os.environ.update(before)
        folder.__exit__(None, None, None)
