"""The keys of event time: when an input counts as idle, when the job's clock counts as stalled, how far ahead a message
may be, and the timers' store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from samzapy.config.reading.classes import ENGINES
from samzapy.config.reading.keys import TEXT, Key, collect, integer
from samzapy.config.reading.reader import Reader
from samzapy.config.stores import StoreConfig


@dataclass(frozen=True)
class JobClockConfig:
    """Durations in milliseconds of processing time; `idle_ms` <= 0: never. `max_ahead_ms` <= 0: any time moves event
    time."""

    idle_ms: int = 60_000
    stall_ms: int = 120_000
    max_ahead_ms: int = 86_400_000


_NEVER = -1
IDLE_MS = Key(
    "task.watermark.idle.timeout.ms",
    integer(),
    60_000,
    "Milliseconds after which a silent input partition, or a silent sender of an intermediate stream, no longer "
    "holds back the task's event time. A task with only such partitions no longer holds back the job's clock. <= "
    "0: never.",
    "60000; -1 for a job with timers or an intermediate input",
)
STALL_MS = Key(
    "job.clock.stall.ms",
    integer(1),
    120_000,
    "Milliseconds that the job's clock may stand still while another task's clock advances. After that a warning "
    "names the task and the partition that hold it back. Set more than task.watermark.idle.timeout.ms, or the "
    "warning also names idle inputs.",
)
MAX_AHEAD_MS = Key(
    "task.event.time.max.ahead.ms",
    integer(),
    86_400_000,
    "Milliseconds by which a message may be ahead of the wall clock and still advance event time. One that is further ahead is "
    "counted and advances nothing: a task processes it as usual, windows send it to their late stream, joins leave it out. <= 0: no "
    "limit.",
)
TIMERS_STORE = Key(
    "task.timers.store",
    TEXT,
    None,
    "The store of the task's timers, with stores.NAME.factory=timers.",
    "the only store of that kind",
)
KEYS = collect(globals())


def parse_job_clock(reader: Reader, *, fires: bool) -> JobClockConfig:
    """Read the durations. `fires`: the job has timers, or inputs with watermarks. Without an idle time, their events
    depend on the inputs only."""
    idle_ms = reader.get(IDLE_MS)
    if fires and IDLE_MS.name not in reader.values:
        idle_ms = _NEVER
    return JobClockConfig(idle_ms, reader.get(STALL_MS), reader.get(MAX_AHEAD_MS))


def parse_timers(reader: Reader, stores: Mapping[str, StoreConfig]) -> str | None:
    """The store of the timers, None for a job without. Notes a store that is not one, and an ambiguous choice."""
    fit = sorted(name for name, store in stores.items() if store.factory == ENGINES.short["timers"])
    named = reader.get(TIMERS_STORE)
    if named is None:
        if len(fit) > 1:
            reader.problem(TIMERS_STORE.name, f"required with several stores of factory timers: {', '.join(fit)}")
        return fit[0] if fit else None
    if named not in fit:
        reader.problem(
            TIMERS_STORE.name, f"expected a store with the factory timers: {', '.join(fit) or 'there is none'}", named
        )
        return None
    return named
