"""`job.clock.*`: what is said about the job's progress in event time."""

from __future__ import annotations

from dataclasses import dataclass

from samzapy.config.keys import Key, collect
from samzapy.config.kinds import integer
from samzapy.config.reader import Reader


@dataclass(frozen=True)
class JobClockConfig:
    """Durations in milliseconds of processing time; `idle_ms` < 0: never."""

    idle_ms: int = 60_000
    stall_ms: int = 120_000


IDLE_MS = Key(
    "job.clock.idle.ms",
    integer(-1),
    60_000,
    "Milliseconds after which an input partition that brings nothing no longer holds its task's clock, nor a task of which "
    "all are so the job's; -1: never.",
)
STALL_MS = Key(
    "job.clock.stall.ms",
    integer(1),
    120_000,
    "Milliseconds the job's clock may stand still while another task's goes on, until the task and the partition that hold "
    "it are named. More than job.clock.idle.ms, or what is merely idle is named, too.",
)
KEYS = collect(globals())


def parse_job_clock(reader: Reader) -> JobClockConfig:
    """Both of them."""
    return JobClockConfig(reader.get(IDLE_MS), reader.get(STALL_MS))
