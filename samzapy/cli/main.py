"""`samzapy`: imports a command when it is called, and turns errors into lines and exit codes."""

from __future__ import annotations

import difflib
import errno
import importlib
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn, TypeGuard

import click

from samzapy.errors import EnvironmentFailure, SamzapyError
from samzapy.version import VERSION

_COMMANDS = {
    "init": "Create a project with a task, its job file, its tests and some input.",
    "run": "Run a job until it ends or is stopped.",
    "drain": "Let a running job process its inputs to their ends, and stop it.",
    "logs": "Print the log of a job.",
    "ps": "List the jobs that run on this machine.",
    "status": "Show lag, stalls and failures of a running job.",
    "check": "Explain a job file, and list all its problems.",
    "keys": "List the keys of job files.",
    "topic": "Create, list, describe, read and write streams.",
    "store": "Show, rebuild and copy the stores of a job.",
    "checkpoint": "Show and move the positions of a job.",
    "replay": "Process messages of a task again, with its state of that time, without sending.",
    "startpoint": "Set the position of the next start of a job.",
    "metrics": "Print a Grafana dashboard and alert rules.",
    "pack": "Pack the Python environment of a job's executors into an archive.",
    "kafka": "Start and stop a development Kafka on this machine.",
    "spark": "Start and stop a development Spark cluster on this machine.",
    "examples": "List and copy complete jobs for common problems.",
    "demo": "Run the flights job on real departures and print its table.",
    "bench": "Measure jobs and stores.",
    "verify": "Prove a delivery guarantee under kills, pauses and restarts.",
}
#: Commands that are in the module of another one.
_TOGETHER = {
    "status": "logs",
    "ps": "logs",
    "metrics": "keys",
    "drain": "checkpoint",
    "startpoint": "checkpoint",
    "pack": "run",
    "kafka": "servers",
    "spark": "servers",
    "demo": "init",
}
#: The exit codes that a shell reports of a process that SIGINT or SIGPIPE ended.
_INTERRUPTED, _BROKEN_PIPE = 130, 141
#: The places of errors of the system that name no file: a write without room, a folder that was removed.
_PLACES = {**dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "standard output"), errno.ENOENT: "the current folder"}
#: A command without arguments that needs some, from click 8.2 on. Before, click prints the help itself.
_NEEDS_HELP: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())


class Commands(click.Group):
    """Imports a command when it is called, so that `--help` and `--version` are quick; turns errors into a line
    (`error: ...`, one each problem) on standard error and the exit code of the error's class."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported; a typing error ends in a usage error that suggests a command."""
        if cmd_name not in _COMMANDS:
            near = difflib.get_close_matches(cmd_name, _COMMANDS, n=1)
            # A completion asks as well, and shows no errors.
            if near and not ctx.resilient_parsing:
                ctx.fail(f"No such command {cmd_name!r}; did you mean {near[0]}?")
            return None
        module = importlib.import_module(f"samzapy.cli.commands.{_TOGETHER.get(cmd_name, cmd_name)}")
        command = getattr(module, cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. A closed reader of its output is not a failure."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            from samzapy.cli.output import discard  # the libraries of bars take a while

            # The interpreter flushes once more at its end, and would report an error.
            discard(sys.stdout)
            ctx.exit(_BROKEN_PIPE)
        return result

    def main(self, args: Sequence[str] | None = None, **extra: Any) -> NoReturn:  # type: ignore[override]
        _take_any_text()
        given = list(sys.argv[1:] if args is None else args)
        # It may stand anywhere before `--`.
        end = given.index("--") if "--" in given else len(given)
        debug = "--debug" in given[:end]
        given = [*(arg for arg in given[:end] if arg != "--debug"), *given[end:]]
        if debug:
            # Without a handler Python prints warnings by itself, and the clients' log lines are lost.
            logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
        extra["standalone_mode"] = False
        try:
            code = super().main(args=given, **extra)
        except Exception as error:  # noqa: BLE001  # the last place that can report it
            code = _exit_code(error)
            with suppress(OSError):
                _report(error, debug=debug)
        except KeyboardInterrupt:
            code = _INTERRUPTED
        _drop_unwritten_errors()
        sys.exit(code if isinstance(code, int) else 0)


def _drop_unwritten_errors() -> None:
    """Drop text that standard error does not take. Otherwise the interpreter's flush at exit fails, and the interpreter
    replaces the exit code."""
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except OSError:
        from samzapy.cli.output import discard

        discard(sys.stderr)


def _take_any_text() -> None:
    """Make standard output accept every text: characters that its encoding lacks are escaped, and without standard
    output (`>&-`) all of it is dropped. A closed standard input (`<&-`) reads as empty. A task that closes standard
    output or error flushes it."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115  # a device, for the life of the process
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115  # also a device
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.close = stream.flush


def _exit_code(error: Exception) -> int:
    if isinstance(error, click.Abort):
        return _INTERRUPTED
    if isinstance(error, click.ClickException | SamzapyError):
        return error.exit_code
    return EnvironmentFailure.exit_code if _is_of_a_file(error) else 1


def _is_of_a_file(error: Exception) -> TypeGuard[OSError]:
    """Whether the cause is a file, a full disk under standard output, or the current folder."""
    return isinstance(error, OSError) and (error.errno in _PLACES or error.filename is not None)


def _report(error: Exception, *, debug: bool) -> None:
    if isinstance(error, click.Abort):
        return
    if debug:
        traceback.print_exception(error)
    if isinstance(error, _NEEDS_HELP):
        error.show()
    elif isinstance(error, click.ClickException):
        usage = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else ""
        hint = f" ({usage} --help)" if usage else ""
        click.echo(f"error: {' '.join(error.format_message().split())}{hint}", err=True)
    elif isinstance(error, SamzapyError):
        for line in str(error).splitlines() or [type(error).__name__]:
            click.echo(f"error: {line}", err=True)
    elif _is_of_a_file(error):
        click.echo(f"error: {error.filename or _PLACES[error.errno or 0]}: {error.strerror}", err=True)
    else:
        hint = "" if debug else " (--debug shows where)"
        click.echo(f"error: internal: {type(error).__name__}: {' '.join(str(error).split())}{hint}", err=True)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(VERSION, prog_name="samzapy", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, expose_value=False, help="Show the log, and the traceback of an error.")
def cli() -> None:
    """Stateful stream processing in Python, on Spark.

    Exit codes: 0 done, 1 the job failed, 2 the job file or the command line is wrong, 3 the environment is not ready.
    Completion in bash (zsh and fish have their own *_source): eval "$(_SAMZAPY_COMPLETE=bash_source samzapy)"
    """


def main() -> NoReturn:
    """The console script's entry."""
    try:
        cli.main(prog_name="samzapy")
    except SystemExit as end:
        from samzapy.runner.stopping import end_within

        end_within(10.0, end.code if isinstance(end.code, int) else 1)
        raise
