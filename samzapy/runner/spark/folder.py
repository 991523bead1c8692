"""A run's own folder: Spark's home (so that a `local-cluster` works below it and not inside the installed package),
its log settings, its log."""

from __future__ import annotations

import os
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import final

import psutil

from samzapy.errors import EnvironmentFailure

_QUIET = """\
status = error
rootLogger.level = {level}
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex{{short}}
"""


_PREFIX = "samzapy-spark-"


@final
class RunFolder:
    """A temporary folder, readable by its owner only, removed when left; or, after a SIGKILL, by the next run."""

    def __init__(self) -> None:
        _sweep(Path(tempfile.gettempdir()))
        self.path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def log_settings(self, *, verbose: bool) -> Path:
        """Log4j's settings for the driver's JVM: nothing, or what Spark would say by itself."""
        path = self.path / "log4j2.properties"
        path.write_text(_QUIET.format(level="info" if verbose else "off"))
        return path

    def spark_home(self, *, on_this_machine: bool) -> Path:
        """`SPARK_HOME` if it is set, else a folder of links into the installed pyspark.

        On this machine without its `python/lib/pyspark.zip`, which Spark puts before the installed pyspark: Python
        compiles what it imports from a zip anew in every process (measured on two busy cores: a first worker is ready
        after 1.0 s instead of 3.0 s, a later one after 0.6 s instead of 1.5 s).
        """
        given = os.environ.get("SPARK_HOME")
        if given:
            return Path(given)
        found = find_spec("pyspark")
        if found is None or not found.submodule_search_locations:
            raise EnvironmentFailure("pyspark is not installed: install samzapy with its dependencies")
        home = self.path / "home"
        home.mkdir()
        left_out = {"work", "python"} if on_this_machine else {"work"}
        for entry in Path(found.submodule_search_locations[0]).iterdir():
            if entry.name not in left_out:
                (home / entry.name).symlink_to(entry)
        return home


def _sweep(parent: Path) -> None:
    """Remove what this user's runs have left there whose process is gone."""
    for path in parent.glob(f"{_PREFIX}*-*"):
        pid = path.name.removeprefix(_PREFIX).partition("-")[0]
        try:
            if pid.isdigit() and path.lstat().st_uid == os.getuid() and not psutil.pid_exists(int(pid)):
                shutil.rmtree(path, ignore_errors=True)
        except OSError:
            continue  # gone meanwhile
