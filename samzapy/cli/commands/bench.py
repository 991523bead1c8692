"""`samzapy bench`: measure jobs and stores."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import click
from rich.console import Console

from samzapy.cli.output import (
    FILE,
    JOB,
    OVERRIDES,
    Number,
    check_writable,
    job_file,
    json_text,
    pairs,
    runner_option,
    table,
)
from samzapy.config.job import JobConfig
from samzapy.errors import ConfigError


@click.group()
def bench() -> None:
    """Measure stores, and jobs in a separate process: throughput, CPU and memory."""


@bench.command()
@JOB
@OVERRIDES
@runner_option("local")
@click.option("--repeat", type=click.IntRange(1, 100), default=1, show_default=True, help="Runs, one after the other.")
@click.option("--json", "as_json", is_flag=True, help="Print the measurements as JSON.")
def job(job: Path, overrides: tuple[str, ...], runner: str, repeat: int, as_json: bool) -> None:
    """Run a job over its inputs up to their current ends, and report throughput, CPU and memory.

    A run starts at the last commit of its job. With --repeat each run gets a job.id, checkpoints, state and changelogs
    of its own, which stay, and reads everything. A pipeline with streams between its steps takes no --repeat.
    """
    from samzapy.bench.measuring import MeasurementFailed, measure_job
    from samzapy.bench.report import job_table
    from samzapy.config.loader import load_job

    given = pairs(overrides)
    config = load_job(job, given)
    if repeat > 1 and config.repartitions:
        raise ConfigError.of("--repeat", None, f"runs would share {min(config.repartitions)} with the job: measure one")
    call = uuid4().hex[:8]  # another call must not reuse these job ids
    runs = [given] if repeat == 1 else [{**given, **_own(config, f"{call}-{n}")} for n in range(1, repeat + 1)]
    measured = []
    for item in runs:
        measured.append(measure_job(job, item, runner, timeout_s=None))
        if not measured[-1].messages:
            raise MeasurementFailed(
                f"{job}: no message was processed: its inputs are empty, or the job begins at their ends, because of "
                "its last commit (with --repeat 2 each run reads everything) or of samza.offset.default=upcoming"
            )
    if as_json:
        click.echo(json_text([item.to_json() for item in measured]))
    else:
        Console().print(job_table(f"{config.name} ({runner})", measured))


def _own(config: JobConfig, run: str) -> dict[str, str]:
    """The keys that make a run a separate job: a changelog belongs to one job."""
    changelogs = {f"stores.{s.name}.changelog": f"{stream}-{run}" for stream, s in config.changelogs.items()}
    return {"job.id": f"{config.id}-{run}", **changelogs}


@bench.command()
@job_file
@click.option("--count", type=click.IntRange(1), default=1_000_000, show_default=True, help="Events to write.")
@click.option("--keys", type=click.IntRange(1), default=100_000, show_default=True, help="The number of users.")
@click.option("--exponent", type=Number(0, 20), default=1.1, show_default=True, help="The exponent of Zipf's law.")
@click.option("--seed", type=int, default=7, show_default=True, help="The same seed gives the same events.")
@click.option("--partitions", type=click.IntRange(1), default=4, show_default=True, help="Partitions of a new stream.")
def events(config: JobConfig, count: int, keys: int, exponent: float, seed: int, partitions: int) -> None:
    """Write JSON events of about 100 bytes, keyed by user, to the first input of a job."""
    from samzapy.bench.events import Events, load_events

    if not config.task.inputs:
        given = ", ".join(map(str, config.task.patterns))
        allowed = "must name a stream for the events, not only regular expressions: add -c task.inputs=SYSTEM.STREAM"
        raise ConfigError.of("task.inputs", given, allowed)
    stream = config.task.inputs[0]
    built = Events(count, keys, exponent, seed)
    written = load_events(config.systems[stream.system], stream, built, partitions=partitions)
    click.echo(f"{written:,} events written to {stream}")


@bench.command()
@click.argument("file", type=FILE, metavar="FILE.properties")
@OVERRIDES
@click.option("--only", multiple=True, metavar="TEST", help="Only this test; repeatable.")
@click.option("--scale", type=Number(0, 1000, min_open=True), default=1.0, show_default=True, help="Factor for counts.")
@click.option("--json", "json_file", type=FILE, metavar="FILE", help="Write every figure to this file.")
def store(file: Path, overrides: tuple[str, ...], only: tuple[str, ...], scale: float, json_file: Path | None) -> None:
    """Measure stores: the scenarios of a file.

    The sets of one test run in turns, so that other load on the machine falls on all of them alike.
    """
    from samzapy.bench.plan import read_plan
    from samzapy.bench.report import CASE_COLUMNS, case_rows, document
    from samzapy.bench.stores import run_plan

    plan = read_plan(file, pairs(overrides)).only(only)
    check_writable(json_file)
    results = run_plan(plan, scale=scale, on_progress=_say)
    table(f"{file.name}: medians of {plan.repeats} repeats", CASE_COLUMNS, case_rows(results))
    if json_file:
        written = document(file.name, plan, scale, results)
        json_file.write_text(json_text(written, indent=1) + "\n", encoding="utf-8")


def _say(name: str, repeat: int, repeats: int) -> None:
    click.echo(f"{name}: {f'repeat {repeat} of {repeats}' if repeat else 'preparing'}", err=True)
