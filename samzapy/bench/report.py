"""Measurements of jobs and stores as tables and JSON, with the machine and versions that they were made with."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from rich.table import Table

from samzapy.bench.measuring import JVM, MAIN, WORKER, Measurement
from samzapy.bench.plan import Plan
from samzapy.bench.stores import CaseResult
from samzapy.errors import EnvironmentFailure
from samzapy.java import SPARK, find_java

_MIB = 1024 * 1024


def job_table(name: str, repeats: Sequence[Measurement]) -> Table:
    """The figures of one job: a row a repeat, and their medians."""
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
    """Peak memory in MiB: of the process, or separately of driver + JVM + workers."""
    roles = [role for role in (MAIN, JVM, WORKER) if role in measured.peak_rss]
    return " + ".join(f"{measured.peak_rss[role] / _MIB:.0f}" for role in roles)


_PACKAGES = ("samzapy", "confluent-kafka", "numpy", "orjson", "pyspark", "rocksdict")


def describe_machine() -> dict[str, Any]:
    """Processor, cores, memory, operating system, load before the run (other programs disturb a measurement)."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()}",
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def describe_versions() -> dict[str, str]:
    """Python, Java and the packages that the figures depend on."""
    return {"python": platform.python_version(), "java": _java(), **{name: _version(name) for name in _PACKAGES}}


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _java() -> str:
    try:
        java = find_java(SPARK).command
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (EnvironmentFailure, OSError, subprocess.TimeoutExpired):
        return "-"
    return shown.splitlines()[0] if shown else "-"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "-"


_FORMAT = 1


def document(name: str, plan: Plan, scale: float, results: Sequence[CaseResult]) -> dict[str, Any]:
    """The file, the machine, and every repeat of every case."""
    return {
        "format": _FORMAT,
        "file": name,
        "seed": plan.seed,
        "repeats": plan.repeats,
        "warmup": plan.warmup,
        "scale": scale,
        "machine": describe_machine(),
        "versions": describe_versions(),
        "results": [result.to_json() for result in results],
    }


#: Columns of medians, by the names of their figures.
_FIGURES = {
    "p50 us": "p50_us",
    "p99 us": "p99_us",
    "p99.9 us": "p999_us",
    "CPU us": "cpu_us_per_op",
    "hits": "hit_rate",
    "changelog": "changelog_per_change",
    "RSS MiB": "rss_mib",
}
CASE_COLUMNS = ("case", "k ops/s", "min", "max", *_FIGURES)


def case_rows(results: Sequence[CaseResult]) -> Iterable[list[str]]:
    """A row per case: medians over its repeats, and the slowest and fastest rate."""
    for result in results:
        rates = [run.ops_per_s for run in result.repeats]
        medians = [_number(result.median(figure)) for figure in _FIGURES.values()]
        yield [result.case.name, _rate(median(rates)), _rate(min(rates)), _rate(max(rates)), *medians]


def _rate(value: float) -> str:
    return f"{value / 1e3:,.1f}"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
