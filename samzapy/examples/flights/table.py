"""The result as a table that fits 80 columns.

python -m samzapy.examples.flights.table JOB.properties [--config key=value]...
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from samzapy.errors import SamzapyError
from samzapy.examples.flights.dataset import airlines
from samzapy.examples.flights.delays import mean
from samzapy.examples.flights.results import ENOUGH, Results, Row, read_results
from samzapy.examples.job_file import job_from_arguments

#: Rows shown, those with the most flights.
SHOWN = 15


def results_table(results: Results, names: dict[str, str], shown: int = SHOWN) -> Table:
    """The airlines and hours with the most departures, the most delayed first."""
    busiest = sorted(results.rows, key=lambda row: row.delays["flights"], reverse=True)[:shown]
    table = Table(
        title=f"Departures from New York, 2013: the {len(busiest)} busiest of {len(results.rows)} airline hours",
        caption=f"delays in minutes; model: the highest mean of models with {ENOUGH} flights or more",
        title_style="bold",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column("airline", max_width=19, no_wrap=True)
    for name in ("hour", "flights", "canc.", "mean", "max"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("most delayed model", max_width=21, no_wrap=True)
    for row in sorted(busiest, key=lambda row: mean(row.delays["delay"]) or 0.0, reverse=True):
        table.add_row(*_cells(row, names))
    return table


def totals_line(results: Results) -> str:
    """One line about all flights."""
    total = results.total
    average = mean(total["delay"])
    known = sum(sample[0] for sample in total["models"].values())
    departed = total["flights"] - total["cancelled"]
    return (
        f"{total['flights']:,} flights, {total['cancelled']:,} cancelled, mean delay {_minutes(average)} min; "
        f"model known for {known:,} of {departed:,}"
    )


def _cells(row: Row, names: dict[str, str]) -> list[str]:
    delays = row.delays
    sample = delays["delay"]
    slowest = row.slowest_model
    return [
        names.get(row.carrier, row.carrier).removesuffix(" Inc.").removesuffix(" Co."),
        f"{row.hour:02}",
        f"{delays['flights']:,}",
        f"{delays['cancelled']:,}",
        _minutes(mean(sample)),
        str(sample[2]) if sample else "-",
        f"{slowest[0]} ({slowest[1]:.1f})" if slowest else "-",
    ]


def _minutes(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    try:
        results = read_results(job_from_arguments("-m samzapy.examples.flights.table", arguments))
    except SamzapyError as failure:
        print(f"error: {failure}", file=sys.stderr)  # noqa: T201
        return failure.exit_code
    console = Console()
    console.print(results_table(results, airlines()))
    console.print(totals_line(results), soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
