"""Tables for people on a terminal, the same as plain columns elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table on standard output: its title and `none` if there are no rows, no heading if all columns are blank."""
    texts = [[str(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _rich(title, columns, texts)
    else:
        _plain(title, columns, texts)


def warn(message: str) -> None:
    """One line on standard error."""
    click.echo(f"warning: {message}", err=True)


def _rich(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    made = Table(title=title, title_justify="left", title_style="bold", header_style="dim", show_header=any(columns))
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        # Text: values are data, not rich's markup.
        made.add_row(*map(Text, row))
    Console().print(made)


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
