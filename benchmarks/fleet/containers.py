"""The simulated containers: they register and report over HTTP, in a process of their own.

A container sends what the lease of a real one sends: a heartbeat at the coordinator's pace, its details as changes. All
of its positions move between two of them, and a fifth of its metrics.
"""

from __future__ import annotations

import asyncio
import gc
import random
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from benchmarks.fleet.http import Caller
from benchmarks.fleet.server import waited_s
from samzapy.coordinator.client import METRICS_S
from samzapy.coordinator.wire import Answer, Attempt, Details, Heartbeat, Pace, Registration, Taken, pack, read
from samzapy.job.lease import Directive, PartitionLag, TaskProgress
from samzapy.strict_json import encode

#: The metrics of one store on RocksDB, of a task besides, and of a container besides.
STORE = (
    *("gets", "hits", "misses", "puts", "deletes", "scans", "flushes", "cached-entries", "cached-bytes"),
    *("cache-budget-bytes", "dirty-entries", "uncommitted-entries", "uncommitted-bytes", "entries", "changelog-offset"),
    *("messages-restored", "messages-bytes", "expired-removed", "estimate-num-keys", "cur-size-active-mem-table"),
    *("cur-size-all-mem-tables", "size-all-mem-tables", "estimate-table-readers-mem", "total-sst-files-size"),
    "block-cache-usage",
)
TASK = ("processed.kafka.in", "sent", "process.count", "process.total-s", "batch.count", "batch.total", "clock-ms")
STEPS = ("offsets", "stores", "outputs", "changelog", "checkpoint", "local", "report")
CONTAINER = {
    "commit": (
        *("commits", "commit.count", "commit.total-s", "commit.max-s"),
        *(f"step.{step}.{part}" for step in STEPS for part in ("count", "total-s", "max-s")),
    ),
    "container": ("starts", "resident-bytes", "cpu-s", "threads", "open-files"),
}
#: The share of the metrics that change between two reports of them.
CHANGED = 0.2


@dataclass
class Heard:
    """What the containers have seen. Times in seconds, `cpu_share` of a core, `waited_share` of the time without
    one."""

    heartbeats: list[float] = field(default_factory=list)
    details: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    abandoned: int = 0
    details_bytes: int = 0
    cpu_share: float = 0.0
    waited_share: float = 0.0


@dataclass(frozen=True)
class Fleet:
    """The job of the containers, and when they run: they start within `start_s`, and report for `seconds` after it."""

    containers: int
    tasks: int
    stores: int
    start_s: float
    seconds: float


def report(fleet: Fleet, address: str, token: str, pipe: Connection) -> None:
    """Run all containers to the end, and send what they have `Heard` after the start."""
    pipe.send(asyncio.run(_run(fleet, address, token)))


async def _run(fleet: Fleet, address: str, token: str) -> Heard:
    heard = Heard()
    end = time.monotonic() + fleet.start_s + fleet.seconds
    containers = [SimulatedContainer(number, fleet, address, token, heard) for number in range(fleet.containers)]
    running = [asyncio.create_task(each.run(end, fleet.start_s * 0.75)) for each in containers]
    await asyncio.sleep(fleet.start_s)
    heard.heartbeats.clear()
    heard.details.clear()
    heard.details_bytes = 0
    # A pause of the containers' own would look like one of the coordinator.
    gc.collect()
    gc.freeze()
    cpu, waited = time.process_time(), waited_s()
    await asyncio.sleep(max(0.0, end - time.monotonic()))
    heard.cpu_share = (time.process_time() - cpu) / fleet.seconds
    heard.waited_share = (waited_s() - waited) / fleet.seconds
    # Containers that still wait for an answer are of no interest any more.
    for each in running:
        each.cancel()
    done = await asyncio.gather(*running, return_exceptions=True)
    heard.failures += [repr(each) for each in done if isinstance(each, Exception)]
    return heard


class SimulatedContainer:
    """One container's reports, until the end."""

    def __init__(self, number: int, fleet: Fleet, address: str, token: str, heard: Heard) -> None:
        tasks, stores = fleet.tasks, fleet.stores
        self._caller = Caller(address, token)
        self._path = f"/containers/{number}"
        self._heard = heard
        self._chance = random.Random(number)
        self._partitions = [f"kafka.in[{number * tasks + each}]" for each in range(tasks)]
        self._tasks = [f"Partition {number * tasks + each}" for each in range(tasks)]
        self._stores = stores
        self._beats = self._metrics = 0

    async def run(self, end: float, spread_s: float) -> None:
        """Register at some moment within `spread_s`, and report until `end`."""
        await asyncio.sleep(self._chance.random() * spread_s)
        registered = read(Registration, await self._caller.call("POST", f"{self._path}/attempts", encode(Attempt())))
        epoch, pace = registered.epoch, Pace()
        await self._send_first(epoch)
        details_due, metrics_due = (
            time.monotonic() + self._chance.random() * pace.details_s,
            time.monotonic() + METRICS_S,
        )
        while time.monotonic() < end:
            try:
                answer = await self._heartbeat(epoch)
                pace = answer.pace
                if answer.directive is Directive.ABANDON:
                    self._heard.abandoned += 1
                    return
                now = time.monotonic()
                if now >= details_due:
                    details_due = now + self._varied(pace.details_s)
                    await self._details(self._changes(epoch, metrics=now >= metrics_due))
                    metrics_due = now + METRICS_S if now >= metrics_due else metrics_due
            except (OSError, ValueError) as failure:
                self._heard.failures.append(str(failure))
            await asyncio.sleep(min(registered.lease_ms / 3000, self._varied(pace.heartbeat_s)))

    def _varied(self, seconds: float) -> float:
        return seconds * (0.75 + self._chance.random() / 2)

    async def _heartbeat(self, epoch: int) -> Answer:
        self._beats += 1
        asked = time.monotonic()
        body = encode(Heartbeat(epoch, "running", 1_000 * self._beats, self._beats))
        answer = read(Answer, await self._caller.call("POST", f"{self._path}/heartbeat", body))
        self._heard.heartbeats.append(time.monotonic() - asked)
        return answer

    async def _send_first(self, epoch: int) -> None:
        """All details, in pieces of the tasks of a fifth of the container each: about as large as a real
        container's."""
        of_task = [f"store.s{store}.{name}" for store in range(self._stores) for name in STORE] + list(TASK)
        pieces = [Details(epoch, first=True, names=[(group, list(names)) for group, names in CONTAINER.items()])]
        pieces[0].positions = dict.fromkeys(self._partitions, 0)
        pieces[0].clocks = dict.fromkeys(self._tasks, TaskProgress(1_700_000_000_000))
        at_once = max(1, len(self._tasks) // 5)
        for start in range(0, len(self._tasks), at_once):
            names = [(task, of_task) for task in self._tasks[start : start + at_once]]
            pieces.append(Details(epoch, names=names))
        for piece in pieces:
            new = sum(len(names) for _, names in piece.names)
            piece.numbers = list(range(self._metrics, self._metrics + new))
            piece.values = [1.0] * new
            self._metrics += new
            await self._details(piece)

    def _changes(self, epoch: int, *, metrics: bool) -> Details:
        now = self._beats
        made = Details(
            epoch,
            positions=dict.fromkeys(self._partitions, 1000 * now),
            clocks={task: TaskProgress(1_700_000_000_000 + 1_000 * now) for task in self._tasks},
            lags={name: PartitionLag(1000 * now, 1000 * now + 7, 7, 120) for name in self._partitions},
        )
        if metrics:
            first = self._chance.randrange(self._metrics)
            made.numbers = [(first + each * 7) % self._metrics for each in range(int(self._metrics * CHANGED))]
            made.values = [float(now * 1_000 + number) for number in made.numbers]
        return made

    async def _details(self, piece: Details) -> None:
        body = pack(piece)
        self._heard.details_bytes += len(body)
        asked = time.monotonic()
        taken = read(Taken, await self._caller.call("POST", f"{self._path}/details", body))
        self._heard.details.append(time.monotonic() - asked)
        if taken.again:
            self._heard.failures.append("details have to be sent again")
