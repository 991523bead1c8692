"""Carries a job to the executors, and the errors of their workers back."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from samzapy.admin.user_code import add_import_paths
from samzapy.config.job import JobConfig
from samzapy.config.loader import load_job
from samzapy.errors import (
    ConfigError,
    ConfigProblem,
    EnvironmentFailure,
    JobTakenOver,
    ProducerError,
    RecordTooLarge,
    SamzapyError,
    SerdeError,
    StoreRefused,
)
from samzapy.runner.spark.application import one_line

#: The path of a job file, its flat pairs, or the checked job.
Job = Path | str | Mapping[str, str] | JobConfig


def checked_job(job: Job) -> JobConfig:
    """The job, with the user's code importable here. Raises ConfigError."""
    config = job if isinstance(job, JobConfig) else load_job(job)
    add_import_paths(config.spark.py_files)
    return config


@dataclass(frozen=True)
class TravellingJob:
    """The flat file, `${env:NAME}` as it is written there: an executor looks into its own environment, so that no secret
    that is named in this way travels. `directory`: what relative paths are below; None leaves that to the executor."""

    raw: Mapping[str, str]
    directory: str | None

    @classmethod
    def of(cls, config: JobConfig, context: SparkContext) -> TravellingJob:
        """The job, for the executors of a context; they can import what `job.spark.py.files` names afterwards."""
        for path in config.spark.py_files:
            context.addPyFile(path)
        here = str(Path.cwd()) if on_this_machine(context) else None
        return cls(dict(config.raw), here)

    @contextmanager
    def arrived(self) -> Iterator[JobConfig]:
        """The checked job, in its folder; the process's folder is what it was afterwards. Raises ConfigError."""
        before = Path.cwd()
        if self.directory is not None:
            os.chdir(self.directory)
        try:
            yield load_job(self.raw)
        finally:
            os.chdir(before)


def spark_context(spark: SparkSession) -> SparkContext:
    """The session's context. Raises ConfigError for one of Spark Connect, which has none."""
    try:
        return spark.sparkContext
    except PySparkException as cause:
        raise ConfigError([ConfigProblem("spark", type(spark).__name__, "must be a classic SparkSession")]) from cause


def on_this_machine(context: SparkContext) -> bool:
    """Whether the executors share this machine's files."""
    return str(context.master).startswith("local")


#: The last line of a Python worker's stack, which Spark passes on as text.
_OURS = re.compile(r"^samzapy\.errors\.(\w+): (.*)$", re.MULTILINE)
_BY_NAME = {kind.__name__: kind for kind in (SerdeError, StoreRefused, ProducerError, EnvironmentFailure)}
#: Those with more to say than a message, by what they are.
_IN_GENERAL: dict[str, type[SamzapyError]] = {
    RecordTooLarge.__name__: ProducerError,
    JobTakenOver.__name__: EnvironmentFailure,
}


def worker_error(cause: Exception) -> SamzapyError:
    """The error that a worker has raised, or an EnvironmentFailure with what Spark says itself."""
    found = _OURS.findall(str(cause))
    if not found:
        return EnvironmentFailure(f"Spark gave up: {one_line(cause)}")
    name, message = found[-1]
    kind = _BY_NAME.get(name) or _IN_GENERAL.get(name, SamzapyError)
    return kind(message)
