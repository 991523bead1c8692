"""`python -m benchmarks.windows`: what a windowed count costs a message, beside a fold in a bare dict, in one process.

No container, no broker: messages are made beforehand, of 1,000 keys and 1,000 a second, up to 2 s out of order. Windows are
closed every 50,000 messages and the store is committed every 200,000, both in the CPU time that is measured; the best of
three runs counts.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable

from samzapy import (
    ContainerContext,
    Context,
    IncomingMessageEnvelope,
    JobContext,
    MessageCollector,
    SystemStream,
    SystemStreamPartition,
)
from samzapy.container.tasks.context import ContainerTaskContext
from samzapy.metrics import Registry
from samzapy.operators.windows import Count, EventTimeWindows, Hopping, Sessions, Tumbling, WindowedAggregation
from samzapy.testing import open_store

COUNT, KEYS, ROUNDS = 500_000, 1_000, 3
SSP = SystemStreamPartition("mem", "in", 0)
MINUTE_MS = 60_000
JOB = {
    "job.name": "windows",
    "task.class": "a:B",
    "task.inputs": "mem.in",
    "systems.mem.samza.factory": "memory",
    "stores.windows.factory": "rocksdb",
    "stores.windows.key.serde": "string",
    "stores.windows.msg.serde": "json",
    "stores.windows.changelog": "mem.windows",
    "stores.windows.object.cache.size": "20000",
}
Messages = list[IncomingMessageEnvelope]


class Nowhere(MessageCollector):
    def send(self, envelope: object) -> None:
        pass


def messages() -> Messages:
    chance = random.Random(7)
    return [
        IncomingMessageEnvelope(SSP, n, f"key-{chance.randrange(KEYS)}", 1, None, 1_700_000_000_000 + n - chance.randrange(2_000))
        for n in range(COUNT)
    ]  # fmt: skip


def in_a_dict(found: Messages) -> float:
    counts: dict[tuple[int, str], int] = {}
    started = time.process_time()
    for envelope in found:
        at = envelope.event_time
        window = at - at % MINUTE_MS, envelope.key
        counts[window] = counts.get(window, 0) + 1
    return time.process_time() - started


def in_windows(found: Messages, windows: Tumbling | Hopping | Sessions) -> float:
    with tempfile.TemporaryDirectory() as folder, open_store(JOB, "windows", folder) as opened:
        registry = Registry()
        task = ContainerTaskContext("Partition 0", {"windows": opened.store}, {SSP: 0}, registry, 1)
        context = Context(JobContext("windows", "1", {}), ContainerContext("0", registry), task)
        aggregation = WindowedAggregation(windows, Count(), SystemStream("mem", "out"))
        counted = EventTimeWindows(context, "windows", aggregation)
        add, collector = counted.add, Nowhere()
        started = time.process_time()
        for number, envelope in enumerate(found, 1):
            add(envelope, envelope.key, 1, collector)
            if not number % 50_000:
                counted.advance(collector)
                if not number % 200_000:
                    opened.commit()
        counted.finish(collector)
        return time.process_time() - started


def main() -> None:
    found = messages()
    runs: dict[str, Callable[[], float]] = {
        "bare dict": lambda: in_a_dict(found),
        "tumbling, 1 min": lambda: in_windows(found, Tumbling("1m", grace="5s")),
        "hopping, 1 min every 30 s": lambda: in_windows(found, Hopping("1m", "30s", grace="5s")),
        "sessions, gap 10 s": lambda: in_windows(found, Sessions("10s", grace="5s")),
    }
    for name, run in runs.items():
        best = min(run() for _ in range(ROUNDS))
        print(f"{name:26} {COUNT / best:10,.0f} msg/s {best / COUNT * 1e6:6.2f} CPU-µs each")


if __name__ == "__main__":
    main()
