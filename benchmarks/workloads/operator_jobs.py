"""The operators as jobs on Kafka: typed messages from one partition of each input, changelogs and checkpoints, one
core."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from benchmarks.kafka import Kafka
from benchmarks.workloads.base import BARE, Comparison, Workload
from benchmarks.workloads.operator_tasks import OPERATOR
from samzapy.api.system import OutgoingRecord
from samzapy.bench.events import FIRST_MS, Events
from samzapy.bench.measuring import LOCAL, Measurement, Program

_TASKS = "benchmarks.workloads.operator_tasks"
_BATCH = "batch"
_KEYS = 1_000
_OBJECTS = {"stores.kept.factory": "rocksdb", "stores.kept.key.serde": "string", "stores.kept.msg.serde": "json"}


@dataclass(frozen=True)
class _Job:
    """The keys of an operator's store, its tasks for messages and for batches, and whether it joins two inputs."""

    keys: Mapping[str, str]
    tasks: tuple[str, str] = ("EachMessageTask", "EachBatchTask")
    joins: bool = False
    has_store: bool = True


_JOBS = MappingProxyType(
    {
        "tumbling": _Job(_OBJECTS),
        "sessions": _Job(_OBJECTS),
        "as-of": _Job(_OBJECTS, joins=True),
        "stream-stream": _Job(_OBJECTS, joins=True),
        "timers": _Job({"stores.kept.factory": "timers"}, ("EachTimerTask", "BatchTimersTask")),
        "heap": _Job({"stores.kept.factory": "heap", "stores.kept.heap.size": "100"}),
        "count-by-key": _Job(
            {"state.checkpoint.interval.ms": "10000"}, ("CountsTask", "BatchCountsTask"), has_store=False
        ),
    }
)


class OperatorJobs(Workload):
    """A variant is an operator's name, with `.batch` behind it for a batch task, and `bare.` before it for its loop by
    hand."""

    name = "operator-jobs"
    variants = tuple(part for job in _JOBS for part in (f"{BARE}.{job}", job, f"{job}.{_BATCH}"))

    def __init__(self, kafka: Kafka, events: int, program: Program) -> None:
        super().__init__(kafka, events, program)
        self._inputs: dict[bool, list[str]] = {}

    def prepare(self) -> None:
        for sides in (1, 2):
            # The times of the records are of 2023.
            topics = [self._kafka.create("events", partitions=1, settings={"retention.ms": "-1"}) for _ in range(sides)]
            self._kafka.append_records(self._records(topics))
            self._inputs[sides == 2] = topics

    def _records(self, topics: list[str]) -> Iterator[OutgoingRecord]:
        """The events with their own times, alternating between the topics. All keys are equally frequent."""
        for number, (key, value) in enumerate(Events(self._events, _KEYS, exponent=0.0)):
            yield OutgoingRecord(topics[number % len(topics)], key, value, 0, timestamp=FIRST_MS + number)

    def run(self, variant: str) -> Measurement:
        name = variant.removeprefix(f"{BARE}.").removesuffix(f".{_BATCH}")
        job = _JOBS[name]
        inputs = self._inputs[job.joins]
        if not self.runs_samzapy(variant):
            return self._loop("operator_jobs", operator=name, inputs=",".join(inputs))
        keys = {
            **job.keys,
            "task.class": f"{_TASKS}:{job.tasks[variant.endswith(_BATCH)]}",
            "task.inputs": ",".join(f"kafka.{topic}" for topic in inputs),
            OPERATOR: name,
        }
        if job.has_store:
            keys["stores.kept.changelog"] = f"kafka.{self._kafka.unique('kept')}"
        return self._job("operators", LOCAL, keys)

    @classmethod
    def comparisons(cls, variant: str) -> tuple[Comparison, ...]:
        if not cls.runs_samzapy(variant):
            return ()
        return (Comparison(f"{cls.name}.{variant}", f"{BARE}.{variant.removesuffix(f'.{_BATCH}')}"),)
