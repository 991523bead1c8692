"""Computes the job's event-time clocks from the containers' reports about their tasks (Gearpump's ClockService).

The job's clock is the minimum of its tasks' clocks. Its checkpoint clock is the latest time for which every task has a
checkpoint of its own state. Neither goes back. No I/O, no lock: one caller at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

from samzapy.clock import Clock, Watermarks
from samzapy.job.lease import TaskProgress

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class KeptClocks:
    """The clocks of earlier runs: of the tasks, by name, and the job's checkpoint clock (None before the first)."""

    tasks: Mapping[str, int] = field(default_factory=dict)
    checkpoint: int | None = None


@dataclass(frozen=True)
class Stall:
    """The cause of a stalled clock: a task, the partition that holds its clock back (empty if unknown), and the time in
    seconds."""

    task: str
    partition: str
    seconds: float

    def __str__(self) -> str:
        behind = f", partition {self.partition}" if self.partition else ""
        return f"the job's clock has stood still for {self.seconds:.0f} s: it waits for {self.task}{behind}"


@dataclass(frozen=True)
class ClockStatus:
    """All clocks, in milliseconds since 1970, None before the first value. `tasks` are by name; `stalled` is None
    unless the job's clock stands still while another task's advances."""

    job: int | None = None
    checkpoint: int | None = None
    tasks: Mapping[str, TaskProgress] = field(default_factory=dict)
    stalled: Stall | None = None


class Clocks:
    """The clocks of one job. A task does not hold the job's clock back if all its partitions are idle or have ended."""

    def __init__(self, tasks: Iterable[str], kept: KeptClocks, stall_s: float, clock: Clock) -> None:
        """`stall_s`: seconds after which a clock that stands still is stalled."""
        names = tuple(tasks)
        self._marks = Watermarks(names, kept.tasks)
        self._names = frozenset(names)
        self._progress: dict[str, TaskProgress] = {}
        self._checkpoint = self._kept = kept.checkpoint
        self._stall_s = stall_s
        self._clock = clock
        self._moved_at = clock.monotonic()
        self._highest = self._highest_then = max(kept.tasks.values(), default=-1)
        self._is_reported = False

    @property
    def checkpoint(self) -> int | None:
        """The latest time for which all tasks have had checkpoints."""
        self._checkpoint = max(self._common(), self._checkpoint, key=lambda time: -1 if time is None else time)
        return self._checkpoint

    @property
    def kept(self) -> int | None:
        """The last written checkpoint clock: tasks may rely on it."""
        return self._kept

    def keep(self, checkpoint: int | None) -> None:
        """Note that this checkpoint clock is written."""
        self._kept = checkpoint

    def restart(self, tasks: Iterable[str]) -> None:
        """Note that these tasks start again: their states are unknown until they report them."""
        self._checkpoint = self.checkpoint
        for task in tasks:
            self._progress.pop(task, None)

    def update(self, reported: Mapping[str, TaskProgress]) -> None:
        """Accept the newest progress of some tasks. Names of other jobs' tasks are ignored."""
        # In order of clocks: a task that returns behind the others must count before they advance.
        for task, progress in sorted(reported.items(), key=lambda item: item[1].clock or 0):
            if task in self._names and self._progress.get(task) != progress:
                self._progress[task] = progress
                self._advance(task, progress)
        stalled = self._stalled()
        if stalled is not None and not self._is_reported:
            logger.warning("%s", stalled)
        self._is_reported = stalled is not None

    def status(self) -> ClockStatus:
        return ClockStatus(self._marks.current, self.checkpoint, dict(self._progress), self._stalled())

    def _advance(self, task: str, progress: TaskProgress) -> None:
        before = self._marks.current
        if progress.clock is not None:
            self._marks.advance(task, progress.clock)
            self._highest = max(self._highest, progress.clock)
        if progress.idle:
            self._marks.set_aside(task)
        if self._marks.current != before:
            self._moved_at = self._clock.monotonic()
            self._highest_then = self._highest

    def _stalled(self) -> Stall | None:
        seconds = self._clock.monotonic() - self._moved_at
        if seconds < self._stall_s or self._highest <= self._highest_then:
            return None
        task = self._marks.holding
        if task is None:
            return None
        progress = self._progress.get(task)
        return Stall(task, "" if progress is None else progress.held_by, seconds)

    def _common(self) -> int | None:
        """The latest checkpoint time of all tasks in common; None if there is none."""
        known = self._progress.values()
        if not known or len(known) < len(self._names) or not all(each.checkpoints for each in known):
            return None
        # Every task that is not open has a common time, so the times of the task with the earliest last checkpoint
        # suffice.
        closed = [each for each in known if not each.open]
        deciding = min(closed or known, key=lambda each: _last(each) if closed else -_last(each))
        for time in sorted(deciding.checkpoints or (), reverse=True):
            if all(_has(progress, time) for progress in known):
                return time
        return None


def _last(progress: TaskProgress) -> int:
    return (progress.checkpoints or (0,))[-1]


def _has(progress: TaskProgress, time: int) -> bool:
    times = progress.checkpoints or ()
    return time in times or (progress.open and time >= times[-1])


def utc(time_ms: int, timespec: str = "seconds") -> str:
    """A time as ISO 8601 has it; a number for one beyond the calendar."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, timezone.utc).isoformat(timespec=timespec)
    except (OverflowError, OSError, ValueError):
        return f"{time_ms} ms"
