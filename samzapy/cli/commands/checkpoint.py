"""`samzapy checkpoint`: show and move the positions of a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event
from typing import Any

import click

from samzapy.admin.positions import JobPositions, Move, Moved, move_positions, read_positions
from samzapy.admin.running import NO_DRIVER, describe_run, look_for_run
from samzapy.checkpoint.offsets import Target
from samzapy.cli.options import of_job
from samzapy.cli.output import json_text, table, utc, warn
from samzapy.config.job import JobConfig
from samzapy.coordinator.clocks import as_text
from samzapy.job.model import JobModel


def _moving(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of a move."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Show the changes without making them."),
        click.option("--take-over", is_flag=True, help="Force an unseen run on another machine to let go."),
        click.option(
            "--input",
            "inputs",
            multiple=True,
            metavar="SYSTEM.STREAM[PARTITION]",
            help="Only this stream or partition; repeatable.",
        ),
    ):
        command = option(command)
    return command


@click.group()
def checkpoint() -> None:
    """Show and move the positions of a job.

    You can move positions only while the job does not run. The command sees a driver on this machine, and any process
    here with an open local store of the job. It cannot see a driver on another machine: with --take-over it first
    forces such a run to let go. Stores keep their entries, so a job that counts will count twice after going back,
    unless you also empty its stores. A sink with its own offsets may refuse to start behind them, or skip records.
    """


@checkpoint.command()
@of_job
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON per task.")
def show(config: JobConfig, model: JobModel, *, as_json: bool) -> None:
    """Show each task's positions, and their distance from the ends of its inputs. The job may be running."""
    found = read_positions(config, model)
    if as_json:
        for task in model.tasks:
            click.echo(json_text(_as_json(task.name, sorted(map(str, task.ssps)), found)))
        return
    rows = [(task.name, ssp, *_row(found, task.name, ssp)) for task in model.tasks for ssp in sorted(task.ssps)]
    table("Positions", ("task", "input", "committed", "oldest", "upcoming", "behind"), rows)
    commits = [
        (
            name,
            utc(each.time_ms),
            as_text(each.clock),
            each.epoch,
            ", ".join(f"{s}={o}" for s, o in sorted(each.changelog_offsets.items())),
        )
        for name, each in found.checkpoints.items()
        if each is not None
    ]
    table("Commits", ("task", "at", "clock", "epoch", "changelogs"), commits)
    times = [
        (name, as_text(each.clock) or "none yet", each.held_by or "none", ", ".join(each.idle) or "none")
        for name, each in found.checkpoints.items()
        if each is not None
    ]
    table("Event time", ("task", "clock", "held back by", "idle or ended"), times)
    if found.clocks.checkpoint is not None:
        click.echo(f"the tasks' own states start again at {as_text(found.clocks.checkpoint)}")
    running = look_for_run(config, found.owner)
    if running.certain or running.unseen:
        click.echo(running.certain or running.unseen)
    elif found.owner is not None and found.owner.pid != NO_DRIVER:
        click.echo(f"{describe_run(found.owner)} has ended")


@checkpoint.command("set")
@of_job
@click.argument("position", metavar="POSITION")
@_moving
def set_(
    config: JobConfig, model: JobModel, position: str, inputs: tuple[str, ...], *, take_over: bool, dry_run: bool
) -> None:
    """Move a stopped job to POSITION.

    POSITION is oldest, newest (the last offset), upcoming (after it), an offset, or a time: 2026-01-31T12:00:00Z (by
    default UTC) or @1769860800000 (milliseconds), for the first record that is not older.
    """
    _move(config, model, Move(Target(position), inputs, take_over, dry_run))


@checkpoint.command()
@of_job
@_moving
def reset(config: JobConfig, model: JobModel, inputs: tuple[str, ...], *, take_over: bool, dry_run: bool) -> None:
    """Move a stopped job to the positions of a first start: each input's samza.offset.default."""
    _move(config, model, Move(Target("default"), inputs, take_over, dry_run))


def _move(config: JobConfig, model: JobModel, move: Move) -> None:
    def wait(seconds: float) -> None:
        click.echo(f"waiting {seconds:g} s for a run elsewhere to let go", err=True)
        Event().wait(seconds)

    moved = move_positions(config, model, move, wait)
    if config.stores and any(each.before is not None and each.after < each.before for each in moved):
        warn("the stores keep their entries: the job applies messages to them again when it reads them again")
    _show_moved(moved, "Would be moved" if move.dry_run else "Moved")


def _show_moved(moved: Sequence[Moved], title: str) -> None:
    rows = [(each.task, each.ssp, "none" if each.before is None else each.before, each.after) for each in moved]
    table(title, ("task", "input", "from", "to"), rows)


def _row(found: JobPositions, task: str, ssp: Any) -> tuple[object, ...]:
    saved, log = found.checkpoints[task], found.logs[ssp]
    committed = None if saved is None else saved.input_offsets.get(ssp)
    if committed is None:
        return "none", log.oldest, log.upcoming, ""
    return committed, log.oldest, log.upcoming, max(0, log.upcoming - committed)


def _as_json(task: str, inputs: Sequence[str], found: JobPositions) -> dict[str, Any]:
    saved = found.checkpoints[task]
    committed = {} if saved is None else {str(ssp): offset for ssp, offset in saved.input_offsets.items()}
    logs = {str(ssp): log for ssp, log in found.logs.items()}
    return {
        "task": task,
        "epoch": None if saved is None else saved.epoch,
        "time-ms": None if saved is None else saved.time_ms,
        "clock-ms": None if saved is None else saved.clock,
        "clock-held-by": None if saved is None else saved.held_by,
        "clock-idle": [] if saved is None else list(saved.idle),
        "checkpoint-clock-ms": found.clocks.checkpoint,
        "inputs": {
            ssp: {"committed": committed.get(ssp), "oldest": logs[ssp].oldest, "upcoming": logs[ssp].upcoming}
            for ssp in inputs
        },
        "changelogs": {} if saved is None else dict(saved.changelog_offsets),
    }
