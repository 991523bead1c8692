"""`samzapy replay`: process a slice of the input of one task again, on this machine, without sending anything."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext, redirect_stdout
from typing import TYPE_CHECKING, Any, TextIO

import click

from samzapy.cli.output import answers_by_exit_code, job_file, table

if TYPE_CHECKING:
    from samzapy.config.job import JobConfig
    from samzapy.errors import SamzapyError
    from samzapy.replay.recording import Step

_COLUMNS = ("at", "what", "where", "key", "value")


@click.command()
@job_file
@click.option("--task", metavar="NAME", help='The task, as "Partition 3"; not needed if --until names the partition.')
@click.option(
    "--until", required=True, metavar="PLACE", help="The last message: 17, or kafka.in[3]@17 as logs print it."
)
@click.option(
    "--from", "start", metavar="PLACE", help="The first message to show; default: the first since the commit."
)
@click.option("--from-empty", is_flag=True, help="Start at --from with empty stores, not with the state of a commit.")
@click.option("--pdb", "at_failures", is_flag=True, help="Open the debugger at each failure.")
@click.option("--break", "before", is_flag=True, help="Open the debugger before the last message is processed.")
@click.option("--json", "as_json", is_flag=True, help="Print lines of JSON.")
def replay(config: JobConfig, **given: Any) -> None:
    """Process messages of one task again, with its state of that time, and print its outputs and changes of state.

    The command rebuilds the state of the last commit before --from (else --until) in a temporary folder. It sends
    nothing and writes to no topic. The job may be running. The exit code is 1 if a failure ends the replay.
    """
    if given["as_json"] and (given["at_failures"] or given["before"]):
        raise click.UsageError("--json cannot be combined with the debugger (--pdb, --break)")
    lines = sys.stdout if given["as_json"] else None
    # Prints of the user's code do not belong between lines of JSON.
    with nullcontext() if lines is None else redirect_stdout(sys.stderr):
        with answers_by_exit_code():
            answer = _replay(config, given, lines)
        if answer is not None:
            raise answer


def _replay(config: JobConfig, given: dict[str, Any], lines: TextIO | None) -> SamzapyError | None:
    """Plan and run it; return the failure that has ended it. `lines`: where lines of JSON go; None for a table on
    standard output."""
    from samzapy.admin.job_check import resolved
    from samzapy.admin.user_code import check_task_class, make_importable
    from samzapy.replay.attempt import opened_replay
    from samzapy.replay.plan import Request, plan_replay
    from samzapy.serializers import as_json

    config = resolved(config)
    make_importable(config)
    check_task_class(config.task.task_class)
    request = Request(given["until"], given["task"], given["start"], given["from_empty"])
    planned = plan_replay(config, request)
    for line in (*planned.about, *(f"note: {item}" for item in planned.unknown)):
        click.echo(line, err=True)
    rows: list[tuple[object, ...]] = []
    stop = planned.slice.until if given["before"] else None
    with opened_replay(config, planned, at_failures=given["at_failures"], stop=stop) as session:
        for name, result in sorted(session.restored.items()):
            store = planned.stores.get(name)
            upto = f" of {store.changelog} up to offset {store.last}" if store is not None and store.last >= 0 else ""
            click.echo(f"store {name}: {result.source}, {result.records:,} records{upto}", err=True)
        for step in session.steps():
            if lines is not None:
                click.echo(as_json(step.to_json()), file=lines)
            else:
                rows += _rows(step)
        if lines is None:
            table(f"Replay of {planned.task.name}", _COLUMNS, rows)
        if session.stopped_by_task:
            click.echo("the task has asked for a shutdown before the last message", err=True)
    return session.failure


def _rows(step: Step) -> Iterator[tuple[object, ...]]:
    """The lines of a step: its message, then its effects."""
    at: object = step.at
    for given in step.inputs:
        yield at, "in", "", _text(given.key), _text(given.message)
        at = ""
    for effect in _effects(step):
        yield (at, *effect)
        at = ""


def _effects(step: Step) -> Iterator[tuple[object, ...]]:
    for output in step.outputs:
        yield "out", output.stream, _text(output.key), _text(output.message)
    for change in step.changes:
        after = "deleted" if change.after is None else _text(change.after)
        before = "absent" if change.before is None else _text(change.before)
        yield "state", change.store, _text(change.key), f"{before} -> {after}"
    for failure in step.failures:
        what = "failed" if step.ended else "error"
        yield what, failure.at or failure.where, "", f"{failure.exception}: {failure.message}"


def _text(value: object) -> str:
    from samzapy.admin.streams import as_text

    return as_text(value)
