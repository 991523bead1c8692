"""`python -m benchmarks --only fleet`: what one coordinator needs for the reports of a large job.

500 and 1,000 containers of 20 tasks with 10 stores report over HTTP to one coordinator in a process of its own, while 2,000
connections of strangers keep silent and a page is open. A row has the coordinator's CPU as a share of one core, the time from
a heartbeat to its answer as the containers see it, and the leases that ran out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.fleet.containers import Heard, SimulatedContainer, reader_of_the_page, stranger
from benchmarks.fleet.server import serve

SIZES, TASKS, STORES, STRANGERS, LEASE_S = (500, 1_000), 20, 10, 2_000, 15.0
#: Seconds over which the containers of a job start, and those of each measurement.
START_S, SECONDS = 20.0, 600.0
#: The most CPU, as a share of a core, and the 99th percentile of a heartbeat's time, in milliseconds.
MOST_CPU, MOST_MS = 0.15, 50.0


def measure(containers: int, seconds: float) -> dict[str, Any]:
    """One row: `seconds` of reports, after all containers have started."""
    here, there = multiprocessing.Pipe()
    spawn = multiprocessing.get_context("spawn")
    server = spawn.Process(target=serve, args=(containers, TASKS, LEASE_S, there), daemon=True)
    server.start()
    try:
        address, token = here.recv()
        started, heard = asyncio.run(_run(address, token, containers, seconds, here))
        figures = here.recv()
        here.send("end")
    finally:
        server.join(30)
        server.kill()
    return {
        "containers": containers,
        "tasks": containers * TASKS,
        "stores": containers * TASKS * STORES,
        "seconds": seconds,
        **figures,
        "cpu_share_of_start": started["cpu_share"],
        "leases_lost": figures["leases_lost"],
        "heartbeats_per_s": len(heard.heartbeats) / seconds,
        "details_kb_per_s": heard.details_bytes / seconds / 1_000,
        **_percentiles("heartbeat", heard.heartbeats),
        **_percentiles("details", heard.details),
        **_percentiles("page", heard.pages),
        "strangers_per_s": heard.strangers / seconds,
        "abandoned": heard.abandoned,
        "failed_reports": len(heard.failures),
        "first_failures": heard.failures[:5],
    }


async def _run(address: str, token: str, containers: int, seconds: float, pipe: Any) -> tuple[dict[str, Any], Heard]:
    heard = Heard()
    end = time.monotonic() + START_S + seconds
    fleet = [SimulatedContainer(number, address, TASKS, STORES, heard) for number in range(containers)]
    running = [asyncio.create_task(each.run(end, START_S * 0.75)) for each in fleet]
    running += [asyncio.create_task(stranger(address, end, heard)) for _ in range(STRANGERS)]
    running.append(asyncio.create_task(reader_of_the_page(address, token, end, heard)))
    await asyncio.sleep(START_S)
    pipe.send("figures")
    started = await asyncio.to_thread(pipe.recv)
    for each in (heard.heartbeats, heard.details, heard.pages):
        each.clear()
    heard.strangers = heard.details_bytes = 0
    await asyncio.sleep(max(0.0, end - time.monotonic()))
    pipe.send("figures")
    # Containers that still wait for an answer are of no interest any more.
    for each in running:
        each.cancel()
    done = await asyncio.gather(*running, return_exceptions=True)
    heard.failures += [repr(each) for each in done if isinstance(each, Exception)]
    return started, heard


def _percentiles(name: str, times: Sequence[float]) -> dict[str, float]:
    ordered = sorted(times) or [0.0]
    at = {share: ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1_000 for share in (0.99, 0.999)}
    return {
        f"{name}_p50_ms": median(ordered) * 1_000,
        f"{name}_p99_ms": at[0.99],
        f"{name}_max_ms": ordered[-1] * 1_000,
    }


def main(arguments: Sequence[str] = ()) -> int:
    """The program; 1 if a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks --only fleet", description=__doc__)
    parser.add_argument("--containers", type=int, action="append", help="may be repeated; default: 500 and 1000")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each measurement (default: 600)")
    parser.add_argument("--output", type=Path, help="a file to write the rows to, as JSON")
    options = parser.parse_args(arguments)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    rows = []
    for containers in options.containers or SIZES:
        print(f"fleet: {containers:,} containers, {options.seconds:g} s", file=sys.stderr)
        rows.append(measure(containers, options.seconds))
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
    for name in (
        "containers",
        "CPU",
        "heartbeat p50 / p99 / max ms",
        "details p99 ms",
        "page p99 ms",
        "leases lost",
        "RSS MiB",
    ):
        table.add_column(name, justify="right")
    for row in rows:
        heartbeat = " / ".join(f"{row[f'heartbeat_{name}_ms']:.1f}" for name in ("p50", "p99", "max"))
        table.add_row(
            f"{row['containers']:,}",
            f"{row['cpu_share']:.1%}",
            heartbeat,
            f"{row['details_p99_ms']:.0f}",
            f"{row['page_p99_ms']:.0f}",
            str(row["leases_lost"]),
            f"{row['peak_rss_mib']:.0f}",
        )
    table.caption = f"CPU: share of one core; to reach: {MOST_CPU:.0%}, {MOST_MS:g} ms, no lease lost"
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
