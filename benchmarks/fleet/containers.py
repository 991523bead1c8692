"""The simulated side: containers that register and report over HTTP, strangers that keep silent, and a page that is open.

A container sends what the lease of a real one sends: a heartbeat at the coordinator's pace, its details as changes. All of
its positions move between two of them, and a fifth of its metrics.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field

from benchmarks.fleet.server import TOKEN
from samzapy.coordinator.client import METRICS_S
from samzapy.coordinator.wire import Answer, Attempt, Details, Heartbeat, Pace, Registration, Taken, pack, read
from samzapy.job.lease import Directive, TaskProgress
from samzapy.strict_json import encode

#: Names of metrics of one store, about as many as a store on RocksDB has.
METRICS = 25
#: The share of the metrics that change between two reports of them.
CHANGED = 0.2


@dataclass
class Heard:
    """What all simulated clients have seen. Times in seconds."""

    heartbeats: list[float] = field(default_factory=list)
    details: list[float] = field(default_factory=list)
    pages: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    abandoned: int = 0
    strangers: int = 0
    details_bytes: int = 0


class Caller:
    """One connection that is kept, as urllib3 keeps it."""

    def __init__(self, address: str, token: str) -> None:
        self._host, _, port = address.removeprefix("http://").partition(":")
        self._port = int(port)
        self._head = f"Host: {self._host}:{port}\r\nAccept-Encoding: identity\r\nauthorization: Bearer {token}\r\n"
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, method: str, path: str, body: bytes = b"") -> bytes:
        """One request. Raises OSError, and ValueError for an answer that is not 200."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port, limit=2**24)
        reader, writer = self._streams
        head = f"{method} {path} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n"
        try:
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            lines = answer.lower().split(b"\r\n")
            length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
            found = await reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError) as cause:
            writer.close()
            self._streams = None
            raise OSError(f"{path}: {type(cause).__name__}") from cause
        if not lines[0].startswith(b"http/1.1 200"):
            raise ValueError(f"{path}: {lines[0].decode()}")
        return found


class SimulatedContainer:
    """One container's reports, until the end."""

    def __init__(self, number: int, address: str, tasks: int, stores: int, heard: Heard) -> None:
        self._caller = Caller(address, TOKEN)
        self._path = f"/containers/{number}"
        self._heard = heard
        self._chance = random.Random(number)
        self._partitions = [f"kafka.in[{number * tasks + each}]" for each in range(tasks)]
        self._tasks = [f"Partition {number * tasks + each}" for each in range(tasks)]
        self._stores = stores
        self._beats = 0

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
                    details_due = now + pace.details_s
                    await self._details(self._changes(epoch, metrics=now >= metrics_due))
                    metrics_due = now + METRICS_S if now >= metrics_due else metrics_due
            except (OSError, ValueError) as failure:
                self._heard.failures.append(str(failure))
            await asyncio.sleep(min(registered.lease_ms / 3000, pace.heartbeat_s))

    async def _heartbeat(self, epoch: int) -> Answer:
        self._beats += 1
        asked = time.monotonic()
        body = encode(Heartbeat(epoch, "running", 1_000 * self._beats, self._beats))
        answer = read(Answer, await self._caller.call("POST", f"{self._path}/heartbeat", body))
        self._heard.heartbeats.append(time.monotonic() - asked)
        return answer

    async def _send_first(self, epoch: int) -> None:
        """All details, in pieces of the tasks of a fifth of the container each: about as large as a real container's."""
        names = [f"store.s{store}.metric-{number}" for store in range(self._stores) for number in range(METRICS)]
        at_once = max(1, len(self._tasks) // 5)
        for start in range(0, len(self._tasks), at_once):
            tasks = self._tasks[start : start + at_once]
            numbers = list(range(start * len(names), (start + len(tasks)) * len(names)))
            piece = Details(epoch, start == 0, names=[(task, names) for task in tasks], numbers=numbers)
            piece.values = [1.0] * len(numbers)
            if start == 0:
                piece.positions = dict.fromkeys(self._partitions, 0)
                piece.clocks = dict.fromkeys(self._tasks, TaskProgress(1_700_000_000_000))
            await self._details(piece)

    def _changes(self, epoch: int, *, metrics: bool) -> Details:
        now = self._beats
        made = Details(
            epoch,
            positions=dict.fromkeys(self._partitions, 1000 * now),
            clocks={task: TaskProgress(1_700_000_000_000 + 1_000 * now) for task in self._tasks},
        )
        if metrics:
            known = len(self._tasks) * self._stores * METRICS
            first = self._chance.randrange(known)
            made.numbers = [(first + each * 7) % known for each in range(int(known * CHANGED))]
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


async def stranger(address: str, end: float, heard: Heard) -> None:
    """Connects, says nothing, and comes back a second after it was shown out."""
    host, _, port = address.removeprefix("http://").partition(":")
    while time.monotonic() < end:
        try:
            reader, writer = await asyncio.open_connection(host, int(port))
            heard.strangers += 1
            await reader.read(1)
            writer.close()
        except OSError:
            pass
        await asyncio.sleep(1.0)


async def reader_of_the_page(address: str, token: str, end: float, heard: Heard) -> None:
    """A browser with the page open, and a tool that asks for the status and the metrics now and then."""
    caller, looks = Caller(address, token), 0
    while time.monotonic() < end:
        for path in ("/", "/status", "/metrics")[: 1 if looks % 8 else 3]:
            asked = time.monotonic()
            try:
                await caller.call("GET", path)
            except (OSError, ValueError) as failure:
                heard.failures.append(str(failure))
            heard.pages.append(time.monotonic() - asked)
        looks += 1
        await asyncio.sleep(2.0)
