"""Results as rows of tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from samzapy.bench.store.compare import Comparison
from samzapy.bench.store.results import CaseResult, RatioResult

_MIB = 1024 * 1024

CASE_COLUMNS = (
    "case", "k ops/s", "min", "max", "p50 us", "p99 us", "p99.9 us", "CPU us", "hits", "changelog", "written MiB", "RSS MiB",
)  # fmt: skip
RATIO_COLUMNS = ("ratio", "of", "to", "median", "min", "max", "by CPU", "to reach")
COMPARISON_COLUMNS = ("case", "baseline k ops/s", "now", "change", "")


def case_rows(results: Sequence[CaseResult]) -> Iterable[list[str]]:
    """A row a case: medians over its repeats, and the slowest and fastest rate."""
    for result in results:
        rates = [each.ops_per_s for each in result.repeats]
        yield [
            result.name,
            _rate(median(rates)),
            _rate(min(rates)),
            _rate(max(rates)),
            _number(result.middle(lambda each: each.p50_us)),
            _number(result.middle(lambda each: each.p99_us)),
            _number(result.middle(lambda each: each.p999_us)),
            _number(result.middle(lambda each: each.cpu_us_per_op)),
            _share(result.middle(lambda each: each.hit_rate)),
            _number(result.middle(lambda each: each.changelog_per_change)),
            _number(result.middle(lambda each: each.bytes_written / _MIB)),
            _number(result.middle(lambda each: each.rss_bytes / _MIB)),
        ]


def ratio_rows(ratios: Sequence[RatioResult]) -> Iterable[list[str]]:
    """A row a ratio."""
    for ratio in ratios:
        goal = "-" if ratio.at_least is None else f"{ratio.at_least:g} {'reached' if ratio.reached else 'MISSED'}"
        spread = (median(ratio.values), min(ratio.values), max(ratio.values), median(ratio.cpu_values))
        yield [ratio.name, ratio.case, ratio.base, *(f"{value:.2f}" for value in spread), goal]


def comparison_rows(comparisons: Sequence[Comparison]) -> Iterable[list[str]]:
    """A row a case."""
    for each in comparisons:
        change = "-" if each.change is None else f"{each.change:+.1%}"
        before, now = ("-" if rate is None else _rate(rate) for rate in (each.before, each.now))
        yield [each.name, before, now, change, each.remark or ("WORSE" if each.worse else "")]


def _rate(value: float) -> str:
    return f"{value / 1e3:,.1f}"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
