"""`samzapy init`: create a runnable project as a starting point."""

from __future__ import annotations

import importlib.util
import keyword
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template

import click

from samzapy.api.stream import SystemStream
from samzapy.api.system import OutgoingRecord
from samzapy.config.job import JobConfig
from samzapy.config.loader import load_job
from samzapy.config.streams.systems import new_stream
from samzapy.errors import ConfigError, ConfigProblem, EnvironmentFailure
from samzapy.system.clients import system_factory
from samzapy.version import VERSION

#: The files of a project by their templates' names, both with `$name`.
_FILES = {
    "task.py.txt": "$name.py",
    "job.properties.txt": "$name.properties",
    "test.py.txt": "test_$name.py",
    "input.tsv.txt": "input.tsv",
    "README.md.txt": "README.md",
    "gitignore.txt": ".gitignore",
    "pyproject.toml.txt": "pyproject.toml",
}
#: The templates that differ for messages with classes.
_TYPED = {"task.py.txt", "job.properties.txt", "test.py.txt"}
_SPARK_FILES = {"submit.py.txt": "run_$name.py"}
_SPARK_KEYS = """# A container runs in one Spark task.
job.container.count=2
"""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_PARTITIONS = 2


@click.command()
@click.argument("name")
@click.option(
    "--dir",
    "parent",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=Path(),
    help="The parent folder of the project; default: the current folder.",
)
@click.option("--typed", is_flag=True, help="Add classes for the messages and for the values of the store.")
@click.option("--kafka", is_flag=True, help="Put the streams on Kafka instead of the embedded system.")
@click.option("--spark", is_flag=True, help="Add a script for spark-submit, and use two containers.")
def init(name: str, parent: Path, *, typed: bool, kafka: bool, spark: bool) -> None:
    """Create the folder NAME with a task, its job file, its tests and some input.

    NAME becomes the task's module: 1 to 40 of a-z 0-9 _, without a _ at the end, and not the name of an installed
    module. The command never overwrites existing files.
    """
    kind = ProjectKind(typed=typed, kafka=kafka, spark=spark)
    folder, messages = create_project(name, parent, kind.files, kind.words(name), fill=not kafka)
    click.echo(f"created {folder}{'' if kafka else f', with {messages} messages in local.{name}-input'}; now:")
    for command in (f"cd {shlex.quote(str(folder))}", "pytest", *kind.commands(name)):
        click.echo(f"  {command}")


@dataclass(frozen=True)
class ProjectKind:
    """The choices of a project."""

    typed: bool = False
    kafka: bool = False
    spark: bool = False

    @property
    def files(self) -> dict[str, str]:
        """The names of its files by the names of their templates."""
        chosen = {f"typed_{item}" if self.typed and item in _TYPED else item: path for item, path in _FILES.items()}
        return {**chosen, **(_SPARK_FILES if self.spark else {})}

    def words(self, name: str) -> dict[str, str]:
        """The words for the gaps in its templates."""
        system = "kafka" if self.kafka else "local"
        return {
            "name": name,
            "task": f"{name.title().replace('_', '')}Task",
            "version": VERSION,
            "system": system,
            "system_keys": _template(f"{system}_system.txt"),
            "spark_keys": _SPARK_KEYS if self.spark else "",
            "spark_file": f"| `run_{name}.py` | a script for `spark-submit` |\n" if self.spark else "",
            "spark_run": f" `spark-submit run_{name}.py` runs the job on any Spark." if self.spark else "",
            "begin": "Make its streams" if self.kafka else "Begin again",
            "streams": _ON_KAFKA if self.kafka else _EMBEDDED,
        }

    def commands(self, name: str) -> list[str]:
        """The commands to run after the tests."""
        job, system = f"{name}.properties", "kafka" if self.kafka else "local"
        run = f"spark-submit run_{name}.py" if self.spark else f"samzapy run {job} --until-end"
        steps = [run, f"samzapy topic read {system}.{name}-counts --job {job}"]
        if not self.kafka:
            return steps
        create = [
            f"samzapy topic create kafka.{name}-{item} --partitions {_PARTITIONS} --job {job}"
            for item in ("input", "counts")
        ]
        return [
            "samzapy kafka start",
            *create,
            f"samzapy topic write kafka.{name}-input --job {job} < input.tsv",
            *steps,
        ]


_EMBEDDED = """The streams are in `.samzapy/local.db`, which is not under version control. To make them anew, in a clone or after
`rm -r .samzapy`:"""
_ON_KAFKA = """The streams are on the Kafka that the job file names; `samzapy kafka start` starts one on this machine. To make and
fill them:"""


def create_project(
    name: str, parent: Path, templates: Mapping[str, str], words: Mapping[str, str], *, fill: bool = True
) -> tuple[Path, int]:
    """Make the folder `parent/name` with a job that can be tested and run; returns it, and the number of input
    messages.

    `templates`: the names of its files by the names of their templates, both with the placeholders that `words` fills.
    `fill`: create its streams and write its input.

    Raises ConfigError for a name that is not a valid module name or exists already, EnvironmentFailure for a folder
    that cannot be written to. Then no file is left behind.
    """
    check_name(name)
    folder = parent / name
    if folder.exists():
        raise ConfigError([ConfigProblem("NAME", None, f"{folder} exists already")])
    try:
        folder.mkdir()
    except OSError as cause:
        raise EnvironmentFailure(f"{folder}: cannot make the folder ({cause.strerror})") from cause
    try:
        _write_files(folder, templates, words)
        return folder, _fill_streams(name, folder) if fill else 0
    except BaseException:
        shutil.rmtree(folder)
        raise


def check_name(name: str) -> None:
    """Raise ConfigError unless `name` can be a module, a job and a part of topic names, and is not an existing
    module."""
    if not _NAME.fullmatch(name):
        raise _refused(name, "a name is 1 to 40 of a-z 0-9 _, a letter first: it becomes a Python module")
    if name.startswith("test_") or name.endswith("_test") or name == "conftest":
        raise _refused(name, "pytest would mistake the task's module for a test")
    if name.endswith("_"):
        raise _refused(name, "pip installs no project with a _ at the end of its name")
    if name == "setup":
        raise _refused(name, "pip would run the task's module as the script that installs the project")
    if keyword.iskeyword(name):
        raise _refused(name, "a keyword of Python cannot be a module")
    if name in sys.stdlib_module_names or _installed(name):
        raise _refused(name, "Python has a module of that name already")


def _installed(name: str) -> bool:
    result = importlib.util.find_spec(name)
    # A plain folder does not count as a module, although it could be imported as one.
    return result is not None and result.origin is not None


def _refused(name: str, why: str) -> ConfigError:
    return ConfigError([ConfigProblem("NAME", name, why)])


def _write_files(folder: Path, templates: Mapping[str, str], words: Mapping[str, str]) -> None:
    for template, path in templates.items():
        text = Template(_template(template)).substitute(words)
        (folder / Template(path).substitute(words)).write_text(text, "utf-8")


def _template(name: str) -> str:
    return (files("samzapy.cli") / "templates" / name).read_text("utf-8")


def _fill_streams(name: str, folder: Path) -> int:
    """Create and fill the streams in the folder, as the README does by `samzapy topic create` and `samzapy topic
    write`."""
    job = load_job(folder / f"{name}.properties", {"systems.local.path": str(folder / ".samzapy" / "local.db")})
    (source,) = job.task.inputs
    _create(job, source, SystemStream(source.system, f"{name}-counts"))
    settings = job.systems[source.system]
    producer = system_factory(settings).producer(settings, "samzapy-init")
    try:
        records = [OutgoingRecord(source.stream, key, message) for key, message in _lines(folder / "input.tsv")]
        producer.send(records)
        producer.flush()
        return len(records)
    finally:
        producer.close()


def _create(job: JobConfig, *streams: SystemStream) -> None:
    settings = job.systems[streams[0].system]
    admin = system_factory(settings).admin(settings, "samzapy-init")
    try:
        for stream in streams:
            admin.create(new_stream(settings, stream.stream, _PARTITIONS))
    finally:
        admin.close()


def _lines(path: Path) -> Iterator[tuple[bytes, bytes]]:
    for line in path.read_bytes().splitlines():
        key, _, message = line.partition(b"\t")
        yield key, message
