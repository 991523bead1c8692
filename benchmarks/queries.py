"""`python -m benchmarks --only queries`: what lookups in the stores of a running job give, and what they cost it.

The keyed count runs over a million events of the embedded system, as fast as it can, with the local runner: driver and
container are one process, so its CPU has both parts of every lookup. Beside it a process asks for keys over HTTP. A row
has the lookups a second, the time of one as the asking process sees it, and the job's CPU seconds per million messages:
the least of the repeats, which take turns.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import os
import random
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from samzapy.api.stream import SystemStream
from samzapy.bench.events import Events, load_events
from samzapy.bench.measuring import measure_job
from samzapy.config.loader import load_job
from samzapy.coordinator.web.access import Tokens
from samzapy.runner.base import TOKEN

EVENTS, PARTITIONS, REPEATS, KEYS = 1_000_000, 4, 3, 100_000
#: Seconds between two attempts to reach a driver that is starting.
_AGAIN_S = 0.02


@dataclass(frozen=True)
class Variant:
    """A job with `keys` of its own, and those who ask: `clients` connections, each `pace_s` seconds after its last
    answer."""

    name: str
    keys: dict[str, str] = field(default_factory=dict)
    clients: int = 0
    pace_s: float = 0.0


_ON = {"job.query.enabled": "true"}
_KEYED = {**_ON, "job.query.keyed.stores": "counts"}
VARIANTS = (
    Variant("queries off"),
    Variant("on, nobody asks", _ON),
    Variant("on, 100 a second at most", _KEYED, 4, 0.04),
    Variant("on, 16 clients without a pause", _KEYED, 16),
)


def job_file(folder: Path) -> dict[str, str]:
    """The keyed count on the embedded system."""
    return {
        "job.name": "bench-queries",
        "job.default.system": "local",
        "job.logged.store.base.dir": f"{folder}/state",
        "job.log.dir": f"{folder}/logs",
        "systems.local.samza.factory": "local",
        "systems.local.path": f"{folder}/streams.db",
        "systems.local.default.stream.samza.msg.serde": "json",
        "systems.local.default.stream.samza.offset.default": "oldest",
        "task.class": "samzapy.bench.tasks:KeyedCountTask",
        "task.inputs": "local.events",
        "task.commit.ms": "1000",
        "task.window.ms": "100",
        "stores.counts.factory": "rocksdb",
        "stores.counts.key.serde": "string",
        "stores.counts.msg.serde": "long",
    }


class Client:
    """Asks for keys over some connections of its own, in threads, until `stop` is set."""

    def __init__(self, port: int, token: str, variant: Variant, stop: Any) -> None:
        self._port, self._token, self._variant, self._stop = port, token, variant, stop
        self.times: list[float] = []
        self.others: list[int] = []

    def run(self) -> None:
        """Ask until told to stop."""
        threads = [threading.Thread(target=self._ask, args=(n,)) for n in range(self._variant.clients)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    def _ask(self, number: int) -> None:
        chance = random.Random(number)
        weights = list(accumulate(1.0 / rank**1.1 for rank in range(1, KEYS + 1)))
        keys = chance.choices(range(KEYS), cum_weights=weights, k=20_000)
        headers = {"authorization": f"Bearer {self._token}"}
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        while not self._stop.is_set():
            key = keys[len(self.times) % len(keys)]
            began = time.perf_counter()
            try:
                connection.request("GET", f"/stores/counts/u{key:07d}", headers=headers)
                answer = connection.getresponse()
                answer.read()
            except (OSError, http.client.HTTPException):
                connection.close()
                self._stop.wait(_AGAIN_S)
                continue
            if answer.status in {200, 404}:
                self.times.append(time.perf_counter() - began)
            else:
                self.others.append(answer.status)
                self._stop.wait(_AGAIN_S)
            if self._variant.pace_s:
                self._stop.wait(self._variant.pace_s)


def ask(port: int, token: str, variant: Variant, stop: Any, answers: Any) -> None:
    """A process that asks."""
    client = Client(port, token, variant, stop)
    began = time.perf_counter()
    client.run()
    answers.send({"times": client.times, "others": len(client.others), "seconds": time.perf_counter() - began})


def measure(job: Path, variant: Variant) -> dict[str, Any]:
    """One run of the job beside those who ask."""
    with socket.create_server(("127.0.0.1", 0)) as free, tempfile.TemporaryDirectory(prefix="queries-") as folder:
        port = free.getsockname()[1]
        free.close()
        spawn = multiprocessing.get_context("spawn")
        here, there = spawn.Pipe()
        stop = spawn.Event()
        token = Tokens(os.environ[TOKEN]).read
        asking = spawn.Process(target=ask, args=(port, token, variant, stop, there), daemon=True)
        asking.start()
        # Each run begins with the first event: it has checkpoints, a changelog and state of its own.
        own = {
            "job.id": Path(folder).name.removeprefix("queries-").replace("_", "-"),
            "job.page.port": str(port),
            "job.logged.store.base.dir": f"{folder}/state",
            "stores.counts.changelog": f"local.{Path(folder).name}",
        }
        try:
            measured = measure_job(job, {**own, **variant.keys})
        finally:
            stop.set()
        found = here.recv()
        asking.join()
    times = sorted(found["times"]) or [0.0]
    return {
        "cpu_s_per_million": measured.cpu_s_per_million,
        "messages_per_s": measured.messages_per_s,
        "seconds": measured.seconds,
        "lookups": len(found["times"]),
        "lookups_per_s": len(found["times"]) / measured.seconds,
        "unanswered": found["others"],
        "p50_ms": median(times) * 1_000,
        "p99_ms": times[min(len(times) - 1, int(len(times) * 0.99))] * 1_000,
    }


def main(arguments: Sequence[str] = ()) -> int:
    """The program."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks --only queries", description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--output", type=Path, help="a file to write every repeat to, as JSON")
    options = parser.parse_args(arguments)
    os.environ.setdefault(TOKEN, "benchmark")
    found: dict[str, list[dict[str, Any]]] = {variant.name: [] for variant in VARIANTS}
    with tempfile.TemporaryDirectory(prefix="samzapy-queries-") as name:
        folder = Path(name)
        job = folder / "job.properties"
        job.write_text("".join(f"{key}={value}\n" for key, value in job_file(folder).items()))
        settings = load_job(job).systems["local"]
        load_events(settings, SystemStream("local", "events"), Events(options.events, KEYS), partitions=PARTITIONS)
        for repeat in range(options.repeats):
            for variant in VARIANTS:
                print(f"queries: {variant.name}, {repeat + 1} of {options.repeats}", file=sys.stderr)
                found[variant.name].append(measure(job, variant))
    if options.output:
        options.output.write_text(json.dumps(found, indent=1) + "\n")
    console = Console()
    console.width = max(console.width, 110)
    console.print(table(found))
    return 0


def table(found: dict[str, list[dict[str, Any]]]) -> Table:
    """A row a variant: the least CPU, and the best of the lookups."""
    made = Table(title="lookups in the stores of a running job")
    for name in ("", "CPU-s per M messages", "times that without", "messages/s", "lookups/s", "p50 ms", "p99 ms"):
        made.add_column(name, justify="right" if name else "left")
    least = min(each["cpu_s_per_million"] for each in next(iter(found.values())))
    for name, repeats in found.items():
        cpu = min(each["cpu_s_per_million"] for each in repeats)
        best = max(repeats, key=lambda each: each["lookups_per_s"])
        asked = (f"{best['lookups_per_s']:,.0f}", f"{best['p50_ms']:.1f}", f"{best['p99_ms']:.1f}")
        made.add_row(
            name,
            f"{cpu:.2f}",
            f"{cpu / least:.2f}",
            f"{max(each['messages_per_s'] for each in repeats):,.0f}",
            *(asked if best["lookups"] else ("", "", "")),
        )
    return made
