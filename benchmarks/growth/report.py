"""The curves as tables and as plots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from matplotlib.axes import Axes

from benchmarks.growth.curves import CURVES, PEER, Curve
from benchmarks.growth.uptime import Sample, growth
from benchmarks.reporting.plots import plt, save
from samzapy.bench.measuring import Measurement

#: By curve, when it was `measured`, and its `points`: the repeats of each, as of `to_json`; of `uptime` the samples.
Curves = Mapping[str, Mapping[str, Any]]
Points = Mapping[str, Mapping[str, Sequence[float]]]
_COLOR, _PEER_COLOR, _COLUMNS = "#2a6f97", "#b0643c", 4


def markdown(content: Curves) -> str:
    """A table for each curve."""
    return "\n".join(line for name, measured in content.items() for line in _table(name, measured["points"])) + "\n"


def _table(name: str, variants: Any) -> Iterator[str]:
    if name not in CURVES:
        yield from _uptime([Sample(**item) for item in variants])
        return
    curve, points, peers = CURVES[name], *_split(variants)
    yield f"### {curve.title}\n"
    yield f"| {curve.unit} | {' | '.join(map(_label, points))} |"
    yield f"| --- |{' ---: |' * len(points)}"
    yield f"| CPU-s per million messages | {' | '.join(f'{cost(runs):.2f}' for runs in points.values())} |"
    rates = (f"{median(runs['messages_per_s']):,.0f}" for runs in points.values())
    yield f"| messages per second | {' | '.join(rates)} |"
    memory = (f"{median(runs['peak_rss']) / 2**20:,.0f}" for runs in points.values())
    yield f"| peak memory, MiB | {' | '.join(memory)} |"
    if peers:
        costs = (f"{cost(peers[point]):.2f}" if point in peers else "" for point in points)
        yield f"| CPU-s per million, {PEER.strip()} | {' | '.join(costs)} |"
    yield ""


def _uptime(samples: list[Sample]) -> Iterator[str]:
    if samples:
        yield f"### {samples[-1].at / 60:.0f} minutes at a steady rate\n"
        for figure in ("rss", "threads", "descriptors"):
            yield f"- {figure}: the last fifth is {growth(samples, figure):.3f} of the first"
        yield f"- lag, messages: at most {max(item.behind or 0 for item in samples):,}"


def _split(variants: Points) -> tuple[dict[str, Any], dict[str, Any]]:
    """The points of samzapy, and those of Kafka Streams."""
    peers = {name.removeprefix(PEER): runs for name, runs in variants.items() if name.startswith(PEER)}
    return {name: runs for name, runs in variants.items() if not name.startswith(PEER)}, peers


def cost(runs: Mapping[str, Sequence[float]]) -> float:
    """The median of CPU seconds per million messages."""
    return median(runs["cpu_s_per_million"])


def plot(content: Curves, file: Path) -> None:
    """A plot for each curve, and one of memory over time."""
    rows = -(-len(content) // _COLUMNS)
    figure, grid = plt.subplots(rows, _COLUMNS, figsize=(3.4 * _COLUMNS, 2.6 * rows), squeeze=False)
    axes = list(grid.flat)
    for ax, (name, measured) in zip(axes, content.items(), strict=False):
        if name in CURVES:
            _draw(ax, CURVES[name], measured["points"])
            continue
        samples = measured["points"]
        ax.plot([item["at"] / 60 for item in samples], [item["rss"] / 2**20 for item in samples], color=_COLOR)
        _name(ax, "memory at a steady rate", "minutes", "MiB")
    for ax in axes[len(content) :]:
        ax.set_visible(False)
    save(figure, file)


def _draw(ax: Axes, curve: type[Curve], variants: Points) -> None:
    points, peers = _split(variants)
    costs = [cost(runs) for runs in points.values()]
    ax.plot(range(len(points)), costs, color=_COLOR, marker="o", markersize=4, label="samzapy")
    if at := [number for number, point in enumerate(points) if point in peers]:
        costs = [cost(peers[point]) for point in points if point in peers]
        ax.plot(at, costs, color=_PEER_COLOR, marker="s", markersize=3, label=PEER.strip())
        ax.legend(fontsize=6, frameon=False)
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


def to_json(points: Mapping[str, Sequence[Measurement]]) -> dict[str, Any]:
    """The figures of each run of each point."""
    return {
        point: {
            "cpu_s_per_million": [round(run.cpu_s_per_million, 4) for run in runs],
            "messages_per_s": [round(run.messages_per_s) for run in runs],
            "peak_rss": [run.peak_rss["tree"] for run in runs],
        }
        for point, runs in points.items()
    }
