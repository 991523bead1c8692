"""Draws the pictures of docs/how-to/gallery.md.

python configs/gallery/pictures.py docs/pictures/gallery

Each job of the gallery runs over its generated inputs, in memory, and matplotlib plots its results. The same version of
matplotlib draws the same files.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from samzapy.examples.flights.load import PARTITIONS, Event
from samzapy.examples.gallery.card_fraud import LARGE_CENTS
from samzapy.examples.gallery.load import DAY_MS, HOUR_MS, START_MS, inputs_of
from samzapy.examples.gallery.shopper_features import HALF_LIFE_MS
from samzapy.testing import TestRunner
from samzapy.testing.runner import FinishedRun, Input

CONFIGS = Path(__file__).parents[1]
BLUE, ORANGE, RED, GRAY, PALE = "#2b6cb0", "#dd7a1f", "#c5303a", "#8a94a0", "#a9c7e8"
STYLE = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "samzapy",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "legend.frameon": False,
}


def run(file: str) -> tuple[FinishedRun, dict[str, list[Event]]]:
    """The finished job of `configs/FILE.properties`, and its inputs."""
    inputs = dict(inputs_of(Path(file).name))
    runner = TestRunner.of(CONFIGS / f"{file}.properties")
    for stream, events in inputs.items():
        given = [Input(event.value, event.key, None, event.time_ms) for event in events]
        runner = runner.with_input(stream, given, PARTITIONS)
    return runner.run(), inputs


def visits(axes: Axes) -> None:
    """The first day of some users: views as dots, visits as bars."""
    job, inputs = run("visits")
    users = [f"user-{number:04}" for number in range(12)]
    begin = min(event.time_ms for event in inputs["views"]) // HOUR_MS * HOUR_MS
    late = {(each.key, each.event_time) for each in job.outputs("late-views")}
    for visit in job.outputs("visits").messages:
        if visit["key"] in users and visit["start"] < begin + DAY_MS:
            # A visit ends half an hour after its last view.
            hours = (visit["end"] - visit["start"] - HOUR_MS / 2) / HOUR_MS
            left = (visit["start"] - begin) / HOUR_MS
            axes.barh(users.index(visit["key"]), hours, left=left, height=0.62, color=PALE)
    points: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for event in inputs["views"]:
        if event.key in users and event.time_ms < begin + DAY_MS:
            place = (event.time_ms - begin) / HOUR_MS, users.index(event.key)
            points[(event.key, event.time_ms) in late].append(place)
    _points(axes, points[False], "view", color=BLUE, s=4)
    _points(axes, points[True], "late view", color=RED, marker="x", s=22)
    axes.set(title="Visits of twelve users", xlabel="hours", xlim=(0, 24), yticks=range(12), yticklabels=users)
    axes.invert_yaxis()
    _legend(axes)


def card_fraud(axes: Axes) -> None:
    """The large payments of a day, and those that raised an alert."""
    job, inputs = run("gallery/card-fraud")
    alerts = {alert.id for alert in job.outputs("card-alerts").messages}
    points: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for _, value, time_ms in inputs["card-events"]:
        if value["type"] == "payment" and value["cents"] >= LARGE_CENTS:
            points[value["id"] in alerts].append((_hours(time_ms), value["cents"] / 100))
    _points(axes, points[False], f"confirmed ({len(points[False])})", color=PALE, s=9)
    _points(axes, points[True], f"unconfirmed ({len(points[True])})", color=ORANGE, marker="s", s=16)
    axes.set(title="Payments of 500 euros or more", xlabel="hour of the day", ylabel="euros", xlim=(0, 24))
    _legend(axes)


def shopper_features(axes: Axes) -> None:
    """A dot a row of the store. A row is as of its last order; a reader ages it."""
    job, inputs = run("gallery/shopper-features")
    now = inputs["shop-orders"][-1].time_ms
    ages = ((0, 7, BLUE, "last order this week"), (7, 30, ORANGE, "this month"), (30, 99, GRAY, "longer ago"))
    rows = [(row, now - row.last_order_ms) for row in job.store("features").values()]
    for least, most, color, label in ages:
        found = [
            (row.orders, row.recent_cents / 100 * 0.5 ** (age / HALF_LIFE_MS))
            for row, age in rows
            if least <= age / DAY_MS < most
        ]
        _points(axes, found, label, color=color, s=14)
    axes.set(title=f"Features of {len(rows)} shoppers", xlabel="orders", ylabel="recent euros")
    axes.set(xscale="log", yscale="log")
    _legend(axes)


def customer_orders(axes: Axes) -> None:
    """Turnover by fields that only the table has."""
    job, _ = run("gallery/customer-orders")
    euros: Counter[tuple[str, str]] = Counter()
    unknown = 0.0
    for each in job.outputs("customer-orders").messages:
        if each.customer is None:
            unknown += each.order.cents / 100_000
        else:
            euros[each.customer.country, each.customer.plan] += each.order.cents / 100_000
    countries = sorted({country for country, _ in euros})
    below = [0.0] * len(countries)
    for plan, color in (("free", PALE), ("basic", BLUE), ("pro", ORANGE)):
        heights = [euros[country, plan] for country in countries]
        axes.bar(countries, heights, bottom=below, color=color, label=plan, width=0.6)
        below = [low + height for low, height in zip(below, heights, strict=True)]
    axes.bar("not in the table", unknown, color=GRAY, width=0.6)
    axes.set(title="Orders by the customer's country and plan", ylabel="thousand euros")
    _legend(axes)


def unique_orders(axes: Axes) -> None:
    """How often each order has arrived, and how often it was passed on."""
    job, inputs = run("unique-orders")
    arrived = Counter(Counter(event.key for event in inputs["orders"]).values())
    passed = Counter(Counter(job.outputs("unique-orders").keys).values())
    times = range(1, max(arrived) + 1)
    for place, (label, counts, color) in enumerate((("arrived", arrived, GRAY), ("passed on", passed, BLUE))):
        bars = axes.bar([n + (place - 0.5) * 0.36 for n in times], [counts[n] for n in times], 0.34, color=color)
        bars.set_label(f"{label} ({sum(n * count for n, count in counts.items()):,} messages)")
        axes.bar_label(bars, [f"{counts[n]:,}" for n in times])
    axes.set(title="How often each of 1,500 orders arrived and was passed on", ylabel="orders", xticks=times)
    axes.set_xticklabels([f"{n}x" for n in times])
    _legend(axes)


def _points(axes: Axes, points: Iterable[tuple[float, float]], label: str, **look: Any) -> None:
    found = list(points)
    if found:
        axes.scatter(*zip(*found, strict=True), label=label, zorder=3, **look)


def _hours(time_ms: float) -> float:
    return (time_ms - START_MS) / HOUR_MS


def _legend(axes: Axes) -> None:
    """Beside the plot, each label once."""
    found = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    axes.legend(found.values(), found.keys(), loc="upper left", bbox_to_anchor=(1.01, 1))


@contextmanager
def picture(path: Path) -> Iterator[Axes]:
    """Axes of a new picture, written to `path` at the end."""
    figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
    yield axes
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


PICTURES: tuple[Callable[[Axes], None], ...] = (visits, card_fraud, shopper_features, customer_orders, unique_orders)


def draw(folder: Path) -> None:
    """Draw all of them into `folder`."""
    mpl.use("svg")
    with mpl.rc_context(STYLE):
        for job in PICTURES:
            with picture(folder / f"{job.__name__.replace('_', '-')}.svg") as axes:
                job(axes)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
