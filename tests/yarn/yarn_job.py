"""The numbered job on the YARN of the tests: as `samzapy run`, or as a script of `spark-submit`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rigs.job_process import JobProcess
from rigs.numbered_job import CODE, NumberedJob
from yarn_cluster import YarnCluster

from samzapy.admin.queries import status_of
from samzapy.config.loader import load_job
from samzapy.errors import EnvironmentFailure
from samzapy.verify.processes import command_in, end, until, with_children

HERE, THERE = "127.0.0.2", "127.0.0.3"
PARTITIONS = 4
#: Seconds for what takes some on a busy machine.
WAIT_S = 900.0
#: pyspark's own Spark, which is on all hosts of the tests: nothing is uploaded.
SPARK_HOME = Path(str(find_spec("pyspark").origin)).parent  # type: ignore[union-attr]
SPARK = {
    "spark.yarn.jars": f"local:{SPARK_HOME}/jars/*",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.ui.enabled": "false",
}
_SAME_PYTHON = {"spark.pyspark.python": sys.executable}
#: This machine's name may resolve to any address, or to none.
_KEYS = {"job.spark.lease.ms": "10000", "task.guarantee": "exactly-once", "job.spark.coordinator.host": "127.0.0.1"}


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
    """A script of two lines that `spark-submit` brings to the cluster; nothing in the job file is about Spark."""

    def __init__(
        self, cluster: YarnCluster, folder: Path, bootstrap: str, conf: Mapping[str, str] = _SAME_PYTHON, **keys: str
    ) -> None:
        """`conf`: further settings of Spark, with the executors' Python, which is the driver's as well in cluster
        mode."""
        self._cluster, self._conf = cluster, conf
        # The file system of all hosts is one, so everybody finds the page's address there.
        logs = {"job.log.dir": str(folder / "logs")}
        super().__init__(folder, f"submitted-{folder.name}", bootstrap, PARTITIONS, **{**_KEYS, **logs, **keys})

    @contextmanager
    def submitted(self, mode: str, arguments: str = "") -> Iterator[subprocess.Popen[bytes]]:
        """The process of `spark-submit --deploy-mode MODE`; it and the application are ended in every case. `arguments`
        are added to the call of `samzapy.run`. Its output goes to `submit.log`."""
        process = self._submit(mode, arguments)
        try:
            yield process
        finally:
            end(with_children(process.pid) if process.poll() is None else [])
            process.wait()
            self._cluster.end_application(self.name)

    def _submit(self, mode: str, arguments: str) -> subprocess.Popen[bytes]:
        (self.folder / "program.py").write_text(f'import samzapy\nsamzapy.run("job.properties"{arguments})\n')
        conf = {**SPARK, "spark.yarn.stagingDir": f"file://{self.folder}/staging", **self._conf}
        if mode == "client":
            conf["spark.pyspark.driver.python"] = sys.executable
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", mode]
        command += ["--name", self.name, "--files", "job.properties", "--py-files", str(CODE)]
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

    def words(self) -> str:
        """Everything that may say why the job does not do what it should."""
        return self.log.read_text(errors="replace")[-4_000:] + self._cluster.logs(self.name)

    def settled(self, after: int = 0) -> dict[str, Any]:
        """The status once everything written is processed, with every container under a later epoch than `after`,
        wherever the driver runs."""
        at_end: Callable[[dict[str, Any]], bool] = self.at_end()

        def look() -> dict[str, Any] | None:
            try:
                status = status_of(load_job(self.folder / "job.properties"))
            except EnvironmentFailure:
                return None
            done = at_end(status) and min(each["epoch"] for each in status["containers"]) > after
            return status if done else None

        return until(look, self.words, WAIT_S)

    def drain(self) -> None:
        """`samzapy drain`, from this machine."""
        drained = command_in(self.folder, ["drain", "job.properties", "--timeout", str(WAIT_S)])
        assert drained.returncode == 0, drained.stderr + self.words()
