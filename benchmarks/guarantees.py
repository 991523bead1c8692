"""What the guarantees cost: the keyed count in each of them, with commits every second and every ten; exactly-once and
at-least-once with many partitions, too.

Throughput counts from the first message to after the final commit, so a run must be long beside its interval, or it
measures the final commit alone: the runs with the longer interval read more events.
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.kafka import PARTITIONS, Kafka
from benchmarks.workloads import Workload
from samzapy.bench.child import LOCAL
from samzapy.bench.events import Events
from samzapy.bench.measuring import Measurement
from samzapy.config.guarantee import Guarantee

#: Seconds between commits, and how many times over their runs read the events: at 400,000 messages a second a million
#: of them last 2.5 s.
COPIES = {1: 3, 10: 9}
BASELINE = Guarantee.AT_LEAST_ONCE
#: Of the further variants, and the guarantees that they compare.
MANY_PARTITIONS, COMPARED = 200, (BASELINE, Guarantee.EXACTLY_ONCE)


class Guarantees(Workload):
    """The keyed count; a variant is `<guarantee>.<interval>s`, with `.<partitions>` behind it where they are many."""

    name = "guarantees"
    variants = tuple(
        [f"{guarantee.value}.{seconds}s" for seconds in COPIES for guarantee in Guarantee]
        + [f"{guarantee.value}.{seconds}s.{MANY_PARTITIONS}" for seconds in COPIES for guarantee in COMPARED]
    )

    def __init__(self, kafka: Kafka, events: int) -> None:
        super().__init__(kafka, events)
        self._inputs: dict[tuple[int, int], list[str]] = {}

    def prepare(self) -> None:
        """The inputs of so many partitions are made when the first run needs them."""

    def _load(self, partitions: int) -> None:
        loaded, inputs = 0, list[str]()
        for seconds, copies in sorted(COPIES.items(), key=lambda each: each[1]):
            inputs.append(self._kafka.load("events", Events(self._events), copies - loaded, partitions))
            loaded = copies
            self._inputs[partitions, seconds] = list(inputs)

    def run(self, variant: str) -> Measurement:
        guarantee, seconds, partitions = self._parts(variant)
        if (partitions, seconds) not in self._inputs:
            self._load(partitions)
        changelog = self._kafka.unique("counts")
        overrides = {
            "task.inputs": ",".join(f"kafka.{topic}" for topic in self._inputs[partitions, seconds]),
            "task.guarantee": guarantee.value,
            "task.commit.ms": str(seconds * 1_000),
            "stores.counts.changelog": f"kafka.{changelog}",
        }
        measured = self._with_changelog(self._job("keyed-count", LOCAL, overrides), changelog, partitions)
        # Two inputs have the same partition numbers: the timeline does not tell them apart.
        return replace(measured, phases=())

    @classmethod
    def baseline(cls, variant: str) -> str | None:
        """At-least-once with the same interval and partitions."""
        guarantee, _, rest = variant.partition(".")
        return None if Guarantee(guarantee) is BASELINE else f"{BASELINE.value}.{rest}"

    @classmethod
    def ratio_prefix(cls, variant: str) -> str:
        return f"{cls.name}.{variant}"

    @staticmethod
    def _parts(variant: str) -> tuple[Guarantee, int, int]:
        guarantee, interval, *partitions = variant.split(".")
        return Guarantee(guarantee), int(interval.removesuffix("s")), int(partitions[0]) if partitions else PARTITIONS
