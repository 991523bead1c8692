"""Splits a recovery into Spark's part and ours, by the starts of the processes that it took.

    fault, or start of the driver ... start of the driver's JVM    ours     a new driver only: imports, checks
    start of the driver's JVM ... start of the last Python worker  Spark's  detection, JVMs, executors, placement
    start of the last Python worker ... everything is processed    ours     imports, fences, restore, the backlog

A new driver claims the job while its JVM starts, which is counted as Spark's. A recovery that starts no Python worker
has no such parts.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import psutil

from samzapy.verify.processes import JobProcess


class Recovery(NamedTuple):
    """The times of a recovery, in seconds. `spark_s`: Spark's part, None if it is not known. `pause_s`: the time for
    which a partition was without outputs; None if that was not watched, or the events ran out meanwhile."""

    seconds: float
    spark_s: float | None = None
    pause_s: float | None = None

    def __str__(self) -> str:
        parts = [f"{self.seconds:.1f} s"]
        if self.spark_s is not None:
            parts.append(f"Spark's part {self.spark_s:.1f} s, ours {self.seconds - self.spark_s:.1f} s")
        if self.pause_s is not None:
            parts.append(f"{self.pause_s:.1f} s without outputs")
        return "; ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """Rounded."""
        return {name: None if value is None else round(value, 2) for name, value in self._asdict().items()}


def spark_part(run: JobProcess, struck: float) -> float | None:
    """Spark's part of the recovery of `run` from a fault at `struck`, by the monotonic clock."""
    begun = starts_of(run, run.workers())
    new = [start for start in begun if start > struck]
    if not new:
        return None
    jvms = starts_of(run, run.spark()) if run.began >= struck else []
    return max(new) - min(jvms, default=struck)


def starts_of(run: JobProcess, processes: list[psutil.Process]) -> list[float]:
    """The start times of the running processes."""
    found = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            found.append(run.start_of(process))
    return found


def longest(recoveries: tuple[Recovery, ...]) -> tuple[float | None, float | None, float | None]:
    """The longest recovery, Spark's part of it, and the longest pause; None for an unknown time."""
    slowest = max(recoveries, key=lambda each: each.seconds, default=None)
    pauses = [each.pause_s for each in recoveries if each.pause_s is not None]
    return (
        None if slowest is None else slowest.seconds,
        None if slowest is None else slowest.spark_s,
        max(pauses, default=None),
    )
