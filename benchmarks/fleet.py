"""`python -m benchmarks --only fleet`: what one coordinator needs for the reports of 200 containers.

Containers of 20 tasks report over HTTP, with the lease of a real container, to one coordinator in a process of its own,
while Prometheus scrapes and a tool reads the status. The table has the coordinator's CPU as a share of one core, the
time from a heartbeat to its answer as the containers see it, and the leases that ran out. Containers and readers are
threads of this process, on the same machine.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import urllib3
from rich.console import Console
from rich.table import Table

from samzapy.api.stream import SystemStreamPartition
from samzapy.clock import Measured
from samzapy.coordinator.client import CoordinatorClient
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.service import CoordinatorService
from samzapy.coordinator.wire import JobSpec
from samzapy.errors import SamzapyError
from samzapy.job.lease import NO_FACTS, ContainerReport, Facts, PartitionLag, TaskProgress
from samzapy.job.model import ContainerModel, JobModel, TaskModel
from samzapy.metrics.series import NUMBERS
from samzapy.runner.serving import views_of

CONTAINERS, TASKS, LEASE_S, SECONDS = 200, 20, 15.0, 60.0
TOKEN = "fleet"
#: Seconds over which the containers start, between two measurements of a lag, and between two reads of each view.
START_S, LAG_S, READ_S = 5.0, 5.0, 10.0
#: The most CPU, as a share of a core, and the 99th percentile of a heartbeat's time, in milliseconds.
MOST_CPU, MOST_MS = 0.5, 100.0


def model_of(containers: int) -> JobModel:
    """Containers of `TASKS` tasks each; a task reads one partition."""

    def task(number: int) -> TaskModel:
        return TaskModel(f"Partition {number}", frozenset({SystemStreamPartition("kafka", "in", number)}), number)

    return JobModel(
        tuple(
            ContainerModel(str(number), tuple(map(task, range(number * TASKS, (number + 1) * TASKS))))
            for number in range(containers)
        )
    )


def serve(containers: int, pipe: Connection) -> None:
    """Serve until the other end asks for the second time. Sends the address, then the figures since the start."""
    coordinator = Coordinator("fleet", JobSpec(model_of(containers), {"job.name": "fleet"}), LEASE_S)
    lost: set[tuple[str, int]] = set()
    with closing(CoordinatorService(coordinator, TOKEN, added=views_of(coordinator))) as service:
        pipe.send((service.url, service.tokens.read))
        pipe.recv()
        cpu, began = time.process_time(), time.monotonic()
        while not pipe.poll(0.5):
            # As the supervisor of a run does.
            lost.update((each.container_id, each.epoch) for each in coordinator.overdue())
        share = (time.process_time() - cpu) / (time.monotonic() - began)
        pipe.send({"cpu_share": share, "leases_lost": len(lost)})


class Fleet:
    """The containers and readers of one measurement."""

    def __init__(self, address: str, token: str) -> None:
        self._address, self._token = address, token
        self.ended = threading.Event()
        self.heartbeats: list[float] = []
        self.reads: dict[str, list[float]] = {}
        self.failures: list[str] = []

    def start(self, containers: int) -> list[threading.Thread]:
        """Start the containers one after the other, and then the readers."""
        threads = [threading.Thread(target=self._container, args=(str(n),)) for n in range(containers)]
        for thread in threads:
            thread.start()
            time.sleep(START_S / containers)
        self.heartbeats.clear()
        readers = [threading.Thread(target=self._read, args=(path,)) for path in ("/metrics", "/status")]
        for reader in readers:
            reader.start()
        return [*threads, *readers]

    def _container(self, container_id: str) -> None:
        client = CoordinatorClient(self._address, TOKEN)
        lease, spec = client.register(container_id)
        tasks, beats, lag_due = spec.model.containers[0].tasks, 0, time.monotonic()
        partitions = [str(ssp) for task in tasks for ssp in task.ssps]
        while not self.ended.wait(min(LEASE_S / 3, lease.pace_s)):
            beats, now, facts = beats + 1, time.monotonic(), NO_FACTS
            if now >= lag_due:
                lag_due = now + LAG_S
                lags = {name: PartitionLag(1_000 * beats, 1_000 * beats + 7, 7, 120) for name in partitions}
                facts = Facts(Measured(lags, now))
            report = ContainerReport(
                container_id,
                lease.epoch,
                "running",
                processed=1_000 * beats,
                positions=dict.fromkeys(partitions, 1_000 * beats),
                metrics={group: dict.fromkeys(names, 1.0) for group, names in NUMBERS.items()},
                commits=beats,
                clocks={task.name: TaskProgress(1_700_000_000_000 + 1_000 * beats) for task in tasks},
                facts=facts,
            )
            try:
                lease.report(report)
            except SamzapyError as failure:
                self.failures.append(str(failure))
            self.heartbeats.append(time.monotonic() - now)
        client.close()

    def _read(self, path: str) -> None:
        headers = {"authorization": f"Bearer {self._token}"}
        while not self.ended.wait(READ_S):
            asked = time.monotonic()
            answer = urllib3.request("GET", self._address + path, headers=headers, timeout=30)
            if answer.status != 200:
                self.failures.append(f"{path}: {answer.status}")
            self.reads.setdefault(path, []).append(time.monotonic() - asked)


def measure(containers: int, seconds: float) -> dict[str, Any]:
    """One row: `seconds` of reports, after all containers have started."""
    context, (here, there) = multiprocessing.get_context("spawn"), multiprocessing.Pipe()
    server = context.Process(target=serve, args=(containers, there), daemon=True)
    server.start()
    try:
        fleet = Fleet(*here.recv())
        threads = fleet.start(containers)
        here.send("begin")
        time.sleep(seconds)
        fleet.ended.set()
        for thread in threads:
            thread.join()
        here.send("end")
        figures = here.recv()
    finally:
        server.join(30)
        server.kill()
    times = sorted(fleet.heartbeats) or [0.0]
    return {
        "containers": containers,
        "partitions": containers * TASKS,
        "seconds": seconds,
        **figures,
        "heartbeats_per_s": len(times) / seconds,
        "heartbeat_p50_ms": median(times) * 1_000,
        "heartbeat_p99_ms": times[min(len(times) - 1, int(len(times) * 0.99))] * 1_000,
        "slowest_s": {path: max(reads) for path, reads in fleet.reads.items()},
        "failures": fleet.failures[:5],
    }


def main(arguments: Sequence[str] = ()) -> int:
    """The program; 1 if a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks --only fleet", description=__doc__)
    parser.add_argument("--containers", type=int, default=CONTAINERS, help="default: 200")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of the measurement (default: 60)")
    parser.add_argument("--output", type=Path, help="a file to write the figures to, as JSON")
    options = parser.parse_args(arguments)
    row = measure(options.containers, options.seconds)
    if options.output:
        options.output.write_text(json.dumps(row, indent=1) + "\n")
    table = Table("containers", "CPU", "heartbeat p50 / p99 ms", "slowest view s", "leases lost")
    table.add_row(
        f"{row['containers']:,}",
        f"{row['cpu_share']:.1%}",
        f"{row['heartbeat_p50_ms']:.1f} / {row['heartbeat_p99_ms']:.1f}",
        f"{max(row['slowest_s'].values(), default=0.0):.2f}",
        str(row["leases_lost"]),
    )
    table.caption = f"CPU: share of one core; to reach: {MOST_CPU:.0%}, {MOST_MS:g} ms, no lease lost"
    Console().print(table)
    for failure in row["failures"]:
        Console().print(failure, markup=False)
    return int(row["cpu_share"] > MOST_CPU or row["heartbeat_p99_ms"] > MOST_MS or row["leases_lost"] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
