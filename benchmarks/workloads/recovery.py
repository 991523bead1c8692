"""How soon a task has its state again: from a long changelog, and from its files."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.kafka import NEVER_CLEANED
from benchmarks.workloads.base import BARE, BesideBareLoop, Comparison, Workload
from samzapy.bench.events import Events
from samzapy.bench.measuring import LOCAL, Measurement, MeasurementFailed

_BATCH = 5_000


class Restore(BesideBareLoop):
    """A store of as many keys as there are events, from its changelog; bare: a consumer that only reads it."""

    name = "restore"
    repeats = 3

    def prepare(self) -> None:
        events = self._kafka.load("unique", Events(self._events, unique=True))
        self._changelog = self._kafka.unique("restored")
        self._config = {
            "job.id": self._kafka.unique("restore"),
            "task.inputs": f"kafka.{events}",
            "stores.counts.changelog": f"kafka.{self._changelog}",
        }
        self._job("keyed-count", LOCAL, self._config)

    def bare(self) -> Measurement:
        return self._loop("restore", input=self._changelog)

    def samzapy(self, runner: str) -> Measurement:
        measured = self._job("keyed-count", runner, self._config)
        more = measured.more
        return replace(
            measured, messages=more["restored_records"], seconds=more["restored_s"], cpu_s=more["cpu_to_ready_s"]
        )


class RestoreLarge(Restore):
    """One partition, each key five times on average, in values of 100 bytes; bare: a consumer that only reads it."""

    name = "restore-large"
    variants = (BARE, LOCAL)
    RECORDS_PER_KEY = 5
    VALUE_BYTES = 100

    def prepare(self) -> None:
        self._changelog = self._kafka.create("restored", partitions=1, settings=NEVER_CLEANED)
        self._kafka.append_changes(self._changelog, 0, self._batches())
        self._config = {
            "job.id": self._kafka.unique("restore"),
            "task.inputs": f"kafka.{self._kafka.create('idle', partitions=1)}",
            "stores.counts.msg.serde": "bytes",
            "stores.counts.changelog": f"kafka.{self._changelog}",
        }
        self._adopt("keyed-count", self._config)

    def _batches(self) -> Iterator[list[tuple[bytes, bytes]]]:
        """Keys drawn evenly; values out of random bytes, which nothing can compress."""
        chance = random.Random(7)
        keys = [b"u%07d" % number for number in range(self._events)]
        pool, size = chance.randbytes(1 << 20), self.VALUE_BYTES
        records = self.RECORDS_PER_KEY * self._events
        for first in range(0, records, _BATCH):
            count = min(_BATCH, records - first)
            places = chance.choices(range(len(pool) - size), k=count)
            yield [(key, pool[at : at + size]) for key, at in zip(chance.choices(keys, k=count), places, strict=True)]


class Restart(Workload):
    """A job whose tasks have as many keys as there are events in their files, stopped and started: the seconds from
    the container's start to the end of its first message."""

    name = "restart"
    repeats = 3
    variants = (LOCAL,)
    MESSAGES = 1_000

    def prepare(self) -> None:
        self._input = self._kafka.load("unique", Events(self._events, unique=True))
        self._config = {
            "job.id": self._kafka.unique("restart"),
            "job.logged.store.base.dir": str(self._kafka.folder / self._kafka.unique("state")),
            "task.inputs": f"kafka.{self._input}",
            "task.class": "samzapy.bench.tasks:FirstMessageTask",
            "stores.counts.changelog": f"kafka.{self._kafka.unique('counts')}",
        }
        self._job("keyed-count", LOCAL, self._config)

    def run(self, variant: str) -> Measurement:
        self._kafka.append(self._input, Events(self.MESSAGES))
        measured = self._job("keyed-count", variant, self._config)
        if measured.more["restored_records"]:
            raise MeasurementFailed(f"a graceful stop left {measured.more['restored_records']} records to read")
        return measured

    @classmethod
    def comparisons(cls, variant: str) -> tuple[Comparison, ...]:
        return ()
