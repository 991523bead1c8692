"""The numbered job on the YARN of the tests."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from rigs.job_process import JobProcess
from rigs.numbered_job import NumberedJob
from yarn_cluster import YarnCluster

HERE, THERE = "127.0.0.2", "127.0.0.3"
PARTITIONS = 4
#: Seconds for what takes some on a busy machine.
WAIT_S = 300.0
#: pyspark's own Spark, which is on all hosts of the tests: nothing is uploaded.
SPARK_HOME = Path(str(find_spec("pyspark").origin)).parent  # type: ignore[union-attr]
SPARK = {
    "spark.yarn.jars": f"local:{SPARK_HOME}/jars/*",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.ui.enabled": "false",
}
_KEYS = {"job.spark.lease.ms": "10000", "task.guarantee": "exactly-once"}


class YarnJob(NumberedJob):
    """`samzapy run` with the master `yarn`, exactly-once; the executors' Python is this one."""

    def __init__(self, cluster: YarnCluster, folder: Path, bootstrap: str, **keys: str) -> None:
        self._cluster = cluster
        staging = {"spark.yarn.stagingDir": f"file://{folder}/staging"}
        conf = {**SPARK, **staging, "spark.pyspark.python": sys.executable}
        spark = {"job.spark.master": "yarn", **{f"job.spark.conf.{key}": value for key, value in conf.items()}}
        super().__init__(folder, f"yarn-{folder.name}", bootstrap, PARTITIONS, **{**_KEYS, **spark, **keys})

    def start(self, *arguments: str, **environ: str) -> JobProcess:
        """On this machine: the driver is no part of the cluster."""
        return super().start(*arguments, **{"HADOOP_CONF_DIR": str(self._cluster.conf), **environ})
