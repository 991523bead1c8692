"""`python -m benchmarks.peers`: samzapy beside other stream processors, on the same topic of a Kafka started for it.

Peers are installed first, each in a place of its own; one that cannot be is skipped with its reason. They take turns.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.kafka import Kafka, broker
from benchmarks.peers.catalog import PEERS, Peer
from benchmarks.peers.launchers import KEYED_COUNT, PASS_THROUGH, REPARTITIONED, PeerUnavailable, Settings
from benchmarks.peers.report import markdown, plot, rows, table
from benchmarks.peers.running import measure
from benchmarks.reporting.plots import folder_of_plots
from benchmarks.reporting.results import RESULTS, circumstances
from samzapy.bench.events import Events
from samzapy.bench.measuring import Measurement, MeasurementFailed
from samzapy.errors import SamzapyError

EVENTS, COMMIT_MS, REPEATS = 1_000_000, 10_000, 3
WORKLOADS = (KEYED_COUNT, PASS_THROUGH, REPARTITIONED)
WIDTH = 170
Repeats = dict[str, dict[str, list[Measurement]]]


def main() -> int:
    """The program; returns the exit code: 0 too if peers were skipped."""
    options = _options()
    # A peer is in a session of its own: without an exception here it would outlive this program.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    say = Console(stderr=True, highlight=False, soft_wrap=True, markup=False).print
    peers, skipped = _installed([peer for peer in PEERS if _is_wanted(peer, options.only)], say)
    when = circumstances(options.events)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="samzapy-peers-") as folder,
            broker(Path(folder), options.bootstrap) as kafka,
        ):
            say("loading the events")
            topic = kafka.load_evenly("events", Events(options.events))
            result = _measured(peers, options, kafka, topic, skipped, say)
    except SamzapyError as failure:
        print(f"error: {failure}", file=sys.stderr)
        return failure.exit_code
    _report(peers, result, skipped, when, options.output)
    return 0


def _installed(wanted: Sequence[Peer], say: Any) -> tuple[list[Peer], dict[str, str]]:
    ready, skipped = list[Peer](), dict[str, str]()
    for peer in wanted:
        say(f"{peer.label}: installing")
        try:
            peer.launcher.install()
            ready.append(peer)
        except PeerUnavailable as failure:
            skipped[peer.label] = str(failure)
            say(f"{peer.label}: skipped: {failure}")
    return ready, skipped


def _measured(
    peers: Sequence[Peer], options: argparse.Namespace, kafka: Kafka, topic: str, skipped: dict[str, str], say: Any
) -> Repeats:
    """All peers once, then again, after a first run that does not count: a broker that has just started still compiles.
    One that fails is left out of its workload, with its reason in `skipped`."""
    result: Repeats = {
        workload: {peer.label: [] for peer in peers if workload in peer.keeps}
        for workload in options.workload or WORKLOADS
    }
    settings = partial(Settings.on, kafka, topic, events=options.events, commit_ms=options.commit_ms)
    can = [(workload, peer) for workload, by_peer in result.items() for peer in peers if peer.label in by_peer]
    for workload, peer in can[:1]:
        with suppress(MeasurementFailed):
            measure(peer.launcher, settings(workload))
    for number in range(1, options.repeats + 1):
        for workload, by_peer in result.items():
            for peer in [item for item in peers if item.label in by_peer]:
                label = f"{workload} {number}/{options.repeats} {peer.label}"
                try:
                    run = measure(peer.launcher, settings(workload))
                except MeasurementFailed as failure:
                    skipped[f"{peer.label}, {workload}"] = str(failure)
                    del by_peer[peer.label]
                    say(f"{label}: {failure}")
                    continue
                by_peer[peer.label].append(run)
                say(f"{label}: {run.messages_per_s:,.0f} msg/s, {run.cpu_s_per_million:.2f} CPU-s/M")
    return result


def _report(
    peers: Sequence[Peer], found: Repeats, skipped: Mapping[str, str], when: Mapping[str, Any], output: Path | None
) -> None:
    by_workload = {workload: rows(peers, workload, runs) for workload, runs in found.items()}
    console = Console()
    console.width = max(console.width, WIDTH)
    for workload, built in by_workload.items():
        console.print(table(workload, built))
    for name, reason in skipped.items():
        console.print(f"{name}: not measured: {reason}", soft_wrap=True, markup=False)
    if output is None:
        return
    content = {
        "measured": when,
        "skipped": dict(skipped),
        "workloads": {
            workload: {label: {"repeats": [run.to_json() for run in runs]} for label, runs in by_peer.items() if runs}
            for workload, by_peer in found.items()
        },
    }
    output.mkdir(parents=True, exist_ok=True)
    (output / "peers.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    (output / "peers.md").write_text(markdown(by_workload, skipped), encoding="utf-8")
    (folder_of_plots(output) / "peers.svg").write_text(plot(by_workload), encoding="utf-8")
    console.print(f"every repeat is in {output / 'peers.json'}, the tables in peers.md, the plot in peers.svg")


def _is_wanted(peer: Peer, only: Sequence[str] | None) -> bool:
    return not only or any(part.lower() in peer.name.lower() for part in only)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--only", action="append", metavar="PEER", help="a part of a peer's name; may be repeated")
    parser.add_argument("--workload", action="append", choices=WORKLOADS, help="only this one; may be repeated")
    parser.add_argument("--repeats", type=int, default=REPEATS, help=f"default: {REPEATS}")
    parser.add_argument("--events", type=int, default=EVENTS, help=f"default: {EVENTS:,}")
    parser.add_argument("--commit-ms", type=int, default=COMMIT_MS, help=f"between commits (default: {COMMIT_MS:,})")
    parser.add_argument("--bootstrap", help="measure on this broker (default: one of its own)")
    parser.add_argument("--output", type=Path, help=f"a folder for table and plot (default, for all peers: {RESULTS})")
    options = parser.parse_args()
    if options.output is None and not options.only and not options.workload and options.events == EVENTS:
        options.output = RESULTS
    return options


if __name__ == "__main__":
    sys.exit(main())
