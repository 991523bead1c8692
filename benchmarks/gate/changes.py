"""What got slower: CPU ratios of now beside stored ones, and which of the changes count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.table import Table

from benchmarks.reporting.results import Spread

CPU = ".cpu"


@dataclass(frozen=True)
class Change:
    """One CPU ratio, before and now. In a run beside another commit `before` is 1: the ratio is that of the two
    commits, turn by turn, and `least` is that of each commit's least repeat."""

    name: str
    before: float
    now: Spread
    least: float | None = None

    @property
    def share(self) -> float:
        """By how much the median has grown: 0.1 is 10 % more CPU."""
        return self.now.median / self.before - 1.0

    def is_slower(self, allowed: float) -> bool:
        """Whether the median has grown by more than `allowed`, and the least CPU has grown, too.

        Other load only adds CPU, so the least repeat is the one with the least of it. Without `least` each repeat has
        to be above what it was before: else the repeats differ by more than the change, and only a longer run could
        tell.
        """
        return self.share > allowed and (self.now.min if self.least is None else self.least) > self.before


def changes(before: Mapping[str, Spread], now: Mapping[str, Spread]) -> list[Change]:
    """Of each CPU ratio that both have."""
    return [
        Change(name, before[name].median, spread)
        for name, spread in now.items()
        if name.endswith(CPU) and name in before
    ]


def changes_table(found: Sequence[Change], allowed: float) -> Table:
    """A row a change, the largest first."""
    table = Table(title="CPU, now over before", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("ratio", no_wrap=True)
    for name in ("before", "now", "min", "max", "change"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for each in sorted(found, key=lambda each: each.share, reverse=True):
        spread = (each.before, each.now.median, each.now.min, each.now.max)
        verdict = "SLOWER" if each.is_slower(allowed) else ""
        table.add_row(each.name, *(f"{value:.3f}" for value in spread), f"{each.share:+.1%}", verdict)
    return table
