"""The bounds that the measurements must keep, and whether they do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from benchmarks.guarantees import MANY, MANY_PARTITIONS, Guarantees, Tasks
from benchmarks.results import Repeats, figures, ratios
from samzapy.bench.child import SPARK
from samzapy.config.guarantee import Guarantee

#: Of one container with so many tasks, in every guarantee.
TASKS, MOST_THREADS, MOST_DESCRIPTORS = 200, 60, 1_300
#: Seconds to the first message of the job on Spark.
MOST_START_S = 30.0
#: Throughput of exactly-once over at-least-once, by seconds between commits.
LEAST_SHARES = {10: 0.95, 1: 0.8}


@dataclass(frozen=True)
class Target:
    """One figure and its bound: the most it may be, or the least."""

    name: str
    found: float
    bound: float
    at_most: bool

    @property
    def reached(self) -> bool:
        """Whether the figure keeps its bound."""
        return self.found <= self.bound if self.at_most else self.found >= self.bound

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {**asdict(self), "reached": self.reached}


def targets(repeats: Repeats) -> list[Target]:
    """Those of everything that was measured: the worst repeat of what is exact, the median of seconds and shares."""
    return [*_of_tasks(repeats), *_of_guarantees(repeats)]


def _of_tasks(repeats: Repeats) -> Iterator[Target]:
    measured = repeats.get(Tasks.name, {})
    for guarantee in Guarantee:
        if runs := measured.get(variant := f"{guarantee.value}.{TASKS}"):
            for name, bound in (("threads", MOST_THREADS), ("descriptors", MOST_DESCRIPTORS)):
                yield Target(f"{Tasks.name}.{variant}.{name}", max(figures(runs)[name]), bound, at_most=True)
        if runs := measured.get(variant := f"{guarantee.value}.{MANY}.{SPARK}"):
            start_s = median(figures(runs)["start_s"])
            yield Target(f"{Tasks.name}.{variant}.start_s", start_s, MOST_START_S, at_most=True)


def _of_guarantees(repeats: Repeats) -> Iterator[Target]:
    found = ratios(repeats)
    for seconds, share in LEAST_SHARES.items():
        for partitions in ("", f".{MANY_PARTITIONS}"):
            name = f"{Guarantees.name}.{Guarantee.EXACTLY_ONCE.value}.{seconds}s{partitions}.throughput"
            if name in found:
                yield Target(name, found[name], share, at_most=False)
