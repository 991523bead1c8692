"""Figures and ratios."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from samzapy.bench.store.plan import Ratio


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
