"""Telling what became of the changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tests.mutants.trial import Mutant, Result, TrialFailed, try_all

_WIDEST = 44


def run(root: Path, mutants: Sequence[Mutant], console: Console | None = None, *, limit_s: float = 300.0) -> int:
    """Try the changes and show them; the exit code: 0 if every one of them was noticed."""
    console = console or Console()

    def told(result: Result) -> None:
        console.print(f"{escape(result.mutant.file)}: {escape(_short(result.mutant.new))}: {result.outcome.value}")

    try:
        results = try_all(root, mutants, told, limit_s=limit_s)
    except TrialFailed as reason:
        console.print(f"[red]{escape(str(reason))}[/red]")
        return 1
    console.print(_table(results))
    survivors = [result for result in results if not result.outcome.good]
    seconds = sum(result.seconds for result in results)
    console.print(
        f"{len(results) - len(survivors)} of {len(results)} changes were noticed, in {seconds:.0f} s of tests"
    )
    return 1 if survivors or not results else 0


def _table(results: Sequence[Result]) -> Table:
    table = Table("file", "was", "is", "outcome", "s")
    for result in results:
        mutant, outcome = result.mutant, result.outcome
        shown = outcome.value if outcome.good else f"[red]{outcome.value}[/red]"
        texts = (escape(_short(text)) for text in (mutant.file.removeprefix("samzapy/"), mutant.old, mutant.new))
        table.add_row(*texts, shown, f"{result.seconds:.0f}")
    return table


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDEST else f"{line[: _WIDEST - 1]}…"
