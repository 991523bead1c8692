"""A lost executor's task starts elsewhere: with a standby's copy of its store, and with nothing but the changelog."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping
from multiprocessing import get_context
from pathlib import Path

from benchmarks.kafka import CONFIGS, NEVER_CLEANED
from benchmarks.workloads.base import Comparison, Workload
from samzapy.bench.events import Events
from samzapy.bench.measuring import LOCAL, Measurement, MeasurementFailed
from samzapy.config.loader import load_job
from samzapy.container.standby import StandbyContainer
from samzapy.coordinator.coordinator import Coordinator, LocalLease
from samzapy.coordinator.wire import JobSpec
from samzapy.runner.prepare import prepare

FULL, STANDBY = "full-restore", "standby"
_BATCH = 5_000
_LEASE_S = 60.0
_LOOK_S = 0.05


class Takeover(Workload):
    """One task whose changelog has five records of each of as many keys as there are events: the seconds from its
    container's start to the end of its first message, after a full restore, and on the machine where a standby has
    followed the changelog up to the last TAIL records."""

    name = "takeover"
    repeats = 3
    variants = (FULL, STANDBY)
    RECORDS_PER_KEY = 5
    TAIL = 10_000
    MESSAGES = 1_000

    def prepare(self) -> None:
        self._chance = random.Random(7)
        self._changelog = self._kafka.create("followed", partitions=1, settings=NEVER_CLEANED)
        self._input = self._kafka.create("events", partitions=1)
        self._write(self.RECORDS_PER_KEY * self._events)
        self._config = {
            "job.id": self._kafka.unique("takeover"),
            "task.inputs": f"kafka.{self._input}",
            "task.class": "samzapy.bench.tasks:FirstMessageTask",
            "stores.counts.changelog": f"kafka.{self._changelog}",
        }

    def run(self, variant: str) -> Measurement:
        folder = self._kafka.folder / self._kafka.unique("state")
        if variant == STANDBY:
            self._follow(folder)
        self._write(self.TAIL)
        self._adopt("keyed-count", self._config)
        self._kafka.append(self._input, Events(self.MESSAGES), partitions=1)
        measured = self._job("keyed-count", LOCAL, {**self._config, "job.logged.store.base.dir": str(folder)})
        source = "standby + changelog" if variant == STANDBY else "changelog"
        if measured.more["restored_from"] != [source]:
            raise MeasurementFailed(f"takeover {variant}: restored from {measured.more['restored_from']}, not {source}")
        return measured

    @classmethod
    def comparisons(cls, variant: str) -> tuple[Comparison, ...]:
        return (Comparison(f"{cls.name}.{STANDBY}", FULL),) if variant == STANDBY else ()

    def _write(self, count: int) -> None:
        self._kafka.append_changes(self._changelog, 0, self._batches(count))

    def _batches(self, count: int) -> Iterator[list[tuple[bytes, bytes]]]:
        chance = self._chance
        for first in range(0, count, _BATCH):
            numbers = (chance.randrange(self._events) for _ in range(min(_BATCH, count - first)))
            yield [(b"u%07d" % number, number.to_bytes(8, "big")) for number in numbers]

    def _follow(self, folder: Path) -> None:
        """Let a standby read the changelog to its end, and stop. It has a process of its own, as the run that owns the
        job until then: records are adopted only after the owner has ended."""
        overrides = {
            **self._kafka.overrides,
            **self._config,
            "job.logged.store.base.dir": str(folder),
            "job.standbytasks.replication.factor": "2",
        }
        end = self._kafka.records(self._changelog, partitions=1)
        process = get_context("spawn").Process(target=_follow, args=(overrides, end))
        process.start()
        process.join()
        if process.exitcode:
            raise MeasurementFailed(f"takeover: the standby ended with {process.exitcode}")


def _follow(overrides: Mapping[str, str], end: int) -> None:
    prepared = prepare(load_job(CONFIGS / "keyed-count.properties", overrides), until_end=True)
    (model,) = prepared.model.standbys
    coordinator = Coordinator(STANDBY, JobSpec(prepared.model, {}), _LEASE_S)
    standby = StandbyContainer(prepared.config, model, LocalLease(coordinator, model.id))
    thread = threading.Thread(target=standby.run)
    thread.start()
    while thread.is_alive() and sum(standby.report("").positions.values()) < end:
        thread.join(_LOOK_S)
    standby.stop()
    thread.join()
