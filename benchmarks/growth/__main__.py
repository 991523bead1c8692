"""`python -m benchmarks.growth`: the cost of a message along one axis after another, and a long run at a steady rate,
on a Kafka started for it."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.growth import uptime
from benchmarks.growth.curves import CURVES
from benchmarks.growth.report import markdown, plot, to_json
from benchmarks.kafka import Kafka, broker
from benchmarks.reporting.plots import folder_of_plots
from benchmarks.reporting.results import RESULTS, circumstances
from benchmarks.workloads.turns import Runner, take_turns
from samzapy.bench.measuring import THIS_PROGRAM, Measurement, MeasurementFailed
from samzapy.errors import SamzapyError

EVENTS, UPTIME_S, RATE = 1_000_000, 3_600, 5_000
UPTIME = "uptime"


def main() -> int:
    """The program; returns the exit code: 1 if a point could not be measured."""
    options = _options()
    say = Console(stderr=True, highlight=False, soft_wrap=True, markup=False).print
    when = circumstances(options.events)
    result, samples, failed = dict[str, Any](), list[uptime.Sample](), dict[str, str]()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="samzapy-growth-") as folder,
            broker(Path(folder), options.bootstrap) as kafka,
        ):
            for name in options.only or CURVES:
                if name in CURVES:
                    result[name] = _measured(name, kafka, options, failed, say)
            if not options.only or UPTIME in options.only:
                try:
                    samples = uptime.measure(kafka, options.rate, options.uptime_s, say)
                except MeasurementFailed as failure:
                    failed[UPTIME] = str(failure)
    except SamzapyError as failure:
        print(f"error: {failure}", file=sys.stderr)
        return failure.exit_code
    text = markdown(result, samples, failed)
    print(text)
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        content = {"measured": when, "curves": to_json(result), UPTIME: [item.to_json() for item in samples]}
        (options.output / "growth.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        (options.output / "growth.md").write_text(text, encoding="utf-8")
        plot(result, samples, folder_of_plots(options.output) / "growth.svg")
    return int(bool(failed))


def _measured(
    name: str, kafka: Kafka, options: argparse.Namespace, failed: dict[str, str], say: Any
) -> dict[str, Sequence[Measurement]]:
    curve = CURVES[name](kafka, options.events, THIS_PROGRAM)
    curve.prepare()
    points = [point for point in curve.points if not point.isdigit() or int(point) <= options.largest]
    done = take_turns([Runner(point, curve, point, options.repeats) for point in points], say)
    failed.update({f"{name} {point}": reason for point, reason in done.failures.items()})
    return dict(done.repeats)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    names = [*CURVES, UPTIME]
    parser.add_argument(
        "--only", action="append", choices=names, metavar="CURVE", help=f"may be repeated: {', '.join(names)}"
    )
    parser.add_argument("--events", type=int, default=EVENTS, help=f"of a run (default: {EVENTS:,})")
    parser.add_argument("--repeats", type=int, default=1, help="default: 1")
    parser.add_argument("--largest", type=int, default=10**9, help="leave larger points out")
    parser.add_argument("--rate", type=int, default=RATE, help=f"messages per second of {UPTIME} (default: {RATE:,})")
    parser.add_argument("--uptime-s", type=int, default=UPTIME_S, help=f"its seconds (default: {UPTIME_S:,})")
    parser.add_argument("--bootstrap", help="measure on this broker (default: one of its own)")
    parser.add_argument("--output", type=Path, help=f"a folder for tables and plots (default, for all: {RESULTS})")
    options = parser.parse_args()
    if options.output is None and not options.only and options.events == EVENTS and options.largest == 10**9:
        options.output = RESULTS
    return options


if __name__ == "__main__":
    sys.exit(main())
