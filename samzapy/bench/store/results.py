"""The figures and ratios of a run, as JSON, and the comparison with an earlier run."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from samzapy.bench.report import describe_machine, describe_versions
from samzapy.bench.store.plan import Plan, Ratio
from samzapy.errors import ConfigError, ConfigProblem


@dataclass(frozen=True)
class Figures:
    """One repeat. Latencies in microseconds, None without any; `rss_bytes` is the process's at its end, with all that
    the test has open; `bytes_written` to files, 0 where the system does not say; `hit_rate` of gets, `changelog_per_change` in records,
    None where there is nothing to count."""

    operations: int
    seconds: float
    ops_per_s: float
    cpu_us_per_op: float
    p50_us: float | None
    p99_us: float | None
    p999_us: float | None
    rss_bytes: int
    bytes_written: int
    hit_rate: float | None
    changelog_per_change: float | None


@dataclass(frozen=True)
class CaseResult:
    """One part of a case over all repeats; `name` is the case's, with `/part` where a scenario has several."""

    name: str
    test: str
    scenario: str
    target: str
    store_keys: Mapping[str, str]
    parameters: Mapping[str, int | float]
    repeats: Sequence[Figures]

    def middle(self, figure: Callable[[Figures], float | None]) -> float | None:
        """The median over the repeats, None if there is none."""
        known = [value for value in map(figure, self.repeats) if value is not None]
        return median(known) if known else None

    @property
    def ops_per_s(self) -> float:
        """The median."""
        return median(each.ops_per_s for each in self.repeats)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values, the median rate first."""
        return {"name": self.name, "median_ops_per_s": self.ops_per_s, **asdict(self)}


@dataclass(frozen=True)
class RatioResult:
    """A ratio in each repeat, by rates and by CPU time an operation, and what the first should be. CPU time is the less
    disturbed by what else the machine does, but counts the work of RocksDB's own threads, too."""

    name: str
    case: str
    base: str
    at_least: float | None
    values: Sequence[float]
    cpu_values: Sequence[float]

    @property
    def reached(self) -> bool | None:
        """Whether the median is what it should be; None if nothing was asked."""
        return None if self.at_least is None else median(self.values) >= self.at_least

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        spread = {"min": min(self.values), "median": median(self.values), "max": max(self.values)}
        return {**asdict(self), **spread, "cpu_median": median(self.cpu_values), "reached": self.reached}


def ratio_results(ratios: Sequence[Ratio], results: Sequence[CaseResult]) -> list[RatioResult]:
    """The n-th repeat of the one over the n-th of the other: both ran within the same moments."""
    by_name = {result.name: result for result in results}
    found = []
    for ratio in ratios:
        case, base = by_name[ratio.case], by_name[ratio.base]
        pairs = list(zip(case.repeats, base.repeats, strict=True))
        rates = [a.ops_per_s / b.ops_per_s for a, b in pairs]
        cpu = [b.cpu_us_per_op / a.cpu_us_per_op for a, b in pairs]
        found.append(RatioResult(ratio.name, ratio.case, ratio.base, ratio.at_least, rates, cpu))
    return found


#: What must be the same for two rates to be comparable.
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
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as cause:
        reason = cause.strerror if isinstance(cause, OSError) else "no JSON"
        raise ConfigError([ConfigProblem("--compare", str(path), f"cannot read ({reason})")]) from cause
    if not isinstance(found, dict) or not isinstance(found.get("results"), list):
        raise ConfigError([ConfigProblem("--compare", str(path), "expected what --json wrote")])
    return found


def only_tests(baseline: Mapping[str, Any], tests: Collection[str]) -> dict[str, Any]:
    """The part of a result about these tests; all of it if none are named."""
    kept = [each for each in baseline["results"] if not tests or each["test"] in tests]
    return {**baseline, "results": kept}


def compare(baseline: Mapping[str, Any], current: Mapping[str, Any], fail_on: float) -> list[Comparison]:
    """Case by case, by the medians of operations a second; `fail_on` is the share a median may shrink by.

    A case that is in one of the two only, or that was measured with other parameters, is listed and never worse.
    """
    before = {each["name"]: each for each in baseline["results"]}
    now = {each["name"]: each for each in current["results"]}
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


def document(
    name: str, plan: Plan, scale: float, results: Sequence[CaseResult], ratios: Sequence[RatioResult]
) -> dict[str, Any]:
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
        "ratios": [ratio.to_json() for ratio in ratios],
    }
