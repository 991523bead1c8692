"""What the guarantees cost: the keyed count in each of them, compared with at-least-once.

`Guarantees` commits every second and every ten, with few and with many partitions. `Tasks` has a task for each of up to
1,000 partitions in one container: threads, file descriptors, the time until the first message.

Throughput counts from the first message to after the final commit, so a run must be long beside its commit interval, or
it measures the final commit alone: runs with the longer interval read more events.
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.kafka import PARTITIONS, Kafka
from benchmarks.workloads.base import Comparison, Workload
from samzapy.bench.events import Events
from samzapy.bench.measuring import LOCAL, SPARK, Measurement, Program
from samzapy.config.task import Guarantee

#: Seconds between commits, and how many times over their runs read the events: at 400,000 messages a second a million
#: of them last 2.5 s.
COPIES = {1: 3, 10: 6}
BASELINE = Guarantee.AT_LEAST_ONCE
#: Of the further variants, and the guarantees that they compare.
MANY_PARTITIONS, COMPARED = 200, (BASELINE, Guarantee.EXACTLY_ONCE)

COUNTS = (1, 100, 200, 1_000)
#: Tasks of the job on Spark, its containers, and the seconds its first message may take.
MANY, CONTAINERS = 1_000, 8
_ON_SPARK = {"job.spark.master": f"local[{CONTAINERS}]", "job.container.count": str(CONTAINERS)}


class InEachGuarantee(Workload):
    """The keyed count in each guarantee; the name of a variant begins with its guarantee and a dot."""

    def prepare(self) -> None:
        """Each input is made when the first run needs it."""

    @classmethod
    def comparisons(cls, variant: str) -> tuple[Comparison, ...]:
        """With at-least-once, and the same of everything else."""
        guarantee, _, rest = variant.partition(".")
        if Guarantee(guarantee) is BASELINE:
            return ()
        return (Comparison(f"{cls.name}.{variant}", f"{BASELINE.value}.{rest}"),)


class Guarantees(InEachGuarantee):
    """The keyed count; a variant is `<guarantee>.<interval>s`, with `.<partitions>` behind it where they are many."""

    name = "guarantees"
    repeats = 3
    variants = tuple(
        [f"{guarantee.value}.{seconds}s" for seconds in COPIES for guarantee in Guarantee]
        + [f"{guarantee.value}.{seconds}s.{MANY_PARTITIONS}" for seconds in COPIES for guarantee in COMPARED]
    )

    def __init__(self, kafka: Kafka, events: int, program: Program) -> None:
        super().__init__(kafka, events, program)
        self._inputs: dict[tuple[int, int], list[str]] = {}

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
        return self._with_changelog(self._job("keyed-count", LOCAL, overrides), changelog, partitions)

    @staticmethod
    def _parts(variant: str) -> tuple[Guarantee, int, int]:
        guarantee, interval, *partitions = variant.split(".")
        return Guarantee(guarantee), int(interval.removesuffix("s")), int(partitions[0]) if partitions else PARTITIONS


class Tasks(InEachGuarantee):
    """The keyed count; a variant is `<guarantee>.<tasks>`, with `.spark` behind it for the job on Spark."""

    name = "tasks"
    variants = tuple(
        [f"{guarantee.value}.{count}" for count in COUNTS for guarantee in Guarantee]
        + [f"{guarantee.value}.{MANY}.{SPARK}" for guarantee in Guarantee]
    )
    repeats = 1

    def __init__(self, kafka: Kafka, events: int, program: Program) -> None:
        super().__init__(kafka, events, program)
        self._inputs: dict[int, str] = {}

    def run(self, variant: str) -> Measurement:
        guarantee, count, runner = self._parts(variant)
        if count not in self._inputs:
            self._inputs[count] = self._kafka.load("events", Events(self._events), partitions=count)
        changelog = self._kafka.unique("counts")
        overrides = {
            "task.inputs": f"kafka.{self._inputs[count]}",
            "task.class": "samzapy.bench.tasks:FirstMessageTask",
            "task.guarantee": guarantee.value,
            "stores.counts.changelog": f"kafka.{changelog}",
            **(_ON_SPARK if runner == SPARK else {}),
        }
        measured = self._job("keyed-count", runner, overrides)
        # A broker keeps files open for every partition of every topic.
        self._kafka.delete(changelog)
        more = dict(measured.more)
        start_s = more["prepare_s"] + more.pop("first_message_s")
        seen = {"start_s": start_s, "threads": measured.threads, "descriptors": measured.descriptors}
        return replace(measured, more={**more, **seen})

    @staticmethod
    def _parts(variant: str) -> tuple[Guarantee, int, str]:
        guarantee, count, *runner = variant.split(".")
        return Guarantee(guarantee), int(count), SPARK if runner else LOCAL
