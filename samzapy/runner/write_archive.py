"""Writes the archive of Spark's classes for this machine (`samzapy.runner.class_archive`): half a minute of work, once.

1. A small job runs on `local-cluster`; the JVMs of its driver and of its executor list the classes that they load.
2. Java writes the classes of both lists to one archive, in a temporary file.
3. The archive takes its place, and earlier ones for the same Java and pyspark are removed. Processes that use one keep it.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, nullcontext
from pathlib import Path

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStream
from samzapy.api.system import StreamSpec
from samzapy.api.task import StreamTask
from samzapy.config.loader import load_job
from samzapy.errors import EnvironmentFailure
from samzapy.java import SPARK, find_java
from samzapy.runner.base import RunOptions
from samzapy.runner.class_archive import ClassArchive
from samzapy.runner.launch import checked, launch
from samzapy.runner.spark.master import LIGHT_JVM
from samzapy.runner.spark.runner import SparkRunner
from samzapy.system.clients import job_clients

_INPUT = SystemStream("local", "in")
#: Seconds for Java to write the archive.
_LONGEST_S = 900


class Nothing(StreamTask):
    """The task of the small job, whose input is empty."""

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        """Does nothing."""


def write_archive() -> Path:
    """Write the archive for Spark's Java and the installed pyspark; returns its path. Raises EnvironmentFailure."""
    java = find_java(SPARK)
    archive = ClassArchive.of(java)
    archive.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.file.parent, prefix="new-") as name:
        folder = Path(name)
        listed = list(_classes_of_a_job(folder))
        lines = folder / "classes"
        lines.write_text("".join(f"{line}\n" for line in dict.fromkeys(listed)))
        made = folder / "classes.jsa"
        _run(
            [
                java.command,
                "-Xshare:dump",
                f"-XX:SharedClassListFile={lines}",
                f"-XX:SharedArchiveFile={made}",
                "-cp",
                archive.class_path,
            ],
            made,
        )
        made.chmod(0o600)
        made.replace(archive.file)
    for old in archive.file.parent.glob("*.jsa"):
        if old != archive.file:
            old.unlink(missing_ok=True)
    return archive.file


def _classes_of_a_job(folder: Path) -> Iterator[str]:
    """The lines of the lists of classes that the driver's and the executor's JVM load for a job."""
    lists = {part: folder / f"{part}.classes" for part in ("driver", "executor")}
    config = load_job(
        {
            "job.name": "class-archive",
            "job.log.dir": str(folder / "logs"),
            "job.spark.master": "local-cluster[1,1,1024]",
            "systems.local.samza.factory": "local",
            "systems.local.path": str(folder / "local.db"),
            "task.class": f"{__name__}:{Nothing.__name__}",
            "task.inputs": f"{_INPUT.system}.{_INPUT.stream}",
            **{
                f"job.spark.conf.spark.{part}.extraJavaOptions": f"{LIGHT_JVM} -XX:DumpLoadedClassList={path}"
                for part, path in lists.items()
            },
        }
    )
    with closing(job_clients(config, "class-archive")) as clients:
        clients.create({_INPUT: StreamSpec(_INPUT.stream, 1)})
    fitted, runner, unfit = checked(config, SparkRunner)
    launch(fitted, runner, RunOptions(), nullcontext(), until_end=True, unfit=unfit)
    for path in lists.values():
        try:
            yield from _plain(path.read_text().splitlines())
        except OSError as cause:
            raise EnvironmentFailure(f"Spark's JVM wrote no list of its classes: {cause}") from cause


def _plain(lines: Iterable[str]) -> Iterator[str]:
    """Without comments, and without the numbers of classes, which differ from list to list."""
    for line in lines:
        name, _, rest = line.partition(" id: ")
        if name and not name.startswith("#") and "source:" not in rest:
            yield name


def _run(command: list[str | Path], made: Path) -> None:
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=_LONGEST_S, check=False, env=_environment()
        )
    except (OSError, subprocess.TimeoutExpired) as cause:
        raise EnvironmentFailure(f"{command[0]} cannot write an archive of classes: {cause}") from cause
    if ran.returncode or not made.is_file():
        said = (ran.stderr or ran.stdout).strip().splitlines() or ["nothing"]
        raise EnvironmentFailure(f"{command[0]} cannot write an archive of classes: {said[-1]}")


def _environment() -> dict[str, str]:
    """Without the variables that would add options of the user's to the JVM."""
    return {name: value for name, value in os.environ.items() if name not in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")}
