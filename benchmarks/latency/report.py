"""The latencies as tables for a page, and as a plot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

from matplotlib.axes import Axes

from benchmarks.latency.running import Latency
from benchmarks.reporting.plots import plt, save

#: The repeats of one row by rate.
Rates = Mapping[int, Sequence[Latency]]
_PERCENTILES = ("p50_ms", "p99_ms", "p999_ms")
_OURS, _OTHERS = "#2a6f97", "#8a9299"


def tables(found: Sequence[Latency]) -> dict[str, dict[str, Rates]]:
    """By title and name, in the order of measurement."""
    built: dict[str, dict[str, dict[int, list[Latency]]]] = {}
    for item in found:
        title = f"{item.guarantee}, commits every {item.commit_ms} ms"
        built.setdefault(title, {}).setdefault(item.name, {}).setdefault(item.rate, []).append(item)
    return {title: dict(rows) for title, rows in built.items()}


def markdown(found: Sequence[Latency], failed: Mapping[str, str]) -> str:
    """A table for each guarantee and interval, and why others were not measured."""
    return "\n".join(_markdown(found, failed)) + "\n"


def _markdown(found: Sequence[Latency], failed: Mapping[str, str]) -> Iterator[str]:
    rates = sorted({item.rate for item in found})
    for title, rows in tables(found).items():
        yield f"### {title}\n"
        cells = [f"{rate:,} msg/s: p50 / p99 / p99.9 ms | cores" for rate in rates]
        yield f"| system | {' | '.join(cells)} |"
        yield f"| --- |{' ---: |' * 2 * len(rates)}"
        for name, row in rows.items():
            yield f"| {name} | {' | '.join(_cells(row.get(rate, ())) for rate in rates)} |"
        yield ""
    yield from (f"- {name}: not measured: {reason}" for name, reason in failed.items())


def _cells(repeats: Sequence[Latency]) -> str:
    if not repeats:
        return "- | -"
    values = (f"{middle(repeats, name):.1f}" for name in _PERCENTILES)
    return f"{' / '.join(values)} | {middle(repeats, 'cores'):.2f}"


def middle(repeats: Sequence[Latency], figure: str) -> float:
    """The median of a figure."""
    return median(getattr(item, figure) for item in repeats)


def plot(found: Sequence[Latency], file: Path) -> None:
    """A row of plots for each table, a column for each rate: per system a line from p50 to p99.9 with p99 on it."""
    built, rates = tables(found), sorted({item.rate for item in found})
    names = list(dict.fromkeys(item.name for item in found))
    size = (3 + 3.2 * len(rates), 1 + 0.28 * len(names) * len(built))
    figure, grid = plt.subplots(len(built), len(rates), figsize=size, sharex=True, sharey=True, squeeze=False)
    for axes, (title, rows) in zip(grid, built.items(), strict=True):
        for ax, rate in zip(axes, rates, strict=True):
            ax.set_title(f"{title}, {rate:,} msg/s", fontsize=8)
            _draw(ax, rows, rate, names)
    for ax in grid[-1]:
        ax.set_xlabel("ms: p50, p99, p99.9", fontsize=8)
    save(figure, file)


def _draw(ax: Axes, rows: Mapping[str, Rates], rate: int, names: Sequence[str]) -> None:
    ax.set_xscale("log")
    ax.grid(axis="x", which="major", color="#dddddd")
    ax.set_yticks(range(len(names)), names, fontsize=7)
    ax.set_ylim(len(names) - 0.5, -0.5)
    for place, name in enumerate(names):
        if repeats := rows.get(name, {}).get(rate):
            values = [middle(repeats, figure) for figure in _PERCENTILES]
            color = _OURS if name.startswith("samzapy") else _OTHERS
            ax.plot(values, [place] * len(values), color=color, marker="o", markersize=3)
