"""One run: a reader, a generator and a peer, each a process, on the processors that they get."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from benchmarks.kafka import Kafka
from benchmarks.latency.entries import Entry
from benchmarks.peers.launchers import PASS_THROUGH, Settings
from benchmarks.peers.running import last_words, running
from benchmarks.workloads.base import ROOT
from samzapy.bench.measuring import MeasurementFailed

#: Seconds that a peer may take to its first output, and the rest of a run more than its schedule.
LONGEST_START_S, LONGEST_REST_S = 90.0, 60.0
#: Processors with which the broker, the generator and the reader have enough in one half.
ENOUGH = 4
_LOOK_S = 0.2


@dataclass(frozen=True)
class Case:
    """What is measured: an entry, with a guarantee, commits and a rate, for so many seconds after so many others."""

    entry: Entry
    guarantee: str
    commit_ms: int
    rate: int
    seconds: int
    warm_up_s: int

    @property
    def expected(self) -> int:
        """The events of the whole run."""
        return self.rate * (self.warm_up_s + self.seconds)

    def __str__(self) -> str:
        return f"{self.guarantee}, commits every {self.commit_ms} ms, {self.rate:,} msg/s, {self.entry.name}"


@dataclass(frozen=True)
class Latency:
    """Milliseconds from due to readable, and from due to handed over to the broker's client; the processors that the
    peer kept busy, at the mean."""

    name: str
    guarantee: str
    commit_ms: int
    rate: int
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    late_p99_ms: float
    cores: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def processors(apart: bool | None) -> tuple[set[int], set[int]]:
    """Those of the broker, the generator and the reader, and those of the peer: half of them each if they are to be
    `apart` (None: if there are four), else all for both."""
    allowed = sorted(os.sched_getaffinity(0))
    half = len(allowed) // 2
    if not half or not (len(allowed) >= ENOUGH if apart is None else apart):
        return set(allowed), set(allowed)
    return set(allowed[:half]), set(allowed[half:])


def measure(case: Case, kafka: Kafka, peers_processors: set[int]) -> Latency:
    """Run it. Raises MeasurementFailed if the peer ends, or if not everything comes out in time."""
    settings = _settings(case, kafka)
    ready = settings.folder.with_suffix(".ready")
    pinned = ["taskset", "--cpu-list", ",".join(map(str, sorted(peers_processors)))]
    topics = {"reader": settings.input if case.entry.is_direct else settings.output, "generator": settings.input}
    common = ["--bootstrap", settings.bootstrap, "--ready", str(ready)]
    reads = ["--expected", str(case.expected), "--warm-up-s", str(case.warm_up_s)]
    writes = ["--rate", str(case.rate), "--seconds", str(case.warm_up_s + case.seconds)]
    with (
        _program("reader", [*common, "--topic", topics["reader"], *reads]) as reader,
        _program("generator", [*common, "--topic", topics["generator"], *writes]) as generator,
        running([*pinned, *case.entry.launcher.command(settings)], settings) as (process, tree),
    ):
        deadline = time.monotonic() + LONGEST_START_S
        while reader.poll() is None:
            if process.poll() is not None:
                raise MeasurementFailed(f"exit code {process.returncode}: {last_words(settings)}")
            if time.monotonic() > deadline + (case.warm_up_s + case.seconds + LONGEST_REST_S) * ready.exists():
                raise MeasurementFailed(f"not done in time: {last_words(settings)}")
            time.sleep(_LOOK_S)
        result = _report(reader)
        if result["received"] < case.expected:
            raise MeasurementFailed(f"{result['received']:,} of {case.expected:,} events came out")
        late = _report(generator)
    cores = tree.cpu_s(None, result["start"], result["end"]) / (result["end"] - result["start"])
    return Latency(
        name=case.entry.name,
        guarantee=case.guarantee,
        commit_ms=case.commit_ms,
        rate=case.rate,
        p50_ms=result["p50_ms"],
        p99_ms=result["p99_ms"],
        p999_ms=result["p99.9_ms"],
        max_ms=result["max_ms"],
        late_p99_ms=late["p99_ms"],
        cores=round(cores, 3),
    )


def _settings(case: Case, kafka: Kafka) -> Settings:
    settings = Settings.on(kafka, kafka.create("in"), PASS_THROUGH, 0, case.commit_ms)
    return replace(settings, guarantee=case.guarantee)


@contextmanager
def _program(module: str, options: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", f"benchmarks.latency.{module}", *options]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _report(process: subprocess.Popen[str]) -> dict[str, Any]:
    said, _ = process.communicate(timeout=LONGEST_REST_S)
    if process.returncode:
        raise MeasurementFailed(f"{process.args}: exit code {process.returncode}")
    report: dict[str, Any] = json.loads(said.splitlines()[-1])
    return report
