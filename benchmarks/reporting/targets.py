"""The bounds that the measurements must keep, and whether they do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from benchmarks.reporting.results import Repeats, figures, ratios
from benchmarks.workloads.guarantees import MANY, MANY_PARTITIONS, Guarantees, Tasks
from benchmarks.workloads.keyed_count import KeyedCount
from benchmarks.workloads.operator_jobs import OperatorJobs
from samzapy.bench.measuring import LOCAL, MAIN, SPARK
from samzapy.config.task import Guarantee

_MIB = 1024 * 1024
#: Of one container with so many tasks, in every guarantee.
TASKS, MOST_THREADS, MOST_DESCRIPTORS = 200, 60, 1_300
#: Seconds to the first message of the job on Spark.
MOST_START_S = 30.0
#: Throughput of exactly-once over at-least-once, by seconds between commits.
LEAST_SHARES = {10: 0.95, 1: 0.8}
#: CPU over that of the plain loop by hand.
MOST_CPU = {
    "keyed-count": 1.2,
    "keyed-count.typed": 1.05,
    "keyed-count.batch.typed": 0.85,
    "keyed-count.batch.keys": 0.65,
    "pass-through.typed": 1.3,
    "pass-through.batch.typed": 1.0,
}
#: Messages a CPU second of an operator's job on Kafka, message by message or in batches.
LEAST_A_CORE = {
    "tumbling": 300_000,
    "sessions": 200_000,
    "as-of": 100_000,
    "stream-stream": 100_000,
    "timers": 120_000,
    "heap": 200_000,
    "count-by-key": 300_000,
}
#: CPU of exactly-once over at-least-once.
MOST_CPU_OF_EXACTLY_ONCE = 1.1
#: Resident set of one container on the keyed count, in MiB.
MOST_MIB = 350


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
    return [
        *_of_cpu(repeats),
        *_of_memory(repeats),
        *_of_tasks(repeats),
        *_of_guarantees(repeats),
        *_of_operators(repeats),
    ]


def _of_cpu(repeats: Repeats) -> Iterator[Target]:
    result = ratios(repeats)
    for prefix, bound in MOST_CPU.items():
        if (name := f"{prefix}.cpu") in result:
            yield Target(name, result[name].median, bound, at_most=True)
    for name, spread in result.items():
        way, _, other = name.removesuffix(".cpu").partition("/")
        if name.endswith(".cpu") and other.startswith(LOCAL) and way.endswith(f".{Guarantee.EXACTLY_ONCE.value}"):
            yield Target(name, spread.median, MOST_CPU_OF_EXACTLY_ONCE, at_most=True)


def _of_memory(repeats: Repeats) -> Iterator[Target]:
    for variant, runs in repeats.get(KeyedCount.name, {}).items():
        if variant.startswith(LOCAL):
            most = max(run.peak_rss[MAIN] for run in runs) / _MIB
            yield Target(f"{KeyedCount.name}.{variant}.memory_mib", round(most, 1), MOST_MIB, at_most=True)


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
    result = ratios(repeats)
    for seconds, share in LEAST_SHARES.items():
        for partitions in ("", f".{MANY_PARTITIONS}"):
            name = f"{Guarantees.name}.{Guarantee.EXACTLY_ONCE.value}.{seconds}s{partitions}.throughput"
            if name in result:
                yield Target(name, result[name].median, share, at_most=False)


def _of_operators(repeats: Repeats) -> Iterator[Target]:
    for variant, runs in repeats.get(OperatorJobs.name, {}).items():
        bound = LEAST_A_CORE.get(variant.removesuffix(".batch"))
        if bound is not None:
            a_core = 1e6 / median(figures(runs)["cpu_s_per_million"])
            yield Target(f"{OperatorJobs.name}.{variant}.per_cpu_s", round(a_core), bound, at_most=False)
