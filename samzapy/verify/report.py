"""Rows as people read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from samzapy.verify.scenario import Row

COLUMNS = (
    "scenario",
    "events",
    "faults",
    "lost",
    "duplicated",
    "reordered",
    "mismatches",
    "recovery s",
    "verdict",
)


def cells(row: Row) -> tuple[str, ...]:
    """A scenario's line; `recovery s` is the longest."""
    count = row.verdict.count
    return (
        row.plan.scenario,
        f"{row.plan.events:,}",
        str(len(row.struck)),
        f"{count('loss'):,}",
        f"{count('duplicates'):,}",
        f"{count('order'):,}",
        f"{row.verdict.mismatches:,}",
        f"{max(row.recovery_s):.1f}" if row.recovery_s else "",
        row.word,
    )


def totals(rows: Sequence[Row], name: str = "all") -> tuple[str, ...]:
    """The sum of the lines."""

    def total(check: str) -> str:
        return f"{sum(row.verdict.count(check) for row in rows):,}"

    slowest = max((seconds for row in rows for seconds in row.recovery_s), default=0.0)
    return (
        name,
        f"{sum(row.plan.events for row in rows):,}",
        str(sum(len(row.struck) for row in rows)),
        total("loss"),
        total("duplicates"),
        total("order"),
        f"{sum(row.verdict.mismatches for row in rows):,}",
        f"{slowest:.1f}" if slowest else "",
        "kept" if all(row.kept for row in rows) else "BROKEN",
    )


def by_guarantee(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The lines of a soak: a total for each guarantee, with the rounds it had."""
    lines = []
    for guarantee in dict.fromkeys(row.plan.guarantee for row in rows):
        own = [row for row in rows if row.plan.guarantee is guarantee]
        lines.append(totals(own, f"{guarantee.value} ({len(own)})"))
    return lines


def remarks(rows: Iterable[Row]) -> list[str]:
    """What the table does not say: each violation, and why a job that was not killed had to be started again."""
    lines = []
    for row in rows:
        lines += [f"{row.plan}: {finding}" for finding in row.verdict.violations]
        lines += [f"{row.plan}: the job ended by itself and was started again: {why}" for why in row.gave_up]
    return lines
