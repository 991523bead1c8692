"""`python -m benchmarks`: measure samzapy beside loops written by hand, on a Kafka started for it."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from benchmarks.kafka import broker
from benchmarks.results import write
from benchmarks.suite import VARIANTS, WORKLOADS
from benchmarks.tables import (
    commits_table,
    latency_table,
    phases_table,
    ratios_table,
    restarts_table,
    results_table,
    targets_table,
    tasks_table,
)
from benchmarks.targets import targets
from samzapy.bench.measuring import Measurement, describe_machine
from samzapy.errors import SamzapyError

#: Columns that the widest table needs.
WIDTH = 104
TABLES = (
    results_table,
    restarts_table,
    tasks_table,
    phases_table,
    latency_table,
    commits_table,
    ratios_table,
    targets_table,
)
LATEST = Path(__file__).parent / "results" / "latest.json"


def main() -> int:
    """The program; returns the exit code."""
    options = _options()
    try:
        run(options)
    except SamzapyError as failure:
        print(f"error: {failure}", file=sys.stderr)
        return failure.exit_code
    return 0


def run(options: argparse.Namespace) -> None:
    console = Console()
    console.width = max(console.width, WIDTH)
    progress = Console(stderr=True, highlight=False)
    machine = describe_machine()
    repeats: dict[str, dict[str, list[Measurement]]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="samzapy-benchmarks-") as folder,
        broker(Path(folder), options.bootstrap) as kafka,
    ):
        for name in options.workload or WORKLOADS:
            workload = WORKLOADS[name](kafka, options.events)
            runs = {variant: list[Measurement]() for variant in workload.variants if _asked_for(variant, options)}
            if not runs:
                continue
            repeats[name] = runs
            progress.print(f"{name}: preparing")
            workload.prepare()
            times = options.repeats or workload.repeats
            for number in range(1, times + 1):
                for variant, measured in runs.items():
                    measured.append(workload.run(variant))
                    progress.print(f"{name} {number}/{times} {variant}: {measured[-1].messages_per_s:,.0f} msg/s")
    for table in TABLES:
        made = table(repeats)
        if made.row_count:
            console.print(made)
    if options.output:
        reached = [each.to_json() for each in targets(repeats)]
        write(options.output, repeats, options.events, machine, reached)
        console.print(f"every repeat is in {options.output}", soft_wrap=True)


def _asked_for(variant: str, options: argparse.Namespace) -> bool:
    return not options.variant or variant in options.variant


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--workload", "--only", action="append", choices=list(WORKLOADS), help="only this one; may be repeated"
    )
    parser.add_argument("--variant", action="append", choices=VARIANTS, help="only this one; may be repeated")
    parser.add_argument("--repeats", type=int, help="default: 3, of tasks 1")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--bootstrap", help="measure on this broker (default: one of its own)")
    parser.add_argument("--output", type=Path, help=f"where to keep the results (default, for all workloads: {LATEST})")
    options = parser.parse_args()
    if options.output is None and not options.workload and not options.variant:
        options.output = LATEST
    return options


if __name__ == "__main__":
    sys.exit(main())
