"""Starts Spark's JVMs from an archive of their classes, where this machine has one.

A JVM of Spark reads and links thousands of classes before its first task, which is most of the CPU time of its start. Java
can map them from an archive instead (class data sharing). `samzapy.runner.write_archive` makes one, which is good for one
Java and one installed pyspark:

1. Its name has a hash over the Java and the name, size and time of each jar, so that other versions find none.
2. A JVM takes it only if the class path begins with the jars, in that order. Spark's home is another folder in each run, so
   the jars come by `extraClassPath`, and the home has only those of Spark's launcher.
3. A run whose class path or options are the user's own does without.
4. A JVM runs what an archive says, so nobody but this user may be able to write it.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from samzapy.java import Java, cache_folder, installed_spark

#: What sets the class path or the options of Spark's JVMs beside the settings of a run.
_OWN_VARIABLES = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "SPARK_DIST_CLASSPATH", "SPARK_SUBMIT_OPTS")
_CLASS_PATHS = ("spark.driver.extraClassPath", "spark.executor.extraClassPath")
_JVM_OPTIONS = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
#: How the options begin that say something else about archives.
_SHARING = ("-Xshare", "-XX:SharedArchiveFile", "-XX:ArchiveClassesAtExit", "-XX:DumpLoadedClassList")
#: How the names of the jars begin that Spark's launcher needs.
_LAUNCHERS = ("spark-launcher", "spark-common-utils")


@dataclass(frozen=True)
class ClassArchive:
    """The archive of the classes in the folder `jars`; there may be no `file` yet."""

    jars: Path
    file: Path

    @classmethod
    def of(cls, java: Java) -> ClassArchive:
        """The archive for a Java and the installed pyspark. Raises EnvironmentFailure without pyspark."""
        jars = installed_spark().package / "jars"
        command = java.command.resolve()
        seen = [f"{command} {java.version} {command.stat().st_mtime_ns}", str(jars)]
        seen += sorted(
            f"{entry.name} {found.st_size} {found.st_mtime_ns}"
            for entry in os.scandir(jars)
            for found in (entry.stat(),)
        )
        places, all_of_it = (hashlib.sha256("\n".join(part).encode()).hexdigest()[:16] for part in (seen[:2], seen))
        return cls(jars, cache_folder() / "spark-classes" / places / f"{all_of_it}.jsa")

    @property
    def usable(self) -> bool:
        """Whether there is one that only this user can have written."""
        try:
            return all(_is_private(path) for path in (self.file, self.file.parent))
        except OSError:
            return False

    @property
    def class_path(self) -> str:
        """All jars, as the `java` program reads it."""
        return f"{self.jars}{os.sep}*"


def _is_private(path: Path) -> bool:
    found = path.stat()
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def with_class_archive(settings: Mapping[str, str], home: Path, java: Java) -> dict[str, str]:
    """Spark's settings for JVMs of this machine that start from the archive; as they are if there is none that fits.

    `home`: the folder of links that is Spark's home in this run; it changes with the settings.
    """
    if not _may_have_one(settings):
        return dict(settings)
    archive = ClassArchive.of(java)
    if not archive.usable:
        return dict(settings)
    (home / "jars").unlink()
    (home / "jars").mkdir()
    for jar in archive.jars.iterdir():
        if jar.name.startswith(_LAUNCHERS):
            (home / "jars" / jar.name).symlink_to(jar)
    option = f"-Xshare:auto -XX:SharedArchiveFile={shlex.quote(str(archive.file))}"
    options = {key: f"{settings.get(key, '')} {option}".strip() for key in _JVM_OPTIONS}
    return {**settings, **options, **dict.fromkeys(_CLASS_PATHS, archive.class_path)}


def _may_have_one(settings: Mapping[str, str]) -> bool:
    """Whether the class path is samzapy's, and no option says something else about archives."""
    options = " ".join(settings.get(key, "") for key in _JVM_OPTIONS)
    return not (
        any(os.environ.get(name) for name in _OWN_VARIABLES)
        or any(key in settings for key in _CLASS_PATHS)
        or any(word in options for word in _SHARING)
    )
