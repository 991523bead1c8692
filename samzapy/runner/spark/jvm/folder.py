"""The folder of a run with a JVM: the settings of its log and of Spark, its SPARK_HOME, and files for executors.

`samzapy.job.files` says when the folder goes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import final

import javaproperties

from samzapy.java import installed_spark
from samzapy.job.files import TemporaryFolder
from samzapy.runner.spark.master import default_settings

_QUIET = """\
status = error
rootLogger.level = {level}
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex{{short}}
logger.client.name = org.apache.spark.deploy.client
logger.client.level = info
"""


@final
class RunFolder(TemporaryFolder):
    """The temporary folder of one run."""

    def __init__(self) -> None:
        super().__init__("spark")

    def __enter__(self) -> RunFolder:
        return self

    def log_settings(self, *, verbose: bool) -> Path:
        """Log4j's settings for the driver's JVM: no log, or Spark's default log."""
        path = self.path / "log4j2.properties"
        path.write_text(_QUIET.format(level="info" if verbose else "off"))
        return path

    def spark_properties(self, settings: Mapping[str, str], home: Path) -> Path:
        """A file with the settings, and with the defaults of that SPARK_HOME for all others.

        Only this user can read it, while every user of the machine can read a command line. Given such a file, Spark
        3.5 ignores its defaults, and Spark 4 reads them only with an option that Spark 3.5 does not know. Raises
        EnvironmentFailure.
        """
        path = self.path / "spark.properties"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            javaproperties.dump({**default_settings(home), **settings}, file, timestamp=False)
        return path

    def spark_home(self, *, on_this_machine: bool) -> Path:
        """`SPARK_HOME` if it is set, else a folder of links into the installed pyspark.

        On this machine the folder lacks `python/lib/pyspark.zip`, which Spark would import in place of the installed
        pyspark: every process compiles the modules of a zip again (measured on two busy cores: a first worker is ready
        after 1.0 s instead of 3.0 s, a later one after 0.6 s instead of 1.5 s).
        """
        given = os.environ.get("SPARK_HOME")
        if given:
            return Path(given)
        home = self.path / "home"
        home.mkdir()
        left_out = {"work", "python"} if on_this_machine else {"work"}
        for entry in installed_spark().package.iterdir():
            if entry.name not in left_out:
                (home / entry.name).symlink_to(entry)
        return home
