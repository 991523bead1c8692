"""Prints the result of the flights job as a table of at most 80 columns.

python -m samzapy.examples.flights.table JOB.properties [--config key=value]...

The rows come from the changelog of the job's store, so they are the same on every system and every machine.
"""

from __future__ import annotations

import sys
from functools import reduce

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from samzapy.admin.store_queries import Question, store_entries
from samzapy.config.job import JobConfig
from samzapy.errors import SamzapyError
from samzapy.examples.flights.load import airlines, job_from_arguments
from samzapy.examples.flights.task import Delays, Sample, empty, merge_all

#: The carriers and hours with the most flights, in rows of the table.
SHOWN = 15
#: Flights that a model needs, within an airline and hour, for its mean to count.
ENOUGH = 20


def read_results(job: JobConfig) -> dict[str, Delays]:
    """The committed values by "carrier hour", merged over the tasks. Raises SamzapyError if the job never ran."""
    merged: dict[str, Delays] = {}
    with store_entries(Question(job, "delays")) as entries:
        for key, delays in map(entries.values, entries.of_range()):
            merged[key] = merge_all(merged.get(key) or empty(), delays)
    return merged


def print_results(results: dict[str, Delays], console: Console) -> None:
    """Print the airlines and hours with the most departures, the most delayed first, and a line about all flights."""
    busiest = sorted(results, key=lambda key: (-results[key]["flights"], key))[:SHOWN]
    table = Table(
        title=f"Departures from New York, 2013: the {len(busiest)} busiest of {len(results)} airline hours",
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
    names = airlines()
    for key in sorted(busiest, key=lambda key: _mean(results[key]["delay"]), reverse=True):
        carrier, hour = key.split()
        name = names.get(carrier, carrier).removesuffix(" Inc.").removesuffix(" Co.")
        table.add_row(name, hour, *_cells(results[key]))
    console.print(table)
    total = reduce(merge_all, results.values(), empty())
    known = sum(sample[0] for sample in total["models"].values())
    console.print(
        f"{total['flights']:,} flights, {total['cancelled']:,} cancelled, mean delay {_mean(total['delay']):.1f} min; "
        f"model known for {known:,} of {total['flights'] - total['cancelled']:,}",
        soft_wrap=True,
    )


def _cells(delays: Delays) -> tuple[str, ...]:
    sample = delays["delay"]
    means = [(_mean(of_model), model) for model, of_model in delays["models"].items() if of_model[0] >= ENOUGH]
    mean, model = max(means, default=(0.0, ""))
    return (
        f"{delays['flights']:,}",
        f"{delays['cancelled']:,}",
        f"{_mean(sample):.1f}",
        str(sample[2]) if sample else "-",
        f"{model} ({mean:.1f})" if model else "-",
    )


def _mean(sample: Sample | None) -> float:
    return sample[1] / sample[0] if sample else 0.0


def main() -> int:
    """The command; returns the exit code."""
    try:
        results = read_results(job_from_arguments("-m samzapy.examples.flights.table"))
    except SamzapyError as failure:
        print(f"error: {failure}", file=sys.stderr)
        return failure.exit_code
    print_results(results, Console())
    return 0


if __name__ == "__main__":
    sys.exit(main())
