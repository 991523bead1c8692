"""`python -m benchmarks --only fleet`: what one coordinator needs for the reports of a large job.

500 and 1,000 containers of 20 tasks with 10 stores report over HTTP to one coordinator in a process of its own, while
2,000 connections of strangers keep silent, a page is open and Prometheus scrapes. A row has the coordinator's CPU as a
share of one core, by thread, the time from a heartbeat to its answer as the containers see it, and the leases that ran
out.

The containers are a process of their own, and all others another one; their CPU is in the table, too, since they share
the machine with what is measured. So is the time that coordinator and containers waited for a core: beside other
programs a heartbeat waits for these rather than for the coordinator.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.fleet.bystanders import ALL, Seen, stand_by
from benchmarks.fleet.containers import Fleet, Heard, report
from benchmarks.fleet.server import TOKEN, serve

SIZES, TASKS, STORES, LEASE_S = (500, 1_000), 20, 10, 15.0
#: Seconds over which the containers of a job start, and those of each measurement.
START_S, SECONDS = 20.0, 600.0
#: The most CPU, as a share of a core, and the 99th percentile of a heartbeat's time, in milliseconds.
MOST_CPU, MOST_MS = 0.15, 50.0


def measure(containers: int, seconds: float, bystanders: Collection[str] = ALL) -> dict[str, Any]:
    """One row: `seconds` of reports, after all containers have started."""
    context, (here, there) = multiprocessing.get_context("spawn"), multiprocessing.Pipe()
    fleet = Fleet(containers, TASKS, STORES, START_S, seconds)
    server = context.Process(target=serve, args=(containers, TASKS, LEASE_S, there), daemon=True)
    server.start()
    others = []
    try:
        address, read_token = here.recv()
        for target, args in (
            (report, (fleet, address, TOKEN)),
            (stand_by, (bystanders, START_S + seconds, address, read_token)),
        ):
            ours, theirs = multiprocessing.Pipe()
            process = context.Process(target=target, args=(*args, theirs), daemon=True)
            process.start()
            others.append((process, ours))
        time.sleep(START_S)
        here.send("figures")
        started = here.recv()
        time.sleep(seconds)
        here.send("figures")
        figures = here.recv()
        heard, seen = (ours.recv() for _, ours in others)
        here.send("end")
    finally:
        for process in (server, *(process for process, _ in others)):
            process.join(30)
            process.kill()
    return _row(fleet, started, figures, heard, seen)


def _row(fleet: Fleet, started: dict[str, Any], figures: dict[str, Any], heard: Heard, seen: Seen) -> dict[str, Any]:
    failures = [*heard.failures, *seen.failures]
    return {
        "containers": fleet.containers,
        "tasks": fleet.containers * TASKS,
        "stores": fleet.containers * TASKS * STORES,
        "seconds": fleet.seconds,
        **figures,
        "cpu_share_of_start": started["cpu_share"],
        "cpu_share_of_containers": heard.cpu_share,
        "waited_share_of_containers": heard.waited_share,
        "heartbeats_per_s": len(heard.heartbeats) / fleet.seconds,
        "details_per_s": len(heard.details) / fleet.seconds,
        "details_kb_per_s": heard.details_bytes / fleet.seconds / 1_000,
        **_percentiles("heartbeat", heard.heartbeats),
        **_percentiles("details", heard.details),
        "slowest_s": {path: max(times) for path, times in seen.times.items()},
        "bytes": {**seen.sizes, "/events": seen.news},
        "strangers_per_s": seen.strangers / (START_S + fleet.seconds),
        "abandoned": heard.abandoned,
        "failed_reports": len(heard.failures),
        "first_failures": failures[:5],
    }


def _percentiles(name: str, times: Sequence[float]) -> dict[str, float]:
    ordered = sorted(times) or [0.0]
    return {
        f"{name}_p50_ms": median(ordered) * 1_000,
        f"{name}_p99_ms": ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] * 1_000,
        f"{name}_max_ms": ordered[-1] * 1_000,
    }


def main(arguments: Sequence[str] = ()) -> int:
    """The program; 1 if a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks --only fleet", description=__doc__)
    parser.add_argument("--containers", type=int, action="append", help="may be repeated; default: 500 and 1000")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each measurement (default: 600)")
    parser.add_argument("--without", choices=ALL, action="append", default=[], help="leave some out; may be repeated")
    parser.add_argument("--output", type=Path, help="a file to write the rows to, as JSON")
    options = parser.parse_args(arguments)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    rows = []
    for containers in options.containers or SIZES:
        print(f"fleet: {containers:,} containers, {options.seconds:g} s", file=sys.stderr)
        rows.append(measure(containers, options.seconds, set(ALL) - set(options.without)))
    if options.output:
        options.output.write_text(json.dumps(rows, indent=1) + "\n")
    console = Console()
    console.width = max(console.width, 110)
    console.print(_table(rows))
    for row in rows:
        for failure in row["first_failures"]:
            console.print(f"{row['containers']:,} containers: {failure}", markup=False)
    return int(any(_missed(row) for row in rows))


def _missed(row: dict[str, Any]) -> bool:
    return row["cpu_share"] > MOST_CPU or row["heartbeat_p99_ms"] > MOST_MS or row["leases_lost"] > 0


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(title="one coordinator, many containers")
    for name in ("containers", "CPU", "heartbeat p50 / p99 / max ms", "details p99 ms", "leases lost", "RSS MiB"):
        table.add_column(name, justify="right")
    table.add_column("CPU by thread", justify="left")
    table.add_column("clients", justify="right")
    table.add_column("without a core", justify="right")
    for row in rows:
        heartbeat = " / ".join(f"{row[f'heartbeat_{name}_ms']:.1f}" for name in ("p50", "p99", "max"))
        threads = sorted(row["cpu_by_thread"].items(), key=lambda each: -each[1])
        table.add_row(
            f"{row['containers']:,}",
            f"{row['cpu_share']:.1%}",
            heartbeat,
            f"{row['details_p99_ms']:.0f}",
            str(row["leases_lost"]),
            f"{row['peak_rss_mib']:.0f}",
            ", ".join(f"{name} {share:.1%}" for name, share in threads if share >= 0.001),
            f"{row['cpu_share_of_containers']:.0%}",
            f"{row['waited_share']:.0%} / {row['waited_share_of_containers']:.0%}",
        )
    table.caption = (
        f"CPU: share of one core; to reach: {MOST_CPU:.0%}, {MOST_MS:g} ms, no lease lost\n"
        "without a core: time that coordinator / clients were ready and waited; only next to 0 are their times the coordinator's"
    )
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
