"""`job.clock.*` and `task.timers.store`: when inputs count as idle or stalled, and the store that keeps the timers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from samzapy.config.reading.classes import ENGINES
from samzapy.config.reading.keys import TEXT, Key, collect, integer
from samzapy.config.reading.reader import Reader
from samzapy.config.stores import StoreConfig


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
TIMERS_STORE = Key(
    "task.timers.store",
    TEXT,
    None,
    "The store of the task's timers; its stores.NAME.factory is timers.",
    "the only store of that kind",
)
KEYS = collect(globals())


def parse_job_clock(reader: Reader) -> JobClockConfig:
    """Both of them."""
    return JobClockConfig(reader.get(IDLE_MS), reader.get(STALL_MS))


def parse_timers(reader: Reader, stores: Mapping[str, StoreConfig]) -> str | None:
    """The store of the timers, None for a job without; notes one that is none, and a choice that is not made."""
    fit = sorted(name for name, store in stores.items() if store.factory == ENGINES.short["timers"])
    named = reader.get(TIMERS_STORE)
    if named is None:
        if len(fit) > 1:
            reader.problem(TIMERS_STORE.name, f"required with several stores of factory timers: {', '.join(fit)}")
        return fit[0] if fit else None
    if named not in fit:
        reader.problem(
            TIMERS_STORE.name, f"expected a store whose factory is timers: {', '.join(fit) or 'there is none'}", named
        )
        return None
    return named
