"""The figures and ratios of a run: as JSON, as rows of tables, as an SVG with a bar a case, and compared with an
earlier run."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

from samzapy.bench.report import describe_machine, describe_versions
from samzapy.bench.store.plan import Plan, Ratio
from samzapy.errors import ConfigError, ConfigProblem


@dataclass(frozen=True)
class Figures:
    """One repeat. Latencies in microseconds, None without any; `rss_bytes` is the process's at its end, with all that
    the test has open; `bytes_written` to files, 0 where the system does not say; `hit_rate` of gets,
    `changelog_per_change` in records, None where there is nothing to count."""

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
        """Return plain JSON values, the median rate first."""
        return {"name": self.name, "median_ops_per_s": self.ops_per_s, **asdict(self)}


@dataclass(frozen=True)
class RatioResult:
    """A ratio in each repeat, by rates and by CPU time an operation, and the target of the first. Other load on the
    machine disturbs CPU time less, but CPU time includes RocksDB's own threads."""

    name: str
    case: str
    base: str
    at_least: float | None
    values: Sequence[float]
    cpu_values: Sequence[float]

    @property
    def reached(self) -> bool | None:
        """Whether the median reaches its minimum; None if nothing was asked."""
        return None if self.at_least is None else median(self.values) >= self.at_least

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        spread = {"min": min(self.values), "median": median(self.values), "max": max(self.values)}
        return {**asdict(self), **spread, "cpu_median": median(self.cpu_values), "reached": self.reached}


def ratio_results(ratios: Sequence[Ratio], results: Sequence[CaseResult]) -> list[RatioResult]:
    """The ratios of the n-th repeats of two cases, which ran at nearly the same time."""
    by_name = {result.name: result for result in results}
    found = []
    for ratio in ratios:
        case, base = by_name[ratio.case], by_name[ratio.base]
        pairs = list(zip(case.repeats, base.repeats, strict=True))
        rates = [a.ops_per_s / b.ops_per_s for a, b in pairs]
        cpu = [b.cpu_us_per_op / a.cpu_us_per_op for a, b in pairs]
        found.append(RatioResult(ratio.name, ratio.case, ratio.base, ratio.at_least, rates, cpu))
    return found


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
    """Medians as bars (the store blue, RocksDB itself grey and yellow, a dictionary green), the slowest and fastest
    repeat as a line."""
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
