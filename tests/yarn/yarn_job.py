"""The numbered job on the YARN of the tests: as `samzapy run`, or as a script of `spark-submit`."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from rigs.job_process import JobProcess
from rigs.numbered_job import CODE, NumberedJob
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


class SubmittedJob(NumberedJob):
    """A script of two lines that `spark-submit` brings to the cluster; nothing in the job file is about Spark. The executors' Python
    comes as an archive, and in cluster mode the driver's, too."""

    def __init__(self, cluster: YarnCluster, folder: Path, bootstrap: str, environment: Path, **keys: str) -> None:
        self._cluster = cluster
        self._environment = environment
        super().__init__(folder, f"submitted-{folder.name}", bootstrap, PARTITIONS, **{**_KEYS, **keys})

    def submit(self, mode: str, arguments: str = "") -> subprocess.Popen[bytes]:
        """`spark-submit --deploy-mode MODE`; `arguments` are added to the call of `samzapy.run`. Its output goes to `submit.log`."""
        (self.folder / "program.py").write_text(f'import samzapy\nsamzapy.run("job.properties"{arguments})\n')
        conf = {
            **SPARK,
            "spark.yarn.stagingDir": f"file://{self.folder}/staging",
            "spark.pyspark.python": "./env/bin/python",
        }
        if mode == "client":
            conf["spark.pyspark.driver.python"] = sys.executable
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", mode]
        command += ["--name", self.name, "--archives", f"{self._environment}#env"]
        command += ["--files", "job.properties", "--py-files", str(CODE)]
        command += [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
        environ = {**os.environ, "SPARK_HOME": str(SPARK_HOME), "HADOOP_CONF_DIR": str(self._cluster.conf)}
        with self.log.open("wb") as log:
            return subprocess.Popen(
                [*command, "program.py"],
                cwd=self.folder,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def log(self) -> Path:
        """What `spark-submit` printed."""
        return self.folder / "submit.log"
