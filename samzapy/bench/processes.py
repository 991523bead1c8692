"""Samples of a process tree: CPU, memory, threads and file descriptors by role."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import psutil

#: Seconds between two samples.
PACE_S = 0.1
#: The roles: the process that was started, a Java virtual machine below it, any other process below it.
MAIN, JVM, WORKER = "main", "jvm", "worker"


@dataclass
class _Series:
    role: str
    times: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    rss: list[int] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)


class ProcessTree:
    """Samples `pid` and everything below it until `stop`; a process that ends between two samples keeps its last.

    CPU is user and system time of all threads, memory is the resident set in bytes.
    """

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._series: dict[int, _Series] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="process-tree", daemon=True)

    def start(self) -> None:
        """Begin to sample."""
        self._thread.start()

    def stop(self) -> None:
        """Sample no more."""
        self._stopped.set()
        self._thread.join()

    def cpu_s(self, role: str | None = None, start: float | None = None, end: float | None = None) -> float:
        """CPU seconds of a role's processes (None: of all) between two `time.monotonic` times (None: its whole
        life)."""
        return sum(_at(series, end, last=True) - _at(series, start, last=False) for series in self._of(role))

    def peak_rss(self, role: str | None = None) -> int:
        """The most bytes that a role's processes (None: all) held at one time."""
        held: dict[float, int] = {}
        for series in self._of(role):
            for at, rss in zip(series.times, series.rss, strict=True):
                held[at] = held.get(at, 0) + rss
        return max(held.values(), default=0)

    def most_threads(self, role: str, start: float, end: float) -> int:
        """The most threads that one process of a role had between two `time.monotonic` times."""
        return max((_most(series, series.threads, start, end) for series in self._of(role)), default=0)

    def most_descriptors(self, role: str, start: float, end: float) -> int:
        """The most file descriptors that one process of a role had open between two `time.monotonic` times."""
        return max((_most(series, series.descriptors, start, end) for series in self._of(role)), default=0)

    def _of(self, role: str | None) -> list[_Series]:
        return [series for series in list(self._series.values()) if role in {None, series.role}]

    @property
    def roles(self) -> set[str]:
        """The roles that were seen."""
        return {series.role for series in self._series.values()}

    def _run(self) -> None:
        while True:
            self._sample()
            if self._stopped.wait(PACE_S):
                return

    def _sample(self) -> None:
        now = time.monotonic()
        try:
            processes = [self._root, *self._root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        for process in processes:
            try:
                with process.oneshot():
                    cpu = process.cpu_times()
                    rss = process.memory_info().rss
                    role = self._role(process)
                    threads = process.num_threads()
                descriptors = process.num_fds()
            except psutil.Error:
                continue  # it ended while being looked at
            series = self._series.setdefault(process.pid, _Series(role))
            series.role = role  # a launcher's shell becomes the JVM
            series.times.append(now)
            series.cpu_s.append(cpu.user + cpu.system)
            series.rss.append(rss)
            series.threads.append(threads)
            series.descriptors.append(descriptors)

    def _role(self, process: psutil.Process) -> str:
        if process.pid == self._root.pid:
            return MAIN
        return JVM if process.name() == "java" else WORKER


def _most(series: _Series, values: Sequence[int], start: float, end: float) -> int:
    """The largest value of the samples between two moments; of the nearest one if the stretch lies between two
    samples."""
    inside = [value for at, value in zip(series.times, values, strict=True) if start <= at <= end]
    nearest = min(range(len(values)), key=lambda index: abs(series.times[index] - end))
    return max(inside, default=values[nearest])


def _at(series: _Series, moment: float | None, *, last: bool) -> float:
    """CPU at a moment, on the straight line between the samples around it. None: the last sample, or 0 at the start."""
    times, values = series.times, series.cpu_s
    if moment is None:
        return values[-1] if last else 0.0
    if moment >= times[-1]:
        return values[-1]
    for index, at in enumerate(times):
        if at >= moment:
            if index == 0:
                return values[0]
            before, share = times[index - 1], values[index] - values[index - 1]
            return values[index - 1] + share * (moment - before) / (at - before)
    return values[-1]
