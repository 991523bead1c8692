"""Results as rows of tables, and as an SVG with a bar a case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby
from statistics import median

from samzapy.bench.store.results import CaseResult, Comparison, RatioResult

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


_WIDTH, _LEFT, _BAR, _ROW, _HEADING = 960, 300, 500, 20, 34
_STYLE = (
    "text{font:12px sans-serif;fill:#222}.test{font-weight:bold}.store{fill:#3b7dd8}.raw{fill:#9a9a9a}"
    ".write-through{fill:#c9a227}.dict{fill:#7a9a55}.spread{stroke:#222;stroke-width:1.5}"
)


def svg(title: str, results: Sequence[CaseResult]) -> str:
    """Medians as bars (the store blue, RocksDB itself grey and yellow, a dictionary green), the slowest and fastest repeat as a line."""
    tests = [(test, list(group)) for test, group in groupby(results, key=lambda result: result.test)]
    height = _HEADING + sum(_HEADING + _ROW * len(group) for _, group in tests)
    drawn = [f'<text x="10" y="22" class="test">{escape(title)}</text>']
    top = _HEADING
    for test, group in tests:
        drawn += _test(test, group, top)
        top += _HEADING + _ROW * len(group)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}"><style>{_STYLE}</style>'
    ground = f'<rect width="{_WIDTH}" height="{height}" fill="white"/>'
    return "\n".join([head, ground, *drawn, "</svg>", ""])


def _test(test: str, group: Sequence[CaseResult], top: int) -> Iterator[str]:
    longest = max(max(each.ops_per_s for each in result.repeats) for result in group) or 1.0
    yield f'<text x="10" y="{top + 18}" class="test">{escape(test)}: operations a second</text>'
    for row, result in enumerate(group):
        y = top + _HEADING - 8 + row * _ROW
        rates = [each.ops_per_s for each in result.repeats]
        slowest, middle, fastest = (
            round(_BAR * rate / longest, 1) for rate in (min(rates), result.ops_per_s, max(rates))
        )
        label = escape(result.name.removeprefix(f"{test}/"))
        yield f'<text x="{_LEFT - 8}" y="{y + 12}" text-anchor="end">{label}</text>'
        yield f'<rect x="{_LEFT}" y="{y}" width="{middle}" height="14" class="{escape(result.target)}"/>'
        yield f'<line x1="{_LEFT + slowest}" y1="{y + 7}" x2="{_LEFT + fastest}" y2="{y + 7}" class="spread"/>'
        yield f'<text x="{_LEFT + _BAR + 10}" y="{y + 12}">{result.ops_per_s:,.0f}</text>'
