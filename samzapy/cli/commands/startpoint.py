"""Requests to a job that may be running, written beside its checkpoints: `samzapy startpoint` and `samzapy drain`."""

from __future__ import annotations

from pathlib import Path

import click

from samzapy.cli.options import JOB, OVERRIDES, Number, answers_by_exit_code, of_job, pairs
from samzapy.cli.output import table, utc, warn
from samzapy.config.job import JobConfig
from samzapy.job.model import JobModel


@click.group()
def startpoint() -> None:
    """Set the position of the next start of a job. The job may be running.

    A startpoint overrides the committed position once, and expires after 12 hours, as in Samza. If a partition has
    several startpoints, the newest counts. Stores keep their entries, so a job that counts will count twice after going
    back. To move a stopped job at once, use `samzapy checkpoint set`, which voids the startpoints of its partitions.
    """


@startpoint.command("set")
@of_job
@click.argument("position", metavar="POSITION")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="SYSTEM.STREAM[PARTITION]",
    help="Only this stream, or partition; repeatable.",
)
@click.option("--task", metavar="NAME", help="Only this task, if several tasks read a broadcast partition.")
def set_(config: JobConfig, model: JobModel, position: str, inputs: tuple[str, ...], task: str | None) -> None:
    """Start at POSITION the next time.

    POSITION is oldest, newest (the last offset), upcoming (after it), an offset, or a time: 2026-01-31T12:00:00Z (by
    default UTC) or @1769860800000 (milliseconds), for the first record that is not older. The start evaluates it.
    """
    from samzapy.admin.positions import write_startpoints

    written = write_startpoints(config, model, position, inputs, task)
    click.echo(f"the next start begins at {position} in {', '.join(str(each.ssp) for each in written)}")


@startpoint.command()
@of_job
def show(config: JobConfig, model: JobModel) -> None:
    """Show the startpoints that the next start will follow."""
    from samzapy.admin.positions import read_startpoints

    if not config.startpoints:
        warn("job.startpoint.enabled is false: starts ignore startpoints")
    rows = [
        (each.ssp, each.task or "all", each.position, utc(each.created_ms)) for each in read_startpoints(config, model)
    ]
    table("Startpoints", ("input", "task", "position", "written"), rows)


@startpoint.command()
@of_job
def clear(config: JobConfig, model: JobModel) -> None:
    """Drop the startpoints that the next start would follow."""
    from samzapy.admin.positions import clear_startpoints

    click.echo(f"{clear_startpoints(config, model)} startpoints dropped")


@click.command()
@JOB
@OVERRIDES
@click.option("--no-wait", is_flag=True, help="Do not wait for the end.")
@click.option("--timeout", type=Number(0), default=600.0, show_default=True, help="Seconds to wait for the end.")
@answers_by_exit_code()
def drain(job: Path, overrides: tuple[str, ...], *, no_wait: bool, timeout: float) -> None:
    """Let a running job process its inputs up to their current ends, call on_drain of its tasks, commit and stop.

    The job may run on any machine with the same checkpoints. Its driver looks for the request three times per lease, and
    records its end beside them. The exit code is 1 if the run has ended without draining.
    """
    from threading import Event

    from samzapy.admin.running import ask_to_drain, describe_run, wait_for_drain
    from samzapy.config.loader import load_job
    from samzapy.errors import EnvironmentFailure

    config = load_job(job, pairs(overrides))
    run = ask_to_drain(config)
    click.echo(f"asked {describe_run(run)} to drain", err=True)
    if no_wait:
        return
    if not wait_for_drain(config, run, timeout, Event().wait):
        raise EnvironmentFailure(
            f"job {config.name} (id {config.id}): not drained within {timeout:g} s; it is still draining"
        )
    click.echo("drained")
