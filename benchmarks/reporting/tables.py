"""The results for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from rich.box import SIMPLE_HEAD
from rich.table import Table

from benchmarks.reporting.results import FIRST_MESSAGE, START, Repeats, figures, ratios
from benchmarks.reporting.targets import targets
from benchmarks.workloads.guarantees import Tasks
from samzapy.bench.report import memory_cell

_PER_PUT = "changelog_records_per_put"


def results_table(repeats: Repeats) -> Table:
    """A row a variant: medians, with minimum and maximum in brackets."""
    table = _table("samzapy beside loops written by hand: median (min - max)", "workload", "variant")
    for name in ("k msg/s", "CPU-s per M", "memory MiB", "log/put"):
        table.add_column(name, justify="right", no_wrap=True)
    for workload, variants in repeats.items():
        for variant, runs in variants.items():
            result = figures(runs)
            if FIRST_MESSAGE in result:
                continue
            table.add_row(
                workload,
                variant,
                _spread([value / 1_000 for value in result["messages_per_s"]], ".0f"),
                _spread(result["cpu_s_per_million"], ".2f"),
                memory_cell(max(runs, key=lambda run: run.peak_rss["tree"])),
                f"{median(result[_PER_PUT]):.3f}" if _PER_PUT in result else "",
            )
        table.add_section()
    table.caption = "memory: largest of the repeats, on Spark driver + JVM + worker; log/put: changelog records a put"
    return table


def restarts_table(repeats: Repeats) -> Table:
    """Seconds from the start of a container to the end of its first message, and what it read of its changelog
    first."""
    table = _table("container started again: median (min - max)", "workload", "variant")
    table.add_column("changelog records", justify="right", no_wrap=True)
    table.add_column("s to first message", justify="right", no_wrap=True)
    table.add_column("memory MiB", justify="right", no_wrap=True)
    for workload, variants in repeats.items():
        for variant, runs in variants.items():
            result = figures(runs)
            if FIRST_MESSAGE in result:
                memory = memory_cell(max(runs, key=lambda run: run.peak_rss["tree"]))
                records = f"{median(run.more['restored_records'] for run in runs):,.0f}"
                table.add_row(workload, variant, records, _spread(result[FIRST_MESSAGE], ".2f"), memory)
    return table


def ratios_table(repeats: Repeats) -> Table:
    """Each variant over the plain loop by hand; behind a slash, over what else it is compared with."""
    table = _table("ratios of turns taken one after the other: median (min - max)", "ratio")
    table.add_column("value", justify="right", no_wrap=True)
    for name, value in ratios(repeats).items():
        table.add_row(name, f"{value.median:.2f} ({value.min:.2f} - {value.max:.2f})")
    return table


def tasks_table(repeats: Repeats) -> Table:
    """What a container of so many tasks has open while it processes, and how soon it does."""
    table = _table("many tasks in one container: median (min - max)", "variant")
    for name in ("threads", "descriptors", "s to first message"):
        table.add_column(name, justify="right", no_wrap=True)
    for variant, runs in repeats.get(Tasks.name, {}).items():
        result = figures(runs)
        start_s, *most = (result[name] for name in START)
        table.add_row(variant, *(f"{max(item):,.0f}" for item in most), _spread(start_s, ".1f"))
    table.caption = "threads, descriptors: the most that one container's process had, of all repeats"
    return table


def targets_table(repeats: Repeats) -> Table:
    """What is to be reached."""
    table = _table("targets", "figure")
    for name in ("found", "to reach"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for item in targets(repeats):
        bound = f"{'at most' if item.at_most else 'at least'} {item.bound:g}"
        table.add_row(item.name, f"{item.found:.4g}", bound, "reached" if item.reached else "MISSED")
    return table


def _spread(values: Sequence[float], form: str) -> str:
    return f"{median(values):{form}} ({min(values):{form}} - {max(values):{form}})"


def _table(title: str, *left: str) -> Table:
    table = Table(title=title, title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in left:
        table.add_column(name, no_wrap=True)
    return table


#: In the order in which they are printed.
TABLES: tuple[Callable[[Repeats], Table], ...] = (
    results_table,
    restarts_table,
    tasks_table,
    ratios_table,
    targets_table,
)
