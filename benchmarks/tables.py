"""The results for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rich.table import Table

from benchmarks.results import PERCENTILES, Repeats, figures, ratios
from samzapy.bench.measuring import Measurement
from samzapy.bench.report import memory_cell


def results_table(repeats: Repeats) -> Table:
    """A row a variant: medians, with minimum and maximum in brackets."""
    table = Table(title="samzapy beside loops written by hand: median (min - max)", title_style="bold")
    table.add_column("workload", no_wrap=True)
    table.add_column("variant", no_wrap=True)
    for name in (
        "k msg/s",
        "CPU-s per M",
        "memory MiB",
        "changelog per put",
        "by open partitions",
        "p50 / p99 / p99.9 ms",
    ):
        table.add_column(name, justify="right")
    for workload, variants in repeats.items():
        for variant, runs in variants.items():
            found = figures(runs)
            table.add_row(
                workload,
                variant,
                _spread([value / 1_000 for value in found["messages_per_s"]], ".0f"),
                _spread(found["cpu_s_per_million"], ".2f"),
                memory_cell(max(runs, key=lambda run: run.peak_rss["tree"])),
                _spread(found["changelog_records_per_put"], ".3f") if "changelog_records_per_put" in found else "",
                _by_open_partitions(runs),
                " / ".join(f"{median(found[name]):.1f}" for name in PERCENTILES if name in found),
            )
        table.add_section()
    return table


def ratios_table(repeats: Repeats) -> Table:
    """samzapy over the bare loop."""
    table = Table(title="samzapy / bare loop, by medians", title_style="bold")
    table.add_column("ratio")
    table.add_column("value", justify="right")
    for name, value in ratios(repeats).items():
        table.add_row(name, f"{value:.2f}")
    return table


def _spread(values: Sequence[float], form: str) -> str:
    return f"{median(values):{form}} ({min(values):{form}} - {max(values):{form}})"


def _by_open_partitions(runs: Sequence[Measurement]) -> str:
    """Throughput, in thousands a second, while 4, 3, 2, 1 partitions had messages left."""
    messages: dict[int, float] = {}
    seconds: dict[int, float] = {}
    for run in runs:
        for phase in run.phases:
            still_open = max(phase.open_partitions, 1)
            messages[still_open] = messages.get(still_open, 0.0) + phase.messages_per_s * phase.seconds
            seconds[still_open] = seconds.get(still_open, 0.0) + phase.seconds
    return " ".join(
        f"{number}:{messages[number] / seconds[number] / 1_000:.0f}k" for number in sorted(messages, reverse=True)
    )
