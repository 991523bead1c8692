"""`python -m benchmarks.growth`: the cost of a message along one axis after another, and a long run at a steady rate,
on a Kafka started for it."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.growth import uptime
from benchmarks.growth.curves import CURVES, PEER, kafka_streams
from benchmarks.growth.report import markdown, plot, to_json
from benchmarks.kafka import Kafka, broker
from benchmarks.peers.launchers import PeerUnavailable
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
    failed = dict[str, str]()
    peers = _peers_are_ready(failed)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="samzapy-growth-") as folder,
            broker(Path(folder), options.bootstrap) as kafka,
        ):
            for name in options.only or [*CURVES, UPTIME]:
                when = circumstances(options.events)
                if name in CURVES:
                    result = to_json(_measured(name, kafka, options, peers, failed, say))
                else:
                    result = _uptime(kafka, options, failed, say)
                _keep(name, {"measured": when, "points": result}, options.output)
    except SamzapyError as failure:
        print(f"error: {failure}", file=sys.stderr)
        return failure.exit_code
    for name, reason in failed.items():
        print(f"{name}: {reason}")
    return int(bool(failed))


def _keep(name: str, measured: Mapping[str, Any], output: Path | None) -> None:
    """Print a table, and put it among those of `output`: in the place of an earlier one, since each is of one run."""
    print(markdown({name: measured}))
    if output is None:
        return
    output.mkdir(parents=True, exist_ok=True)
    kept, file = dict[str, Any](), output / "growth.json"
    if file.exists():
        kept = json.loads(file.read_text("utf-8"))
    content = {item: {**kept, name: measured}[item] for item in [*CURVES, UPTIME] if item in {*kept, name}}
    file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    (output / "growth.md").write_text(markdown(content), encoding="utf-8")
    plot(content, folder_of_plots(output) / "growth.svg")


def _peers_are_ready(failed: dict[str, str]) -> bool:
    try:
        kafka_streams().install()
    except PeerUnavailable as failure:
        failed[PEER.strip()] = str(failure)
    return not failed


def _measured(
    name: str, kafka: Kafka, options: argparse.Namespace, peers: bool, failed: dict[str, str], say: Any
) -> dict[str, Sequence[Measurement]]:
    curve = CURVES[name](kafka, options.events, THIS_PROGRAM)
    curve.prepare()
    variants = [item for item in curve.variants_up_to(options.largest) if peers or not item.startswith(PEER)]
    done = take_turns([Runner(item, curve, item, options.repeats) for item in variants], say)
    failed.update({f"{name} {point}": reason for point, reason in done.failures.items()})
    return dict(done.repeats)


def _uptime(kafka: Kafka, options: argparse.Namespace, failed: dict[str, str], say: Any) -> list[dict[str, Any]]:
    try:
        return [item.to_json() for item in uptime.measure(kafka, options.rate, options.uptime_s, say)]
    except MeasurementFailed as failure:
        failed[UPTIME] = str(failure)
        return []


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
