"""Measurements as a table."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rich.table import Table

from samzapy.bench.measuring import Measurement

_MIB = 1024 * 1024


def job_table(name: str, repeats: Sequence[Measurement]) -> Table:
    """What one job did: a row a repeat, and their medians."""
    table = Table(title=name, title_style="bold")
    for column in ("run", "messages", "seconds", "msg/s", "CPU-s/M", "memory MiB"):
        table.add_column(column, justify="right", no_wrap=True)
    for number, measured in enumerate(repeats, 1):
        table.add_row(
            str(number),
            f"{measured.messages:,}",
            f"{measured.seconds:.2f}",
            f"{measured.messages_per_s:,.0f}",
            f"{measured.cpu_s_per_million:.2f}",
            memory_cell(measured),
        )
    if len(repeats) > 1:
        rate = median(measured.messages_per_s for measured in repeats)
        cpu = median(measured.cpu_s_per_million for measured in repeats)
        table.add_row("median", "", "", f"{rate:,.0f}", f"{cpu:.2f}", "")
    return table


def memory_cell(measured: Measurement) -> str:
    """Peak memory in MiB: the process, or driver + JVM + workers apart."""
    roles = [role for role in ("main", "jvm", "worker") if role in measured.peak_rss]
    return " + ".join(f"{measured.peak_rss[role] / _MIB:.0f}" for role in roles)
