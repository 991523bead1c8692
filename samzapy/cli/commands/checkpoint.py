"""The positions of a job: `samzapy checkpoint`, `samzapy startpoint` and `samzapy drain`."""

from __future__ import annotations

from threading import Event
from typing import Any

import click

from samzapy.admin.positions import JobPositions, Move, move_positions, read_positions
from samzapy.admin.running import NO_DRIVER, describe_run, find_run
from samzapy.api.checkpoint import Checkpoint
from samzapy.checkpoint.records import Target
from samzapy.cli.output import (
    INPUTS,
    JSON,
    TAKE_OVER,
    Command,
    Number,
    answers_by_exit_code,
    job_file,
    json_text,
    of_job,
    table,
    wait_for_a_run,
    warn,
)
from samzapy.config.job import JobConfig
from samzapy.coordinator.clocks import utc
from samzapy.errors import counted
from samzapy.job.planner import JobModel, TaskModel


def _moving(command: Command) -> Command:
    """Adds the options of a move."""
    dry_run = click.option("--dry-run", is_flag=True, help="Show the changes without making them.")
    return INPUTS(TAKE_OVER(dry_run(JSON(command))))


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
    result = read_positions(config, model)
    if as_json:
        for task in model.tasks:
            click.echo(json_text(_as_json(task, result)))
        return
    rows = [(task.name, ssp, *_row(result, task.name, ssp)) for task in model.tasks for ssp in sorted(task.ssps)]
    table("Positions", ("task", "input", "committed", "oldest", "upcoming", "behind"), rows)
    saved = [(name, item) for name, item in result.checkpoints.items() if item is not None]
    commits = [(name, utc(item.time_ms), item.epoch, _changelogs(item)) for name, item in saved]
    table("Commits", ("task", "at", "epoch", "changelogs"), commits)
    times = [
        (
            name,
            "none yet" if item.clock is None else utc(item.clock),
            item.held_by or "none",
            ", ".join(item.idle) or "none",
        )
        for name, item in saved
    ]
    table("Event time", ("task", "clock", "held back by", "idle or ended"), times)
    if result.clocks.checkpoint is not None:
        click.echo(f"the tasks' own states start again at {utc(result.clocks.checkpoint)}")
    running = find_run(config, result.owner)
    if running.certain or running.unseen:
        click.echo(running.certain or running.unseen)
    elif result.owner is not None and result.owner.pid != NO_DRIVER:
        click.echo(f"{describe_run(result.owner)} has ended")


@checkpoint.command("set")
@of_job
@click.argument("position", metavar="POSITION")
@_moving
def set_(config: JobConfig, model: JobModel, position: str, **options: Any) -> None:
    """Move a stopped job to POSITION.

    POSITION is oldest, newest (the last offset), upcoming (after it), an offset, or a time: 2026-01-31T12:00:00Z (by
    default UTC) or @1769860800000 (milliseconds), for the first record that is not older.
    """
    _move(config, model, Move(Target(position), **options))


@checkpoint.command()
@of_job
@_moving
def reset(config: JobConfig, model: JobModel, **options: Any) -> None:
    """Move a stopped job to the positions of a first start: each input's samza.offset.default."""
    _move(config, model, Move(Target("default"), **options))


def _move(config: JobConfig, model: JobModel, move: Move) -> None:
    moved = move_positions(config, model, move, wait_for_a_run)
    if config.stores and any(item.before is not None and item.after < item.before for item in moved):
        warn("the stores keep their entries: the job applies messages to them again when it reads them again")
    rows = [(item.task, item.ssp, "none" if item.before is None else item.before, item.after) for item in moved]
    table("Would be moved" if move.dry_run else "Moved", ("task", "input", "from", "to"), rows)


def _row(result: JobPositions, task: str, ssp: Any) -> tuple[object, ...]:
    saved, log = result.checkpoints[task], result.logs[ssp]
    committed = None if saved is None else saved.input_offsets.get(ssp)
    if committed is None:
        return "none", log.oldest, log.upcoming, ""
    return committed, log.oldest, log.upcoming, max(0, log.upcoming - committed)


def _changelogs(saved: Checkpoint) -> str:
    return ", ".join(f"{store}={offset}" for store, offset in sorted(saved.changelog_offsets.items()))


def _as_json(task: TaskModel, result: JobPositions) -> dict[str, Any]:
    saved = result.checkpoints[task.name] or Checkpoint({})
    known = result.checkpoints[task.name] is not None
    return {
        "task": task.name,
        "epoch": saved.epoch if known else None,
        "time-ms": saved.time_ms if known else None,
        "clock-ms": saved.clock,
        "clock-held-by": saved.held_by,
        "clock-idle": list(saved.idle),
        "checkpoint-clock-ms": result.clocks.checkpoint,
        "inputs": {
            str(ssp): {"committed": saved.input_offsets.get(ssp), **result.logs[ssp]._asdict()}
            for ssp in sorted(task.ssps)
        },
        "changelogs": dict(saved.changelog_offsets),
    }


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
@INPUTS
@click.option("--task", metavar="NAME", help="Only this task, if several tasks read a broadcast partition.")
def set_startpoint(
    config: JobConfig, model: JobModel, position: str, inputs: tuple[str, ...], task: str | None
) -> None:
    """Start at POSITION the next time.

    POSITION is oldest, newest (the last offset), upcoming (after it), an offset, or a time: 2026-01-31T12:00:00Z (by
    default UTC) or @1769860800000 (milliseconds), for the first record that is not older. The start evaluates it.
    """
    from samzapy.admin.positions import write_startpoints

    written = write_startpoints(config, model, position, inputs, task)
    click.echo(f"the next start begins at {position} in {', '.join(str(item.ssp) for item in written)}")


@startpoint.command("show")
@JSON
@of_job
def show_startpoints(config: JobConfig, model: JobModel) -> None:
    """Show the startpoints that the next start will follow."""
    from samzapy.admin.positions import read_startpoints

    if not config.startpoints:
        warn("job.startpoint.enabled is false: starts ignore startpoints")
    rows = [
        (item.ssp, item.task or "all", item.position, utc(item.created_ms)) for item in read_startpoints(config, model)
    ]
    table("Startpoints", ("input", "task", "position", "written"), rows)


@startpoint.command()
@of_job
def clear(config: JobConfig, model: JobModel) -> None:
    """Drop the startpoints that the next start would follow."""
    from samzapy.admin.positions import clear_startpoints

    click.echo(f"{counted(clear_startpoints(config, model), 'startpoint')} dropped")


@click.command()
@job_file
@click.option("--no-wait", is_flag=True, help="Do not wait for the end.")
@click.option("--timeout", type=Number(0), default=600.0, show_default=True, help="Seconds to wait for the end.")
@answers_by_exit_code()
def drain(config: JobConfig, *, no_wait: bool, timeout: float) -> None:
    """Let a running job process its inputs up to their current ends, call on_drain of its tasks, commit and stop.

    The job may run on any machine with the same checkpoints. Its driver looks for the request three times per lease,
    and records its end beside them. The exit code is 1 if the run has ended without draining.
    """
    from samzapy.admin.running import ask_to_drain, describe_run, wait_for_drain
    from samzapy.errors import EnvironmentFailure

    run = ask_to_drain(config)
    click.echo(f"asked {describe_run(run)} to drain", err=True)
    if no_wait:
        return
    if not wait_for_drain(config, run, timeout, Event().wait):
        raise EnvironmentFailure(
            f"job {config.name} (id {config.id}): not drained within {timeout:g} s; it is still draining"
        )
    click.echo("drained")
