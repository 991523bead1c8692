"""What several commands share: the arguments and options of a job file; tables, JSON, warnings and progress bars."""

from __future__ import annotations

import errno
import json
import math
import numbers
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from threading import Event
from typing import IO, TYPE_CHECKING, Any, TextIO, cast, final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from samzapy.errors import ConfigError, EnvironmentFailure, RestoreError, RetriableError

if TYPE_CHECKING:
    from samzapy.config.job import JobConfig

Command = Callable[..., None]

FILE = click.Path(path_type=Path)
#: The job file, or a pipeline as module:name, as the first argument of a command, and the keys that the command line
#: overrides.
JOB = click.argument("job", type=FILE, metavar="JOB.properties")
OVERRIDES = click.option(
    "--config", "-c", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key of the job file."
)
PARENT = click.option(
    "--dir",
    "parent",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=Path(),
    help="The folder to make it in; default: the current folder.",
)
STRICT = click.option("--strict", is_flag=True, help="Refuse unknown keys, and keys set twice.")
JSON = click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    callback=lambda ctx, _, wanted: ctx.meta.__setitem__(_AS_JSON, wanted),
    help="Print lines of JSON.",
)
_AS_JSON = "samzapy.json"
TAKE_OVER = click.option("--take-over", is_flag=True, help="Force an unseen run on another machine to let go.")
INPUTS = click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="SYSTEM.STREAM[PARTITION]",
    help="Only this stream or partition; repeatable.",
)
_UP_TO_A_SEPARATOR = re.compile(r"^(\s*[\w.-]*[^\w.-]).+", re.DOTALL)


def runner_option(default: str) -> Callable[[Command], Command]:
    """The option `--runner`."""
    choice = click.Choice(["spark", "local"])
    return click.option("--runner", type=choice, default=default, show_default=True, help="The runner.")


class Number(click.FloatRange):
    """A number in a range. Refuses `nan`, which click's comparisons accept: a time limit of `nan` never ends."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"expected a number, got {value!r}", param, ctx)
        return number


def pairs(texts: Iterable[str], option: str = "--config") -> dict[str, str]:
    """Keys and values; of two equal keys the last one counts. Raises click's error for anything else. The error has the
    text only up to the first character that no key has, because the rest may be a secret."""
    result = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            shown = _UP_TO_A_SEPARATOR.sub(r"\1...", text)
            raise click.BadParameter(f"expected KEY=VALUE, got {shown!r}", param_hint=option)
        result[key.strip()] = value
    return result


def new_folder(parent: Path, name: str) -> Path:
    """Make the folder of a command's argument NAME. Raises ConfigError if it exists, EnvironmentFailure."""
    folder = parent / name
    try:
        folder.mkdir()
    except FileExistsError as cause:
        raise ConfigError.of("NAME", None, f"{folder} exists already") from cause
    except OSError as cause:
        raise EnvironmentFailure(f"{folder}: cannot make the folder ({cause.strerror})") from cause
    return folder


def check_writable(file: Path | None) -> None:
    """Check before a long command that its output file can be written; leaves the content as it is. Raises OSError."""
    if file is not None:
        file.open("a").close()


@contextmanager
def answers_by_exit_code() -> Iterator[None]:
    """For a command that answers with exit code 1: a system that fails, as a broker that restarts, ends it with 3."""
    try:
        yield
    except (RetriableError, RestoreError) as failure:
        raise EnvironmentFailure(str(failure)) from failure


def job_file(command: Command) -> Command:
    """Adds the job file and its overrides; the command gets the `config`."""

    @JOB
    @OVERRIDES
    @wraps(command)
    def with_config(*args: Any, job: Path, overrides: tuple[str, ...], **options: Any) -> None:
        from samzapy.config.loader import load_job

        command(*args, config=load_job(job, pairs(overrides)), **options)

    return with_config


def of_job(command: Command) -> Command:
    """Like `job_file`; the command also gets the `model`, with inputs as the systems have them now."""

    @job_file
    @wraps(command)
    def with_model(*args: Any, config: JobConfig, **options: Any) -> None:
        from samzapy.admin.job_check import inspect_start, resolved

        config = resolved(config)
        command(*args, config=config, model=inspect_start(config, warn)[0], **options)

    return with_model


def wants_json() -> bool:
    """Whether the command was given the option `JSON`."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_AS_JSON))


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table on standard output: its title and `none` if there are no rows, no heading if all columns are
    blank. With the option `JSON`: a line of JSON."""
    if wants_json():
        plain = [[cell if isinstance(cell, int | float) else str(cell) for cell in row] for row in rows]
        named: object = {row[0]: row[1] for row in plain}
        if any(columns):
            named = [dict(zip(columns, row, strict=True)) for row in plain]
        click.echo(json_text({"table": title, "rows": named}))
        return
    texts = [[str(cell) for cell in row] for row in rows]
    click.echo(title)
    if not texts:
        click.echo("  none")
    lines = [*([columns] if any(columns) and texts else []), *texts]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo(f"  {'  '.join(cells)}".rstrip())
    click.echo()


def warn(message: str) -> None:
    """Print one line on standard error. A line that cannot be written is dropped."""
    with suppress(OSError):
        click.echo(f"warning: {message}", err=True)


def wait_for_a_run(seconds: float) -> None:
    """Give a run on another machine the time to let go."""
    click.echo(f"waiting {seconds:g} s for a run elsewhere to let go", err=True)
    Event().wait(seconds)


def json_text(value: object, indent: int | None = None) -> str:
    """Plain values as JSON for other programs, in ASCII. JSON has no NaN and no infinities, so they become null; a
    number of a library becomes a plain one."""
    return json.dumps(_finite(value), indent=indent, allow_nan=False)


def _finite(value: object) -> Any:
    if isinstance(value, numbers.Real) and not isinstance(value, int):
        return int(value) if isinstance(value, numbers.Integral) else float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def discard(stream: IO[str]) -> None:
    """Discard what `stream` holds and what is written to it later. Raises OSError without a file below it."""
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def status_console() -> Console:
    """A console on standard error that outlives its reader: once a pipe is closed, or a terminal is gone, it shows
    nothing, and whatever else is written there is dropped as well."""
    stream = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115  # until the process ends
    return Console(file=cast("TextIO", _Lasting(stream)), stderr=True)


@final
class _Lasting:
    """A stream that raises no OSError: a failed write to the terminal must not fail the job."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._attempt(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        self._attempt(self._stream.flush)

    def _attempt(self, call: Callable[[], object]) -> None:
        try:
            call()
        except OSError as cause:
            if cause.errno in {errno.EPIPE, errno.EIO}:
                # For good. The user's code and the clients write there as well, and the interpreter does at its end.
                with suppress(OSError, ValueError):
                    discard(self._stream)


def line_on(console: Console, line: str) -> None:
    """Print one line unchanged, above any bars."""
    console.print(line, markup=False, emoji=False, highlight=False, soft_wrap=True)


class QuietProgress(Progress):
    """Bars that print nothing where they are disabled. rich before 15 ends them with an empty line there."""

    def stop(self) -> None:
        if not self.disable:
            super().stop()


class Bars(QuietProgress):
    """Shows progress bars on a terminal; called with (name, done, total)."""

    def __init__(self, unit: str) -> None:
        console = status_console()
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
            TimeRemainingColumn(),
        )
        super().__init__(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._bars: dict[str, TaskID] = {}

    def __call__(self, what: str, done: int, total: int) -> None:
        if what not in self._bars:
            self._bars[what] = self.add_task(what, total=total)
        self.update(self._bars[what], completed=done, total=total)
