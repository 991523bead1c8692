"""How long a message takes, at a steady pace that leaves time to spare."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.workloads.base import BesideBareLoop
from samzapy.bench.measuring import Measurement


class Latency(BesideBareLoop):
    """The keyed count of 5,000 events a second for 10 s: from before the append to after the processing of each.

    The first of the events, a second's worth, only warm up: clients connect, code is met for the first time.
    """

    name = "latency"
    repeats = 3
    RATE = 5_000
    SECONDS = 10
    WARM_UP_S = 1

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
        command = [
            sys.executable,
            "-m",
            "benchmarks.workloads.pace",
            "--bootstrap",
            self._kafka.bootstrap,
            "--topic",
            topic,
        ]
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
