"""Finds the installed Spark, and knows the differences between its supported versions, 3.5 and 4.

Everything is read from files: pyspark takes a second to import, and the question comes before Spark is started. The
differences, besides those hidden behind calls that both versions have:

1. Spark 3.5 and 4.0 ask the JVM for its user in a way that Java 23 no longer has (`runs_on`).
2. Spark 3.5 is built for Scala 2.12, so Kafka's server gets its own Scala (`samzapy.devkafka.runtime`).
"""

from __future__ import annotations

import os
import re
import zipfile
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

from samzapy.errors import EnvironmentFailure

_VERSION = re.compile(r"""^__version__[^"']*["'](\d+\.\d+)""", re.MULTILINE)

#: The last Java with `Subject.getSubject`, by which a Hadoop without this class finds the user.
_LAST_WITH_SUBJECT = 22
_DOES_WITHOUT = "org/apache/hadoop/security/authentication/util/SubjectUtil.class"


@dataclass(frozen=True)
class InstalledSpark:
    """A Spark by the folder of the Python package, `pyspark`."""

    package: Path

    @cached_property
    def version(self) -> str:
        """The version as `4.1`; `0.0` if the package has none."""
        found = _VERSION.search((self.package / "version.py").read_text("utf-8"))
        return found[1] if found else "0.0"

    @property
    def jars(self) -> Path:
        """The folder of its jars: below SPARK_HOME, in the package, or in the Spark that contains the package."""
        home = os.environ.get("SPARK_HOME")
        homes = [*([Path(home)] if home else []), self.package, *self.package.parents[1:2]]
        return next((each / "jars" for each in homes if (each / "jars").is_dir()), self.package / "jars")

    def jar(self, pattern: str) -> Path:
        """The jar with such a name (`ivy-*.jar`). Raises EnvironmentFailure."""
        found = sorted(self.jars.glob(pattern))
        if not found:
            raise EnvironmentFailure(f"{self.jars}: holds no {pattern}; install pyspark again")
        return found[0]

    def runs_on(self, java: int) -> bool:
        """Whether this Spark starts on a Java of that version, as far as is known."""
        return java <= _LAST_WITH_SUBJECT or self._does_without_subject

    @cached_property
    def _does_without_subject(self) -> bool:
        try:
            with zipfile.ZipFile(self.jar("hadoop-client-api-*.jar")) as hadoop:
                return _DOES_WITHOUT in hadoop.NameToInfo
        except (OSError, zipfile.BadZipFile, EnvironmentFailure):
            # A Spark without this jar brings its own Hadoop, which is not known here.
            return True


def installed_spark() -> InstalledSpark:
    """The pyspark that Python imports. Raises EnvironmentFailure if there is none."""
    try:
        found = find_spec("pyspark")
    except ValueError:
        # Something has put itself in its place.
        found = None
    if found is None or not found.submodule_search_locations:
        raise EnvironmentFailure("pyspark is not installed: install samzapy with its dependencies")
    return InstalledSpark(Path(found.submodule_search_locations[0]))
