"""Results as an SVG: a bar a case, the bars of one test on one scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby

from samzapy.bench.store.results import CaseResult

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
