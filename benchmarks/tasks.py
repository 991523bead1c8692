"""What many tasks in one container cost: threads, file descriptors, the time until the first message, throughput.

The keyed count, with a task for each partition of its input, by the local runner; the largest number of tasks also on
Spark, in several containers.
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.kafka import Kafka
from benchmarks.workloads import Workload
from samzapy.bench.child import LOCAL, SPARK
from samzapy.bench.events import Events
from samzapy.bench.measuring import Measurement
from samzapy.config.guarantee import Guarantee

COUNTS = (1, 100, 200, 1_000)
#: Tasks of the job on Spark, its containers, and the seconds its first message may take.
MANY, CONTAINERS = 1_000, 8
BASELINE = Guarantee.AT_LEAST_ONCE
_ON_SPARK = {"job.spark.master": f"local[{CONTAINERS}]", "job.container.count": str(CONTAINERS)}


class Tasks(Workload):
    """The keyed count; a variant is `<guarantee>.<tasks>`, with `.spark` behind it for the job on Spark."""

    name = "tasks"
    variants = tuple(
        [f"{guarantee.value}.{count}" for count in COUNTS for guarantee in Guarantee]
        + [f"{guarantee.value}.{MANY}.{SPARK}" for guarantee in Guarantee]
    )
    repeats = 1

    def __init__(self, kafka: Kafka, events: int) -> None:
        super().__init__(kafka, events)
        self._inputs: dict[int, str] = {}

    def prepare(self) -> None:
        """Each input is made when the first run needs it."""

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
        told = {"start_s": start_s, "threads": measured.threads, "descriptors": measured.descriptors}
        return replace(measured, phases=(), more={**more, **told})

    @classmethod
    def baseline(cls, variant: str) -> str | None:
        """At-least-once with as many tasks."""
        guarantee, _, rest = variant.partition(".")
        return None if Guarantee(guarantee) is BASELINE else f"{BASELINE.value}.{rest}"

    @classmethod
    def ratio_prefix(cls, variant: str) -> str:
        return f"{cls.name}.{variant}"

    @staticmethod
    def _parts(variant: str) -> tuple[Guarantee, int, str]:
        guarantee, count, *runner = variant.split(".")
        return Guarantee(guarantee), int(count), SPARK if runner else LOCAL
