"""The marks of a measured task: when its tasks were ready, when they were closed, and the CPU time between.

The runtime restores before `init` and commits before `close`, so from the first ready task to the last closed one is
exactly what the job does with its messages, start-up and restore left out. The marks are lines in a file, appended by
whatever process runs the tasks.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

#: The key of the job file that names the marks' file; without it nothing is written.
MARKS_KEY = "bench.marks"
READY, FIRST, CLOSED = "ready", "first", "closed"


@dataclass(frozen=True)
class Mark:
    """One moment of one task's process. `at` is `time.monotonic`, one clock for all processes of a machine; `cpu_s` is
    the process's, user and system, all threads; `timeline` holds (at, partition, next offset), `latencies_ns` are the
    process's own."""

    event: str
    pid: int
    at: float
    cpu_s: float
    timeline: list[tuple[float, int, int]] = field(default_factory=list)
    latencies_ns: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Stretch:
    """The measured stretch of a run, from the first ready task to the last closed one. Latencies are in the order in
    which a process had them. `first`: when the first message was processed, None if its task does not mark that."""

    start: float
    end: float
    cpu_s: float
    cpu_before_s: float
    timeline: tuple[tuple[float, int, int], ...]
    latencies_ns: tuple[int, ...]
    first: float | None = None


def append_mark(
    path: str,
    event: str,
    timeline: list[tuple[float, int, int]] | None = None,
    latencies_ns: list[int] | None = None,
) -> None:
    """Add a mark of this process, as of now, to the file at `path`."""
    mark = Mark(event, os.getpid(), time.monotonic(), time.process_time(), timeline or [], latencies_ns or [])
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(mark)) + "\n")


def read_stretch(path: Path) -> Stretch | None:
    """The stretch between the marks in a file; None if no task was closed, or none wrote any.

    Only processes that closed count: an attempt that failed has been repeated by another.
    """
    if not path.exists():
        return None
    marks = [Mark(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    closed = [mark for mark in marks if mark.event == CLOSED]
    pids = {mark.pid for mark in closed}
    ready = [mark for mark in marks if mark.event == READY and mark.pid in pids]
    if not ready:
        return None
    first = [min((mark for mark in ready if mark.pid == pid), key=lambda mark: mark.at) for pid in pids]
    last = [max((mark for mark in closed if mark.pid == pid), key=lambda mark: mark.at) for pid in pids]
    before = sum(mark.cpu_s for mark in first)
    return Stretch(
        start=min(mark.at for mark in first),
        end=max(mark.at for mark in last),
        cpu_s=sum(mark.cpu_s for mark in last) - before,
        cpu_before_s=before,
        timeline=tuple(sorted((at, partition, offset) for mark in closed for at, partition, offset in mark.timeline)),
        latencies_ns=tuple(ns for mark in closed for ns in mark.latencies_ns),
        first=min((mark.at for mark in marks if mark.event == FIRST and mark.pid in pids), default=None),
    )
