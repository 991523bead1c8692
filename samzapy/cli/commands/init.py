"""`samzapy init`: create a runnable project as a starting point."""

from __future__ import annotations

import importlib.util
import keyword
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from string import Template

import click

from samzapy.api.stream import SystemStream
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.config.job import JobConfig
from samzapy.config.loader import load_job
from samzapy.errors import ConfigError, ConfigProblem, EnvironmentFailure
from samzapy.system.factories import system_factory

#: The files of a project by their templates' names, both with `$name`.
_FILES = {
    "task.py.txt": "$name.py",
    "job.properties.txt": "$name.properties",
    "test.py.txt": "test_$name.py",
    "input.tsv.txt": "input.tsv",
    "README.md.txt": "README.md",
    "gitignore.txt": ".gitignore",
}
#: The same files for messages with classes.
_TYPED_FILES = {
    "typed_task.py.txt": "$name.py",
    "typed_job.properties.txt": "$name.properties",
    "typed_test.py.txt": "test_$name.py",
    "input.tsv.txt": "input.tsv",
    "README.md.txt": "README.md",
    "gitignore.txt": ".gitignore",
}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_PARTITIONS = 2


@click.command()
@click.argument("name")
@click.option(
    "--dir",
    "parent",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=Path(),
    help="The parent folder of the project; default: the current one.",
)
@click.option("--typed", is_flag=True, help="With classes for its messages and for the values of its store.")
def init(name: str, parent: Path, *, typed: bool) -> None:
    """Create the folder NAME with a task, its job file, its tests and some input.

    NAME becomes the task's module: 1 to 40 of a-z 0-9 _, and not the name of an installed module. Existing files are
    never overwritten.
    """
    folder, messages = create_project(name, parent, _TYPED_FILES if typed else _FILES)
    click.echo(f"created {folder}, with {messages} messages in local.{name}-input; now:")
    for command in (
        f"cd {folder}",
        "pytest",
        f"samzapy run {name}.properties --until-end",
        f"samzapy topic read local.{name}-counts --job {name}.properties",
    ):
        click.echo(f"  {command}")


def create_project(name: str, parent: Path, templates: Mapping[str, str]) -> tuple[Path, int]:
    """Make the folder `parent/name` with a job that can be tested and run; returns it, and the number of input
    messages.

    `templates`: the names of its files by the names of their templates, both with `$name`.

    Raises ConfigError for a name that is no valid module name or exists already, EnvironmentFailure for a folder that
    cannot be written to. Then no file is left behind.
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
        _write_files(name, folder, templates)
        return folder, _fill_streams(name, folder)
    except BaseException:
        shutil.rmtree(folder)
        raise


def check_name(name: str) -> None:
    """Raise ConfigError unless `name` can be a module, a job and a part of topic names, and is no module that
    exists."""
    if not _NAME.fullmatch(name):
        raise _refused(name, "a name is 1 to 40 of a-z 0-9 _, a letter first: it becomes a Python module")
    if name.startswith("test_") or name.endswith("_test") or name == "conftest":
        raise _refused(name, "pytest would take the task's module for a test")
    if keyword.iskeyword(name):
        raise _refused(name, "a keyword of Python cannot be a module")
    if name in sys.stdlib_module_names or _installed(name):
        raise _refused(name, "Python has a module of that name already")


def _installed(name: str) -> bool:
    found = importlib.util.find_spec(name)
    # A plain folder does not count as a module, although it could be imported as one.
    return found is not None and found.origin is not None


def _refused(name: str, why: str) -> ConfigError:
    return ConfigError([ConfigProblem("NAME", name, why)])


def _write_files(name: str, folder: Path, templates: Mapping[str, str]) -> None:
    words = {"name": name, "task": f"{name.title().replace('_', '')}Task"}
    for template, path in templates.items():
        text = (files("samzapy.cli") / "templates" / template).read_text("utf-8")
        (folder / Template(path).substitute(words)).write_text(Template(text).substitute(words), "utf-8")


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
            admin.create(StreamSpec(stream.stream, _PARTITIONS))
    finally:
        admin.close()


def _lines(path: Path) -> Iterator[tuple[bytes, bytes]]:
    for line in path.read_bytes().splitlines():
        key, _, message = line.partition(b"\t")
        yield key, message
