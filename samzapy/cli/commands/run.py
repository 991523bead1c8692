"""`samzapy run`: run a job until it ends or is stopped; `samzapy pack`: pack the environment of its executors."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from samzapy.cli.output import (
    FILE,
    JOB,
    OVERRIDES,
    STRICT,
    discard,
    json_text,
    pairs,
    runner_option,
    status_console,
    warn,
)
from samzapy.cli.progress import RunDisplay, summary

if TYPE_CHECKING:
    from samzapy.runner.stopping import StopSwitch


@click.command()
@JOB
@OVERRIDES
@click.option("--master", metavar="URL", help="Spark master (job.spark.master); default local[N], N the containers.")
@runner_option("spark")
@click.option("--until-end", is_flag=True, help="Stop at the current ends of the inputs.")
@click.option(
    "--py-files", metavar="A.py,B.zip", help="Code of the job, here and on the executors (job.spark.py.files)."
)
@click.option(
    "--handover",
    type=click.Choice(["fast", "safe"]),
    default="fast",
    help="safe: the active run takes the job back if this one fails before it reads its inputs.",
)
@click.option("--reload", is_flag=True, help="With --runner local: start again when a file of the job changes.")
@STRICT
@click.option("--verbose", is_flag=True, help="Also show the log of Spark.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as a line of JSON.")
def run(job: Path, overrides: tuple[str, ...], master: str | None, py_files: str | None, **flags: Any) -> None:
    """Run a job until it ends or is stopped.

    After SIGTERM, Ctrl-C or the end of its terminal (not under nohup) every task commits and stops, and the exit code
    is 0. A second SIGTERM or Ctrl-C ends the job at once. Other exit codes: 1 the job failed, 2 the job file is wrong,
    3 the environment is not ready.
    """
    keys = pairs(overrides)
    keys |= {} if master is None else {"job.spark.master": master}
    keys |= {} if py_files is None else {"job.spark.py.files": py_files}
    if flags["reload"] and flags["runner"] != "local":
        raise click.UsageError("--reload restarts a local run: add --runner local")
    if master is not None and flags["runner"] == "local":
        raise click.UsageError("--master is Spark's: leave out --runner local, or --master")
    from samzapy.cli.reload import reloading
    from samzapy.runner.stopping import StopSwitch

    once = partial(_run, job, keys, os.environ.pop(_AFTER, ""), flags)
    restart = reloading(job, once) if flags["reload"] else once(StopSwitch())
    if restart is None:
        return
    os.environ[_AFTER] = restart
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  # this command again


#: The environment variable with the id of the run that ended before this command was executed anew.
_AFTER = "SAMZAPY_RESTART"


def _run(job: Path, overrides: Mapping[str, str], after: str, flags: Mapping[str, Any], stop: StopSwitch) -> str | None:
    """Load, prepare and run the job until its end, or until `stop`, and show its progress; prints the outcome on
    standard output. Returns the id of the run that has ended, instead of the print, if the job has to start again,
    which is `after` then."""
    from samzapy.cli.progress import terminal_log
    from samzapy.config.loader import load_job
    from samzapy.container.supervision.logs import DRIVER, process_logging
    from samzapy.runner.base import RunOptions
    from samzapy.runner.launch import checked, launch_once
    from samzapy.runner.local import runner_of

    config, chosen = checked(load_job(job, overrides, strict=flags["strict"]), lambda: runner_of(flags["runner"]))
    display = RunDisplay(status_console())
    log = config.supervision.log
    terminal = [] if logging.getLogger().handlers else [terminal_log(log, config.job_name, display.console)]
    file, container = ("container-0", "0") if flags["runner"] == "local" else (DRIVER, "")
    safe = flags["handover"] == "safe"
    options = RunOptions(display.status, display.event, verbose=flags["verbose"], safe=safe, stop=stop)

    @contextmanager
    def shown() -> Iterator[None]:
        with display, process_logging(log, config.job_name, file, container, terminal):
            yield

    # Prints of the user's code do not belong before the line of JSON.
    with redirect_stdout(sys.stderr) if flags["as_json"] else nullcontext():
        outcome = launch_once(config, chosen, options, shown(), until_end=flags["until_end"], after=after)
    if outcome.restart is not None:
        return outcome.restart
    whole = {**outcome.status.to_json(), "stopped": outcome.stopped}
    try:
        click.echo(json_text(whole) if flags["as_json"] else summary(outcome.status))
    except OSError as cause:
        if isinstance(cause, BrokenPipeError):
            raise
        # The exit code is the job's: it has ended well.
        warn(f"standard output: {cause.strerror}")
        discard(sys.stdout)
    return None


_MB = 1_000_000


@click.command()
@click.argument("archive", type=click.Path(path_type=Path, dir_okay=False), metavar="ENV.tar.gz")
@click.option(
    "-r",
    "--requirements",
    type=FILE,
    metavar="FILE",
    help="A requirements file of pip with the job's own packages. Install them here first.",
)
@click.option(
    "--python",
    "interpreter",
    type=FILE,
    help="The path of Python on the executors' hosts; default: the path of this Python.",
)
def pack(archive: Path, requirements: Path | None, interpreter: Path | None) -> None:
    """Write ENV.tar.gz: samzapy, its dependencies and those of a job, in the versions installed here, without pyspark.

    Executors on other machines use the archive as their Python environment. The cluster brings Spark and a Python of
    this minor version. The command replaces an existing archive of this name.
    """
    from samzapy.admin.pack import LEFT_OUT, default_interpreter
    from samzapy.admin.pack import pack as write

    packed = write(archive, requirements, interpreter)
    click.echo(f"{archive}: {packed.size / _MB:.0f} MB, {packed.unpacked / _MB:.0f} MB unpacked; with")
    click.echo(f"  {', '.join(f'{name} {version}' for name, version in packed.versions.items())}")
    click.echo(f"without {' and '.join(sorted(LEFT_OUT, reverse=True))}, on {interpreter or default_interpreter()}")
    click.echo(f"add to the job:\n  job.spark.conf.spark.archives={archive}#env")
    click.echo("  job.spark.conf.spark.pyspark.python=./env/bin/python")
