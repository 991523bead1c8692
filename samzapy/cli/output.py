"""Prints tables, warnings and progress bars: formatted on a terminal, as plain lines elsewhere."""

from __future__ import annotations

import errno
import json
import math
import numbers
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from types import TracebackType
from typing import Any, Protocol, TextIO, cast, final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text


class HasFileno(Protocol):
    """A stream over a file of the operating system."""

    def fileno(self) -> int:
        """The file's descriptor."""


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table on standard output: its title and `none` if there are no rows, no heading if all columns are
    blank."""
    texts = [[str(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _rich(title, columns, texts)
    else:
        _plain(title, columns, texts)


def warn(message: str) -> None:
    """Print one line on standard error. A line that cannot be written is dropped."""
    with suppress(OSError):
        click.echo(f"warning: {message}", err=True)


def discard(stream: HasFileno) -> None:
    """Discard what `stream` holds and what is written to it later. Raises OSError without a file below it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    finally:
        os.close(nowhere)


def status_console() -> Console:
    """A console on standard error that outlives its reader: once a pipe is closed, or a terminal is gone, it shows
    nothing, and whatever else is written there is dropped as well."""
    return Console(file=cast("TextIO", _Lasting(sys.stderr)), stderr=True)


@final
class _Lasting:
    """Standard error at the time of construction. A write that fails says nothing about the job, so it raises
    nothing."""

    def __init__(self, stream: TextIO | None) -> None:
        """`stream` is None in a process without standard error."""
        self._stream = stream

    @property
    def encoding(self) -> str:
        return getattr(self._stream, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    def fileno(self) -> int:
        if self._stream is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._stream.fileno()

    def write(self, text: str) -> int:
        """Write, or drop the text."""
        if self._stream is not None:
            try:
                self._stream.write(text)
            except OSError as cause:
                self._failed(cause)
        return len(text)

    def flush(self) -> None:
        """Flush, or drop the unwritten text."""
        if self._stream is not None:
            try:
                self._stream.flush()
            except OSError as cause:
                self._failed(cause)

    def _failed(self, cause: OSError) -> None:
        if cause.errno in {errno.EPIPE, errno.EIO}:
            # For good. The user's code and the clients write there as well, and the interpreter does at its end.
            with suppress(OSError, ValueError):
                discard(self)


def line_on(console: Console, line: str) -> None:
    """Print one line unchanged, above any bars."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)


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


def utc(time_ms: int) -> str:
    """A time to the second: `2026-01-31T12:00:00+00:00`."""
    return datetime.fromtimestamp(time_ms / 1000, timezone.utc).isoformat(timespec="seconds")


def _rich(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    built = Table(title=title, title_justify="left", title_style="bold", header_style="dim", show_header=any(columns))
    for column in columns:
        built.add_column(column, overflow="fold")
    for row in rows:
        # As Text: a value must not be read as rich's markup.
        built.add_row(*map(Text, row))
    Console().print(built)


def _plain(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    click.echo(title)
    if not rows:
        click.echo("  none")
    heading = [columns] if any(columns) else []
    lines = [*heading, *rows] if rows else []
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo(f"  {'  '.join(cells)}".rstrip())
    click.echo()


class QuietProgress(Progress):
    """Bars that print nothing where they are disabled. rich before 15 ends them with an empty line there."""

    def stop(self) -> None:
        """Remove the bars."""
        if not self.disable:
            super().stop()


@final
class Bars:
    """Shows progress bars; called with (name, done, total)."""

    def __init__(self, unit: str) -> None:
        console = status_console()
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
            TimeRemainingColumn(),
        )
        self._progress = QuietProgress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show the progress of `what`."""
        if what not in self._tasks:
            self._tasks[what] = self._progress.add_task(what, total=total)
        self._progress.update(self._tasks[what], completed=done, total=total)

    def __enter__(self) -> Bars:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._progress.stop()
