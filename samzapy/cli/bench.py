"""`samzapy bench`: measure jobs."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console

from samzapy.cli.pairs import pairs

_JOB = click.argument("job", type=click.Path(path_type=Path), metavar="JOB.properties")
_CONFIG = click.option(
    "--config", "-c", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key of the job file."
)


@click.group()
def bench() -> None:
    """Measure jobs: throughput, CPU and memory of a process of their own."""


@bench.command()
@_JOB
@_CONFIG
@click.option("--runner", type=click.Choice(["local", "spark"]), default="local", show_default=True, help="Where.")
@click.option("--repeat", type=click.IntRange(1, 100), default=1, show_default=True, help="Runs, one after the other.")
@click.option("--json", "as_json", is_flag=True, help="Print the measurements as JSON.")
def job(job: Path, overrides: tuple[str, ...], runner: str, repeat: int, as_json: bool) -> None:
    """Run a job over its inputs as they are now, to their end, and report what that took.

    A run begins where the job's last one committed. So that each repeat reads everything, each gets a job.id of its
    own below the configured one, and with it checkpoints and state of its own; changelogs keep their names.
    """
    from samzapy.bench.job import measure_job
    from samzapy.bench.report import job_table
    from samzapy.config.loader import load_job

    given = pairs(overrides)
    config = load_job(job, given)
    ids = [config.id] if repeat == 1 else [f"{config.id}-{number}" for number in range(1, repeat + 1)]
    measured = [measure_job(job, {**given, "job.id": each}, runner) for each in ids]
    if as_json:
        click.echo(json.dumps([each.to_json() for each in measured]))
    else:
        Console().print(job_table(f"{config.name} ({runner})", measured))


@bench.command()
@_JOB
@_CONFIG
@click.option("--count", type=click.IntRange(1), default=1_000_000, show_default=True, help="Events to write.")
@click.option("--keys", type=click.IntRange(1), default=100_000, show_default=True, help="Users they are about.")
@click.option("--exponent", type=float, default=1.1, show_default=True, help="Of Zipf's law.")
@click.option("--seed", type=int, default=7, show_default=True, help="The same seed gives the same events.")
@click.option("--partitions", type=click.IntRange(1), default=4, show_default=True, help="Of the stream, if it is new.")
def events(
    job: Path, overrides: tuple[str, ...], count: int, keys: int, exponent: float, seed: int, partitions: int
) -> None:
    """Write JSON events of about 100 bytes, keyed by user, to the first input of a job."""
    from samzapy.bench.events import Events
    from samzapy.bench.load import load_events
    from samzapy.config.loader import load_job

    config = load_job(job, pairs(overrides))
    stream = config.task.inputs[0]
    made = Events(count, keys, exponent, seed)
    written = load_events(config.systems[stream.system], stream, made, partitions=partitions)
    click.echo(f"{written:,} events written to {stream}")
