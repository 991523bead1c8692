"""The peers as a table for a terminal and for a page, and as a plot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from statistics import median

from rich.box import SIMPLE_HEAD
from rich.table import Table

from benchmarks.peers.catalog import PEERS, Peer
from benchmarks.reporting.results import Spread
from samzapy.bench.measuring import Measurement

_MIB = 1024 * 1024
COLUMNS = ("peer", "k msg/s", "CPU-s/M", "with the final commit", "x samzapy", "memory MiB", "what it keeps")
#: Of the plot, in pixels.
_ROW, _LEFT, _BAR, _RIGHT = 26, 210, 420, 150


@dataclass(frozen=True)
class Row:
    """One peer on one workload; `times` is its CPU over that of the first peer, turn by turn."""

    peer: Peer
    workload: str
    repeats: Sequence[Measurement]
    times: Spread | None

    @property
    def rate(self) -> Spread:
        """Thousands of messages a second."""
        return Spread.of([run.messages_per_s / 1_000 for run in self.repeats])

    @property
    def memory_mib(self) -> float:
        """The most memory, at the median."""
        return median(run.peak_rss["tree"] for run in self.repeats) / _MIB

    @property
    def cpu(self) -> Spread:
        """CPU seconds a million messages, from the first to the last."""
        return Spread.of([run.cpu_s_per_million for run in self.repeats])

    @property
    def committed_cpu(self) -> Spread | None:
        """The same to the end of the final commit."""
        values = [
            run.more["committed_cpu_s"] / run.messages * 1e6 for run in self.repeats if "committed_cpu_s" in run.more
        ]
        return Spread.of(values) if values else None

    def cells(self) -> list[str]:
        """In the order of COLUMNS."""
        return [
            self.peer.label,
            _shown(self.rate, ".0f"),
            _shown(self.cpu, ".2f"),
            _shown(self.committed_cpu, ".2f") if self.committed_cpu else "-",
            _shown(self.times, ".1f") if self.times else "-",
            f"{self.memory_mib:.0f}",
            self.peer.keeps[self.workload],
        ]


def rows(peers: Sequence[Peer], workload: str, repeats: Mapping[str, Sequence[Measurement]]) -> list[Row]:
    """Those that were measured, in the order of `peers`; `repeats` by label."""
    base = next((repeats[peer.label] for peer in PEERS if peer.label in repeats), ())
    result = []
    for peer in peers:
        runs = repeats.get(peer.label, ())
        if runs:
            pairs = [a.cpu_s / b.cpu_s for a, b in zip(runs, base, strict=False) if b.cpu_s]
            result.append(Row(peer, workload, runs, Spread.of(pairs) if pairs else None))
    return result


def table(workload: str, found: Sequence[Row]) -> Table:
    built = Table(title=f"{workload}: median (min - max)", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in COLUMNS:
        is_text = name in {COLUMNS[0], COLUMNS[-1]}
        built.add_column(name, justify="left" if is_text else "right", no_wrap=name != COLUMNS[-1])
    for row in found:
        built.add_row(*row.cells())
    return built


def markdown(by_workload: Mapping[str, Sequence[Row]], skipped: Mapping[str, str]) -> str:
    """The tables for a page."""
    return "\n".join(_markdown(by_workload, skipped)) + "\n"


def _markdown(by_workload: Mapping[str, Sequence[Row]], skipped: Mapping[str, str]) -> Iterator[str]:
    for workload, built in by_workload.items():
        yield f"### {workload}\n"
        yield f"| {' | '.join(COLUMNS)} |"
        yield f"| --- |{' ---: |' * (len(COLUMNS) - 2)} --- |"
        yield from (f"| {' | '.join(row.cells())} |" for row in built)
        yield ""
    for name, reason in skipped.items():
        yield f"- {name}: not measured: {reason}"


def plot(by_workload: Mapping[str, Sequence[Row]]) -> str:
    """CPU seconds a million messages as an SVG: a bar a peer at the median, with a line from the least to the
    greatest."""
    most = max((row.cpu.max for built in by_workload.values() for row in built), default=1.0)
    lines, top = list[str](), 10
    for workload, built in by_workload.items():
        lines.append(_text(10, top + 16, f"{workload}: CPU seconds a million messages", "bold"))
        top += 28
        for row in built:
            lines += _bar(row, top, _BAR / most)
            top += _ROW
        top += 14
    width = _LEFT + _BAR + _RIGHT
    size = f'width="{width}" height="{top}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    return "\n".join([head, f'<rect width="{width}" height="{top}" fill="white"/>', *lines, "</svg>"]) + "\n"


def _bar(row: Row, top: int, scale: float) -> Iterator[str]:
    cpu, middle = row.cpu, top + _ROW // 2
    color = "#2a6f97" if row.peer.name.startswith("samzapy") else "#b0b7bd"
    width, low, high = (value * scale for value in (cpu.median, cpu.min, cpu.max))
    yield _text(_LEFT - 8, middle + 4, row.peer.label, "normal", "end")
    yield f'<rect x="{_LEFT}" y="{top + 4}" width="{width:.1f}" height="{_ROW - 8}" fill="{color}"/>'
    yield f'<line x1="{_LEFT + low:.1f}" x2="{_LEFT + high:.1f}" y1="{middle}" y2="{middle}" stroke="black"/>'
    yield _text(_LEFT + int(high) + 8, middle + 4, f"{cpu.median:.2f}")


def _text(x: int, y: int, text: str, weight: str = "normal", anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" font-weight="{weight}" text-anchor="{anchor}">{escape(text)}</text>'


def _shown(spread: Spread, form: str) -> str:
    return f"{spread.median:{form}} ({spread.min:{form}} - {spread.max:{form}})"
