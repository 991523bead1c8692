"""The curves as tables and as plots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from matplotlib.axes import Axes

from benchmarks.growth.curves import CURVES, Curve
from benchmarks.growth.uptime import Sample, growth
from benchmarks.reporting.plots import plt, save
from samzapy.bench.measuring import Measurement

#: The repeats of each point of each curve.
Curves = Mapping[str, Mapping[str, Sequence[Measurement]]]
_COLOR, _COLUMNS = "#2a6f97", 4


def markdown(curves: Curves, uptime: Sequence[Sample], failed: Mapping[str, str]) -> str:
    """A table for each curve, and what failed."""
    return "\n".join(_markdown(curves, uptime, failed)) + "\n"


def _markdown(curves: Curves, uptime: Sequence[Sample], failed: Mapping[str, str]) -> Iterator[str]:
    for name, points in curves.items():
        curve = CURVES[name]
        yield f"### {curve.title}\n"
        yield f"| {curve.unit} | {' | '.join(map(_label, points))} |"
        yield f"| --- |{' ---: |' * len(points)}"
        yield f"| CPU-s per million messages | {' | '.join(f'{cost(runs):.2f}' for runs in points.values())} |"
        rates = (f"{median(run.messages_per_s for run in runs):,.0f}" for runs in points.values())
        yield f"| messages per second | {' | '.join(rates)} |"
        memory = (f"{median(run.peak_rss['tree'] for run in runs) / 2**20:,.0f}" for runs in points.values())
        yield f"| peak memory, MiB | {' | '.join(memory)} |\n"
    if uptime:
        yield f"### {uptime[-1].at / 60:.0f} minutes at a steady rate\n"
        figures = ("rss", "threads", "descriptors")
        yield from (
            f"- {figure}: the last fifth is {growth(list(uptime), figure):.3f} of the first" for figure in figures
        )
        yield f"- lag, messages: at most {max((item.behind or 0 for item in uptime), default=0):,}\n"
    yield from (f"- {name}: {reason}" for name, reason in failed.items())


def cost(runs: Sequence[Measurement]) -> float:
    """The median of CPU seconds per million messages."""
    return median(run.cpu_s_per_million for run in runs)


def plot(curves: Curves, uptime: Sequence[Sample], file: Path) -> None:
    """A plot for each curve, and one of memory over time."""
    count = len(curves) + bool(uptime)
    rows = -(-count // _COLUMNS)
    figure, grid = plt.subplots(rows, _COLUMNS, figsize=(3.4 * _COLUMNS, 2.6 * rows), squeeze=False)
    axes = list(grid.flat)
    for ax, (name, points) in zip(axes, curves.items(), strict=False):
        _draw(ax, CURVES[name], points)
    if uptime:
        ax = axes[count - 1]
        ax.plot([item.at / 60 for item in uptime], [item.rss / 2**20 for item in uptime], color=_COLOR)
        _name(ax, "memory at a steady rate", "minutes", "MiB")
    for ax in axes[count:]:
        ax.set_visible(False)
    save(figure, file)


def _draw(ax: Axes, curve: type[Curve], points: Mapping[str, Sequence[Measurement]]) -> None:
    ax.plot(range(len(points)), [cost(runs) for runs in points.values()], color=_COLOR, marker="o", markersize=4)
    ax.set_xticks(range(len(points)), [_label(point) for point in points], fontsize=7)
    _name(ax, curve.title, curve.unit, "CPU-s per million")
    if curve.unit == "bytes":
        ax.set_ylim(bottom=1)
        ax.set_yscale("log")


def _name(ax: Axes, title: str, x: str, y: str) -> None:
    ax.set_title(title, fontsize=8)
    ax.set_xlabel(x, fontsize=7)
    ax.set_ylabel(y, fontsize=7)
    ax.tick_params(labelsize=7)
    ax.set_ylim(bottom=0)
    ax.grid(axis="y", color="#dddddd")


def _label(point: str) -> str:
    if not point.isdigit():
        return point
    number = int(point)
    for size, suffix in ((10**6, " M"), (10**3, " k")):
        if number >= size:
            return f"{number / size:g}{suffix}"
    return point


def to_json(curves: Curves) -> dict[str, Any]:
    """The medians of what the tables show, and each run's cost."""
    return {
        name: {
            point: {
                "cpu_s_per_million": [round(run.cpu_s_per_million, 4) for run in runs],
                "messages_per_s": [round(run.messages_per_s) for run in runs],
                "peak_rss": [run.peak_rss["tree"] for run in runs],
            }
            for point, runs in points.items()
        }
        for name, points in curves.items()
    }
