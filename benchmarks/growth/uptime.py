"""A job that counts at a steady rate for a long time: whether its memory, files, threads and lag stay as they are."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import psutil

from benchmarks.kafka import CONFIGS, Kafka
from benchmarks.workloads.base import ROOT
from samzapy.bench.measuring import MeasurementFailed

#: Seconds between two samples, and the part of them that counts as warming up.
SAMPLE_S, WARM_UP = 10.0, 0.2


@dataclass(frozen=True)
class Sample:
    """The job's process at `at` seconds: resident bytes, threads, descriptors, CPU seconds so far; `behind` is its
    lag in messages, None while it is not known."""

    at: float
    rss: int
    threads: int
    descriptors: int
    cpu_s: float
    behind: int | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def measure(kafka: Kafka, rate: int, seconds: int, say: Callable[[str], None]) -> list[Sample]:
    """Sample a job for so many seconds at so many messages per second. Raises MeasurementFailed if it ends."""
    events, started = kafka.create("steady"), kafka.folder / kafka.unique("started")
    started.touch()
    generator = ["benchmarks.latency.generator", "--bootstrap", kafka.bootstrap, "--topic", events]
    generator += ["--ready", str(started), "--rate", str(rate), "--seconds", str(seconds)]
    described = _job(kafka, events)
    with _process(["samzapy", "run", *described, "--runner", "local"]) as job, _process(generator):
        process, start, result = psutil.Process(job.pid), time.monotonic(), list[Sample]()
        while (now := time.monotonic() - start) < seconds:
            if job.poll() is not None:
                raise MeasurementFailed(f"the job ended after {now:.0f} s with exit code {job.returncode}")
            with process.oneshot():
                cpu, memory = process.cpu_times(), process.memory_info().rss
                sample = Sample(
                    at=round(now, 1),
                    rss=memory,
                    threads=process.num_threads(),
                    descriptors=process.num_fds(),
                    cpu_s=round(cpu.user + cpu.system, 2),
                    behind=_behind(described),
                )
            result.append(sample)
            say(f"{now:.0f} s: {sample.rss / 2**20:.0f} MiB, {sample.threads} threads, {sample.behind} behind")
            time.sleep(SAMPLE_S)
    return result


def growth(samples: list[Sample], figure: str) -> float:
    """The median of the last fifth over that of the first fifth after the warm-up."""
    rest = [getattr(item, figure) for item in samples[int(len(samples) * WARM_UP) :]]
    part = max(len(rest) // 5, 1)
    return float(median(rest[-part:]) / median(rest[:part]))


def _job(kafka: Kafka, events: str) -> list[str]:
    name = kafka.unique("steady")
    config = {
        "job.id": name,
        "job.logged.store.base.dir": str(kafka.folder / name),
        "job.page.port": "0",
        "task.inputs": f"kafka.{events}",
        "stores.counts.changelog": f"kafka.{kafka.unique('counts')}",
        **kafka.overrides,
    }
    keys = [part for key, value in config.items() for part in ("--config", f"{key}={value}")]
    return [str(CONFIGS / "keyed-count.properties"), *keys]


@contextlib.contextmanager
def _process(module: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", *module]
    process = subprocess.Popen(command, cwd=ROOT, env=os.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _behind(job: list[str]) -> int | None:
    """What the job says of itself; None while it does not know."""
    file, *keys = job
    done = subprocess.run(
        [sys.executable, "-m", "samzapy", "status", file, *keys, "--json"], check=False, capture_output=True
    )
    if done.returncode:
        return None
    lags = [container["lag"] for container in json.loads(done.stdout)["containers"]]
    return None if None in lags else sum(lags)
