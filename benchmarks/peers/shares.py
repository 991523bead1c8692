"""`python -m benchmarks.peers.shares`: where samzapy's CPU goes, beside the C++ loop, its limit, as stacked bars.

Linux's perf samples each process between its first and its last message. The library that runs says what the time is
for: decoding and encoding are msgspec's, orjson's or simdjson's, and so on.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.kafka import Kafka, broker
from benchmarks.peers.catalog import PEERS, Peer
from benchmarks.peers.launchers import KEYED_COUNT, PASS_THROUGH, Launcher, Settings
from benchmarks.peers.programs.run import FIRST, LAST
from benchmarks.peers.running import marks_of, measure
from benchmarks.reporting.plots import folder_of_plots, plt, save
from benchmarks.reporting.results import RESULTS, circumstances
from samzapy.bench.events import Events

EVENTS, HERTZ = 3_000_000, 499
NAMES = ("samzapy", "samzapy, typed batch", "C++ loop, the limit")
#: What the time is for, by a part of "thread|library": the first that fits.
PARTS: Mapping[str, str] = {
    "Kafka client: fetch and produce": r"^rdk:|librdkafka",
    "RocksDB": r"^rocksdb|rocksdict",
    "decode and encode": r"_core\.cpython|orjson|simdjson",
    "samzapy's C": r"extension\.abi3",
    "Python: samzapy, the task, the cache": r"libpython|python3|_queue|_struct|_asyncio|libssl",
    "memory": r"libc\.so|libstdc|ld-linux",
    "kernel": r"\[kernel|\[vdso\]|\[unknown\]",
    "the loop by hand": "",
}


@dataclass(frozen=True)
class _Sampled(Launcher):
    """A program below perf, on the clock of the marks."""

    launcher: Launcher
    samples: Path

    def install(self) -> None:
        self.launcher.install()

    def command(self, settings: Settings) -> list[str]:
        perf = ["perf", "record", "-q", "-k", "CLOCK_MONOTONIC", "-F", str(HERTZ), "-o", str(self.samples), "--"]
        return [*perf, *self.launcher.command(settings)]


@dataclass(frozen=True)
class Shares:
    """CPU seconds per million messages of one program, by part."""

    workload: str
    name: str
    parts: Mapping[str, float]


def main() -> int:
    """The program; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.shares", description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS, help=f"default: {EVENTS:,}")
    parser.add_argument("--output", type=Path, default=RESULTS, help="a folder for shares.json and shares.svg")
    options = parser.parse_args()
    peers = [peer for name in NAMES for peer in PEERS if peer.name == name]
    with tempfile.TemporaryDirectory(prefix="samzapy-shares-") as folder, broker(Path(folder), None) as kafka:
        topic = kafka.load_evenly("events", Events(options.events))
        result = []
        for workload in (KEYED_COUNT, PASS_THROUGH):
            for peer in peers:
                peer.launcher.install()
                shares = _profiled(peer, workload, kafka, topic, options.events)
                result.append(shares)
                print(workload, peer.name, {name: round(value, 3) for name, value in shares.parts.items()}, flush=True)
    content = {"measured": circumstances(options.events), "shares": [vars(item) for item in result]}
    (options.output / "shares.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    plot(result, folder_of_plots(options.output) / "shares.svg")
    return 0


def _profiled(peer: Peer, workload: str, kafka: Kafka, topic: str, events: int) -> Shares:
    settings = Settings.on(kafka, topic, workload, events, 10_000)
    samples = settings.folder.with_suffix(".perf")
    cost = measure(_Sampled(peer.launcher, samples), settings).cpu_s_per_million
    return Shares(
        workload, peer.name, {part: share * cost for part, share in _parts(samples, marks_of(settings.marks)).items()}
    )


def _parts(samples: Path, marks: Mapping[str, float]) -> dict[str, float]:
    """The share of each part between the first and the last message, in all 1."""
    command = ["perf", "report", "-i", str(samples), "--sort", "comm,dso", "--stdio", "-t", "|"]
    command += ["--time", f"{marks[FIRST]:.6f},{marks[LAST]:.6f}"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = dict.fromkeys(PARTS, 0.0)
    for line in text.splitlines():
        share, _, place = line.partition("|")
        if re.fullmatch(r"\s*[\d.]+%?\s*", share):
            place = "|".join(part.strip() for part in place.split("|"))
            part = next(name for name, pattern in PARTS.items() if re.search(pattern, place))
            found[part] += float(share.strip().rstrip("%"))
    whole = sum(found.values())
    return {part: value / whole for part, value in found.items() if value}


def plot(found: list[Shares], file: Path) -> None:
    """A bar for each program and workload."""
    figure, ax = plt.subplots(figsize=(9, 0.8 + 0.42 * len(found)))
    for row, shares in enumerate(reversed(found)):
        left = 0.0
        for number, part in enumerate(PARTS):
            width = shares.parts.get(part, 0.0)
            ax.barh(row, width, left=left, color=f"C{number}", label=part if row == len(found) - 1 else None)
            left += width
        ax.text(left, row, f" {left:.2f}", va="center", fontsize=8)
    ax.set_yticks(range(len(found)), [f"{item.workload}: {item.name}" for item in reversed(found)], fontsize=8)
    ax.set_xlabel("CPU seconds per million messages", fontsize=8)
    ax.margins(x=0.12)
    figure.legend(loc="outside lower center", ncols=4, fontsize=7)
    save(figure, file, bottom=0.12)


if __name__ == "__main__":
    sys.exit(main())
