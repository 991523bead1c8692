"""`python -m samzapy.runner.spark.jvm.recorder`: records the archive of classes for the Spark of this environment.

A Spark of its own runs a few empty tasks, first on `local-cluster` and then on `local`, in one JVM. So the archive has the
classes of a driver and of executors, and one file serves both. Prints where the archive is, or why there is none.

Nothing waits for the recording. It has the lowest priority, ends itself after some minutes, is the first to be ended where
memory runs out, and does not begin where memory or disk are short.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil
from py4j.protocol import Py4JError

from samzapy.config.loader import load_job
from samzapy.errors import EnvironmentFailure, SamzapyError
from samzapy.java import SPARK, ClassArchive, Java, class_archive, find_java, installed_spark
from samzapy.runner.spark.application import SparkApplication, new_context
from samzapy.runner.spark.jvm.folder import RunFolder, link_spark
from samzapy.runner.spark.jvm.process import DriverJvm
from samzapy.runner.spark.master import LIGHT_JVM, Master, environment, spark_settings
from samzapy.runner.spark.placement import exactly
from samzapy.runner.spark.runner import placed
from samzapy.runner.spark.worker import do_nothing

#: In this order: an executor's classes are loaded by the tasks of `local`, which run in the driver's JVM.
_MASTERS = ("local-cluster[1,1,512]", "local[1]")
#: Seconds for the JVM to write the file and end, for a JVM that tries it, and for everything.
_DUMP_S, _TRIAL_S, _LONGEST_S = 300.0, 120.0, 900.0
#: Bytes of memory and of disk without which the recording does not begin. It needs about a third.
_MEMORY, _DISK = 2 << 30, 1 << 30
#: The files of a control group, version 2 and version 1: its limit, its use, and the part of it that is cached files.
GROUPS = (
    ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def main() -> int:
    """Record the archive, unless it is there; returns an exit code."""
    _be_modest()
    # As a run does: pyspark warns about the version of an installed pandas.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"pyspark\.")
    try:
        java = find_java(SPARK)
        spark = Path(os.environ.get("SPARK_HOME") or installed_spark().package)
        archive = class_archive(java, spark)
        if archive is None:
            raise EnvironmentFailure("this Java and this Spark can have no archive of classes")
        with archive.recording() as alone:
            if not alone:
                raise EnvironmentFailure(f"{archive.folder}: another process records")
            if not archive.is_recorded:
                check_room(archive.folder)
                _recorded(archive, java, spark)
    except (SamzapyError, Py4JError, OSError) as cause:
        sys.stdout.write(f"not recorded: {cause}\n")
        return 1
    sys.stdout.write(f"{archive.file}\n")
    return 0


def _recorded(archive: ClassArchive, java: Java, spark: Path) -> None:
    """Record and keep it; a failure is noted. Raises SamzapyError, OSError, Py4JError."""
    file, scratch = archive.folder / "recording.jsa", archive.folder / "scratch"
    file.unlink(missing_ok=True)
    try:
        class_path = record(file, archive.home, scratch, java, spark)
        check_archive(file, java, class_path)
        archive.keep(file)
    except Exception as cause:
        archive.failed(f"{type(cause).__name__}: {cause}")
        raise
    finally:
        file.unlink(missing_ok=True)
        for folder in (scratch, archive.home / "work"):
            shutil.rmtree(folder, ignore_errors=True)


def record(file: Path, home: Path, scratch: Path, java: Java, spark: Path) -> str:
    """Run a Spark, with a SPARK_HOME made in `home` and temporary files in `scratch`, that writes its classes to `file`; returns
    its class path. Raises EnvironmentFailure, OSError, Py4JError."""
    for made in (home, scratch):
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(mode=0o700)
    # The temporary folder of the run that has started this may disappear.
    tempfile.tempdir = os.environ["TMPDIR"] = str(scratch)
    link_spark(spark, home, left_out={"work", "python"})
    with RunFolder() as folder:
        config = load_job(
            {
                "job.name": "class-archive",
                "task.class": "none:None",
                "task.inputs": "memory.none",
                "systems.memory.samza.factory": "memory",
                "job.spark.conf.spark.driver.memory": "512m",
                "job.spark.conf.spark.executor.memory": "512m",
                "job.spark.conf.spark.local.dir": str(scratch),
                "job.spark.conf.spark.driver.extraJavaOptions": f"{LIGHT_JVM} -XX:ArchiveClassesAtExit={file}",
            }
        )
        masters = [Master.parse(address) for address in _MASTERS]
        settings = [spark_settings(config, master, folder.log_settings(verbose=False)) for master in masters]
        properties = folder.spark_properties(settings[0], home)
        # The options of the user's runs may name other jars.
        os.environ.pop("PYSPARK_SUBMIT_ARGS", None)
        os.environ.update(environment({}, masters[0], home, properties))
        os.environ.update(java.environment(folder.path))
        jvm = DriverJvm(verbose=False, grace_s=_DUMP_S)
        try:
            for master, each in zip(masters, settings, strict=True):
                _run_tasks(jvm, master, each)
            class_path = str(jvm.gateway.jvm.java.lang.System.getProperty("java.class.path"))
        finally:
            jvm.close()
    if not file.is_file():
        raise EnvironmentFailure(f"Java wrote no archive: {jvm.last_line}")
    return class_path


def _run_tasks(jvm: DriverJvm, master: Master, settings: dict[str, str]) -> None:
    """Make a run's calls of Spark, with tasks that do nothing."""
    context = new_context(jvm, settings, {}, master.address)
    try:
        application = SparkApplication(jvm, context, master)
        application.warm(1)
        application.resources()
        places = application.executors()
        for executor in application.executor_ids():
            application.unused(executor)
        context.setJobGroup("class-archive", "nothing")
        application.collect(placed(context, ["nothing"], [exactly(each) for each in places]).mapPartitions(do_nothing))
        context.cancelJobGroup("class-archive")
    finally:
        context.stop()


def check_archive(file: Path, java: Java, class_path: str) -> None:
    """Start a JVM that ends with an error if it cannot use the archive. Raises EnvironmentFailure."""
    options = [*LIGHT_JVM.split(), f"-XX:SharedArchiveFile={file}", "-Xshare:on", "-XX:+VerifySharedSpaces"]
    try:
        trial = subprocess.run(
            [*java.line, *options, "-cp", class_path, "-version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_TRIAL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as cause:
        raise EnvironmentFailure(f"{java.command}: cannot try the archive: {cause}") from cause
    if trial.returncode:
        raise EnvironmentFailure(f"{java.command}: refuses the archive: {trial.stdout.strip()[:500]}")


def check_room(folder: Path) -> None:
    """Raise EnvironmentFailure if the memory or the disk is short."""
    memory = free_memory(psutil.virtual_memory().available)
    disk = shutil.disk_usage(folder).free
    for what, free, least in (("memory", memory, _MEMORY), (f"the disk of {folder}", disk, _DISK)):
        if free < least:
            raise EnvironmentFailure(f"{what} has {free:,} B free, expected at least {least:,}")


def free_memory(available: int, groups: Iterable[tuple[str, str, str, str]] = GROUPS) -> int:
    """The bytes that this process may still use: the machine's free memory, or less within a control group."""
    free = [available]
    for group, limit, used, cached in groups:
        with suppress(OSError, ValueError, KeyError):  # no such group, or one without a limit
            texts = {name: Path(group, name).read_text("ascii") for name in (limit, used, "memory.stat")}
            stat = dict(line.split() for line in texts["memory.stat"].splitlines())
            free.append(int(texts[limit]) - int(texts[used]) + int(stat[cached]))
    return min(free)


def _be_modest() -> None:
    with suppress(OSError):
        os.nice(19)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", "ascii")
    # The JVM ends with this process.
    end = threading.Timer(_LONGEST_S, os._exit, (1,))
    end.daemon = True
    end.start()


if __name__ == "__main__":
    sys.exit(main())
