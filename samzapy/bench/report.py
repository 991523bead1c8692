"""Measurements of jobs and stores as tables and JSON, with the machine and versions that they were made with, and compared
with earlier ones."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from rich.table import Table

from samzapy.bench.measuring import JVM, MAIN, WORKER, Measurement
from samzapy.bench.plan import Plan
from samzapy.bench.stores import CaseResult
from samzapy.errors import ConfigError, ConfigProblem, EnvironmentFailure
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


#: The properties that must be equal for two rates to be comparable.
_SAME = ("scenario", "target", "store_keys", "parameters")


@dataclass(frozen=True)
class Comparison:
    """One case. `change` is the share by which its median rate grew (negative: shrank), None where `remark` says why
    there is none; `worse` if it shrank by more than is allowed."""

    name: str
    before: float | None
    now: float | None
    change: float | None
    worse: bool
    remark: str = ""


def read_results(path: Path) -> dict[str, Any]:
    """The results in a file of `--json`. Raises ConfigError."""
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as cause:
        reason = cause.strerror if isinstance(cause, OSError) else "no JSON"
        raise ConfigError([ConfigProblem("--compare", str(path), f"cannot read ({reason})")]) from cause
    if not isinstance(results, dict) or not isinstance(results.get("results"), list):
        raise ConfigError([ConfigProblem("--compare", str(path), "expected what --json wrote")])
    return results


def only_tests(baseline: Mapping[str, Any], tests: Collection[str]) -> dict[str, Any]:
    """The part of a result about these tests; all of it if none are named."""
    return {**baseline, "results": [case for case in baseline["results"] if not tests or case["test"] in tests]}


def compare(baseline: Mapping[str, Any], current: Mapping[str, Any], fail_on: float) -> list[Comparison]:
    """Case by case, by the medians of operations a second; `fail_on` is the share a median may shrink by.

    A case that is in one of the two only, or that was measured with other parameters, is listed and never worse.
    """
    before, now = ({case["name"]: case for case in run["results"]} for run in (baseline, current))
    return [_compared(name, before.get(name), now.get(name), fail_on) for name in {**before, **now}]


def _compared(name: str, before: Any, now: Any, fail_on: float) -> Comparison:
    old = before["median_ops_per_s"] if before else None
    new = now["median_ops_per_s"] if now else None
    if old is None or new is None:
        return Comparison(name, old, new, None, worse=False, remark="not run now" if now is None else "new")
    if any(before.get(key) != now.get(key) for key in _SAME):
        return Comparison(name, old, new, None, worse=False, remark="other parameters")
    change = new / old - 1.0 if old else 0.0
    return Comparison(name, old, new, change, worse=change < -fail_on)


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
COMPARISON_COLUMNS = ("case", "baseline k ops/s", "now", "change", "")


def case_rows(results: Sequence[CaseResult]) -> Iterable[list[str]]:
    """A row per case: medians over its repeats, and the slowest and fastest rate."""
    for result in results:
        rates = [run.ops_per_s for run in result.repeats]
        medians = [_number(result.median(figure)) for figure in _FIGURES.values()]
        yield [result.case.name, _rate(median(rates)), _rate(min(rates)), _rate(max(rates)), *medians]


def comparison_rows(comparisons: Sequence[Comparison]) -> Iterable[list[str]]:
    """A row per case."""
    for case in comparisons:
        change = "-" if case.change is None else f"{case.change:+.1%}"
        before, now = ("-" if rate is None else _rate(rate) for rate in (case.before, case.now))
        yield [case.name, before, now, change, case.remark or ("WORSE" if case.worse else "")]


def _rate(value: float) -> str:
    return f"{value / 1e3:,.1f}"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
