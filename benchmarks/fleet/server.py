"""The measured side: one coordinator in a process of its own, looked at as a supervisor does."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import threading
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

from samzapy.api.stream import SystemStreamPartition
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.service import CoordinatorService
from samzapy.coordinator.wire import JobSpec
from samzapy.job.model import ContainerModel, JobModel, TaskModel
from samzapy.runner.serving import views_of
from samzapy.runner.spark.supervisor import pace_of

TOKEN = "fleet"


def model_of(containers: int, tasks: int) -> JobModel:
    """Containers with so many tasks each; a task reads one partition."""
    made = []
    for number in range(containers):
        partitions = range(number * tasks, (number + 1) * tasks)
        made.append(
            ContainerModel(
                str(number),
                tuple(
                    TaskModel(f"Partition {p}", frozenset({SystemStreamPartition("kafka", "in", p)}), p)
                    for p in partitions
                ),
            )
        )
    return JobModel(tuple(made))


def serve(containers: int, tasks: int, lease_s: float, pipe: Connection) -> None:
    """Serve until the other end says so. Sends the address first, then, whenever asked, the figures since the last
    ask."""
    coordinator = Coordinator("fleet", JobSpec(model_of(containers, tasks), {"job.name": "fleet"}), lease_s)
    service = CoordinatorService(coordinator, TOKEN, added=views_of(coordinator))
    lost: set[tuple[str, int]] = set()
    ended = threading.Event()

    # The supervisor of a run looks at that pace, and so do its slots.
    pace_s = pace_of(containers) / 2

    def look() -> None:
        while not ended.wait(pace_s):
            coordinator.status()
            lost.update((each.container_id, each.epoch) for each in coordinator.overdue())

    pauses, waited = _Collections(), waited_s()
    gc.callbacks.append(pauses)
    looks = threading.Thread(target=look, name="supervisor", daemon=True)
    looks.start()
    pipe.send((service.url, service.tokens.read))
    cpu, wall = _cpu_by_thread(), time.monotonic()
    while pipe.recv() == "figures":
        now_cpu, now = _cpu_by_thread(), time.monotonic()
        shares = {name: (used - cpu.get(name, 0.0)) / (now - wall) for name, used in now_cpu.items()}
        pipe.send(
            {
                "cpu_share": sum(shares.values()),
                "cpu_by_thread": {name: share for name, share in shares.items() if share > 0},
                "leases_lost": len(lost),
                "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                "waited_share": (waited_s() - waited) / (now - wall),
                "longest_gc_ms": pauses.longest_s * 1_000,
                "collections": pauses.collections,
                "threads": threading.active_count(),
                "attempts": sum(each.attempts for each in coordinator.status().containers),
            }
        )
        cpu, wall, waited = now_cpu, now, waited_s()
        pauses.longest_s, pauses.collections = 0.0, 0
    ended.set()
    service.close()


class _Collections:
    """Garbage collections: how many of the oldest generation, and the longest one of any, in seconds of CPU."""

    def __init__(self) -> None:
        self.longest_s, self.collections, self._began = 0.0, 0, 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.thread_time()
        else:
            self.longest_s = max(self.longest_s, time.thread_time() - self._began)
            self.collections += info["generation"] == 2


def waited_s() -> float:
    """Seconds for which the threads of this process were ready and had no core, because of other programs or of each
    other."""
    waited = 0
    for each in Path("/proc/self/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):  # the thread has ended
            waited += int(each.read_text().split()[1])
    return waited / 1e9


def _cpu_by_thread() -> dict[str, float]:
    """CPU seconds since the start of the process, by name of the thread; what has ended counts as `ended`."""
    tick, used = os.sysconf("SC_CLK_TCK"), Counter({"ended": time.process_time()})
    names = {each.native_id: each.name for each in threading.enumerate()}
    for stat in Path("/proc/self/task").glob("*/stat"):
        fields = stat.read_text().rpartition(")")[2].split()
        seconds = (int(fields[11]) + int(fields[12])) / tick
        used[names.get(int(stat.parent.name), "other").partition("_")[0]] += seconds
        used["ended"] -= seconds
    return dict(used)
