"""The workloads that are measured by hand and by samzapy, on the same topics.

A workload is made ready once; its variants are then run in turns, each in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.kafka import CONFIGS, PARTITIONS, Kafka
from samzapy.admin.adoption import adopt
from samzapy.bench.child import LOCAL, SPARK
from samzapy.bench.events import Events
from samzapy.bench.measuring import Measurement, measure, measure_job
from samzapy.config.loader import load_job

BARE = "bare"
_ON_SPARK = {"job.spark.master": "local[1]"}


class Workload(ABC):
    """One workload on one broker. `repeats`: how often each variant is run unless the command line says."""

    name: str
    variants: tuple[str, ...]
    repeats = 3

    def __init__(self, kafka: Kafka, events: int) -> None:
        self._kafka = kafka
        self._events = events

    @abstractmethod
    def prepare(self) -> None:
        """Make the inputs."""

    @abstractmethod
    def run(self, variant: str) -> Measurement:
        """One run of a variant."""

    @classmethod
    @abstractmethod
    def baseline(cls, variant: str) -> str | None:
        """The variant that this one is compared with; None for one that others are compared with."""

    @classmethod
    @abstractmethod
    def ratio_prefix(cls, variant: str) -> str:
        """The beginning of the names of this variant's ratios."""

    def _loop(self, module: str, **options: str | int | Path) -> Measurement:
        command = ["-m", f"benchmarks.bare.{module}", "--bootstrap", self._kafka.bootstrap]
        command += [part for name, value in options.items() for part in (f"--{name}", str(value))]
        return measure(command)

    def _job(self, name: str, runner: str, overrides: dict[str, str], marks: Path | None = None) -> Measurement:
        folder = self._kafka.folder / self._kafka.unique("state")
        config = {
            "job.id": self._kafka.unique("run"),
            "job.logged.store.base.dir": str(folder),
            **self._kafka.overrides,
            **(_ON_SPARK if runner == SPARK else {}),
            **overrides,
        }
        return measure_job(CONFIGS / f"{name}.properties", config, runner, endless=marks is not None, marks=marks)

    def _adopt(self, name: str, overrides: dict[str, str]) -> None:
        """Make the changelog records of the benchmark the job's own."""
        adopt(load_job(CONFIGS / f"{name}.properties", {**self._kafka.overrides, **overrides}), [])

    def _with_changelog(self, measured: Measurement, changelog: str, partitions: int = PARTITIONS) -> Measurement:
        per_put = self._kafka.records(changelog, partitions) / measured.messages if measured.messages else 0.0
        return replace(measured, more={**measured.more, "changelog_records_per_put": per_put})


class BesideBareLoop(Workload):
    """A workload that is also done by hand."""

    variants: tuple[str, ...] = (BARE, LOCAL, SPARK)

    @abstractmethod
    def bare(self) -> Measurement:
        """One run of the loop written by hand."""

    @abstractmethod
    def samzapy(self, runner: str) -> Measurement:
        """One run by samzapy."""

    def run(self, variant: str) -> Measurement:
        return self.bare() if variant == BARE else self.samzapy(variant)

    @classmethod
    def baseline(cls, variant: str) -> str | None:
        return None if variant == BARE else BARE

    @classmethod
    def ratio_prefix(cls, variant: str) -> str:
        return cls.name if variant == LOCAL else f"{cls.name}.{variant}"


class PassThrough(BesideBareLoop):
    """Add one field."""

    name = "pass-through"

    def prepare(self) -> None:
        self._input = self._kafka.load("events", Events(self._events))

    def bare(self) -> Measurement:
        output, checkpoints = self._kafka.create("out"), self._kafka.create("checkpoints", compacted=True)
        return self._loop("pass_through", input=self._input, output=output, checkpoints=checkpoints)

    def samzapy(self, runner: str) -> Measurement:
        output = self._kafka.create("out")
        overrides = {"task.inputs": f"kafka.{self._input}", "bench.output": f"kafka.{output}"}
        return self._job(self.name, runner, overrides)


class KeyedCount(BesideBareLoop):
    """Count per key, with a changelog."""

    name = "keyed-count"

    def prepare(self) -> None:
        self._input = self._kafka.load("events", Events(self._events))

    def bare(self) -> Measurement:
        changelog = self._kafka.create("counts", compacted=True)
        measured = self._loop(
            "keyed_count",
            input=self._input,
            changelog=changelog,
            checkpoints=self._kafka.create("checkpoints", compacted=True),
            folder=self._kafka.folder / self._kafka.unique("bare"),
        )
        return self._with_changelog(measured, changelog)

    def samzapy(self, runner: str) -> Measurement:
        changelog = self._kafka.unique("counts")
        overrides = {"task.inputs": f"kafka.{self._input}", "stores.counts.changelog": f"kafka.{changelog}"}
        return self._with_changelog(self._job(self.name, runner, overrides), changelog)


class Restore(BesideBareLoop):
    """A store of as many keys as there are events, from its changelog; bare: a consumer that only reads it."""

    name = "restore"

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
            measured,
            messages=more["restored_records"],
            seconds=more["restored_s"],
            cpu_s=more["cpu_to_ready_s"],
            phases=(),
        )


class Latency(BesideBareLoop):
    """The keyed count of 5,000 events a second for 20 s: from before the append to after the processing of each.

    The first of the events, two seconds' worth, only warm up: clients connect, code is met for the first time.
    """

    name = "latency"
    RATE = 5_000
    SECONDS = 20
    WARM_UP_S = 2

    def prepare(self) -> None:
        seconds = min(self.SECONDS, self._events / self.RATE)
        self._warm_up = round(self.RATE * self.WARM_UP_S * seconds / self.SECONDS)
        self._expected = round(self.RATE * seconds) + self._warm_up

    def bare(self) -> Measurement:
        topic, ready = self._kafka.create("paced"), self._kafka.folder / self._kafka.unique("ready")
        with self._pace(topic, ready):
            measured = self._loop(
                "keyed_count",
                input=topic,
                changelog=self._kafka.create("counts", compacted=True),
                checkpoints=self._kafka.create("checkpoints", compacted=True),
                folder=self._kafka.folder / self._kafka.unique("bare"),
                expected=self._expected,
                ready=ready,
            )
        return self._with_percentiles(measured)

    def samzapy(self, runner: str) -> Measurement:
        topic, marks = self._kafka.create("paced"), self._kafka.folder / self._kafka.unique("marks")
        overrides = {
            "task.inputs": f"kafka.{topic}",
            "stores.counts.changelog": f"kafka.{self._kafka.unique('counts')}",
            "bench.expected": str(self._expected),
        }
        with self._pace(topic, marks):
            return self._with_percentiles(self._job(self.name, runner, overrides, marks))

    @contextmanager
    def _pace(self, topic: str, ready: Path) -> Iterator[None]:
        command = [sys.executable, "-m", "benchmarks.pace", "--bootstrap", self._kafka.bootstrap, "--topic", topic]
        command += ["--wait-for", str(ready), "--rate", str(self.RATE), "--count", str(self._expected)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        try:
            yield
        finally:
            process.terminate()
            process.wait()

    def _with_percentiles(self, measured: Measurement) -> Measurement:
        latencies = sorted(measured.more["latencies_ns"][self._warm_up :])
        more = {name: value for name, value in measured.more.items() if name != "latencies_ns"}
        last = len(latencies) - 1
        for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)):
            more[f"{name}_ms"] = round(latencies[round(share * last)] / 1e6, 3)
        return replace(measured, more=more)
