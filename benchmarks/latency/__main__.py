"""`python -m benchmarks.latency`: from append to readable for a consumer with read_committed, at steady rates.

Each run has a generator, a reader and a peer, all on a Kafka started for the program. With four processors the broker,
the generator and the reader have one half of them, and the peer has the other.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.kafka import broker
from benchmarks.latency.entries import COMMITS_MS, ENTRIES, GUARANTEES, Entry
from benchmarks.latency.report import markdown, plot
from benchmarks.latency.running import Case, Latency, measure, processors
from benchmarks.peers.launchers import PeerUnavailable
from benchmarks.reporting.plots import folder_of_plots
from benchmarks.reporting.results import RESULTS, circumstances
from samzapy.bench.measuring import MeasurementFailed
from samzapy.errors import SamzapyError

RATES, SECONDS, WARM_UP_S = (1_000, 10_000, 50_000), 10, 5
#: Runs first and does not count: a broker that has just started needs more of the processors than the systems do.
BROKERS_WARM_UP = Case(ENTRIES[1], GUARANTEES[-1], COMMITS_MS[0], rate=10_000, seconds=40, warm_up_s=0)


def main() -> int:
    """The program; returns the exit code: 0 too if peers were skipped."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    say = Console(stderr=True, highlight=False, soft_wrap=True, markup=False).print
    entries, failed = _installed([entry for entry in ENTRIES if _is_wanted(entry, options.only)], say)
    cases = list(_cases(entries, options))
    when = circumstances(max(case.expected for case in cases)) if cases else {}
    ours, peers = processors(options.apart)
    when = {**when, "apart": ours != peers}
    os.sched_setaffinity(0, ours)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="samzapy-latency-") as folder,
            broker(Path(folder), options.bootstrap) as kafka,
        ):
            with suppress(MeasurementFailed):
                measure(BROKERS_WARM_UP, kafka, peers)
            result = list[Latency]()
            for number, case in enumerate(cases, 1):
                label = f"{number}/{len(cases)} {case}"
                try:
                    result.append(measure(case, kafka, peers))
                except MeasurementFailed as failure:
                    failed[str(case)] = str(failure)
                    say(f"{label}: {failure}")
                    continue
                say(f"{label}: {_shown(result[-1])}")
    except SamzapyError as failure:
        print(f"error: {failure}", file=sys.stderr)
        return failure.exit_code
    _report(result, failed, when, options.output)
    return 0


def _installed(wanted: Sequence[Entry], say: Any) -> tuple[list[Entry], dict[str, str]]:
    ready, skipped = list[Entry](), dict[str, str]()
    for entry in wanted:
        try:
            entry.launcher.install()
            ready.append(entry)
        except PeerUnavailable as failure:
            skipped[entry.name] = str(failure)
            say(f"{entry.name}: skipped: {failure}")
    return ready, skipped


def _cases(entries: Sequence[Entry], options: argparse.Namespace) -> Iterator[Case]:
    """All once, then again."""
    for _ in range(options.repeats):
        for guarantee in options.guarantee or GUARANTEES:
            for commit_ms in options.commit_ms or COMMITS_MS:
                for entry in entries:
                    if guarantee in entry.guarantees and commit_ms in entry.commits_ms:
                        for rate in options.rate or RATES:
                            yield Case(entry, guarantee, commit_ms, rate, options.seconds, options.warm_up_s)


def _shown(found: Latency) -> str:
    times = f"p50 {found.p50_ms:.1f}, p99 {found.p99_ms:.1f}, p99.9 {found.p999_ms:.1f} ms"
    return f"{times}; {found.cores:.2f} cores; generator late by {found.late_p99_ms:.1f} ms at p99"


def _report(found: Sequence[Latency], failed: Mapping[str, str], when: Mapping[str, Any], output: Path | None) -> None:
    if not found:
        return
    text = markdown(found, failed)
    if output is None:
        print(text)
        return
    output.mkdir(parents=True, exist_ok=True)
    content = {"measured": when, "failed": dict(failed), "runs": [item.to_json() for item in found]}
    (output / "latency.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    (output / "latency.md").write_text(text, encoding="utf-8")
    plot(found, folder_of_plots(output) / "latency.svg")
    print(f"every run is in {output / 'latency.json'}, the tables in latency.md, the plot in latency.svg")


def _is_wanted(entry: Entry, only: Sequence[str] | None) -> bool:
    return not only or any(part.lower() in entry.name.lower() for part in only)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description=__doc__)
    parser.add_argument("--only", action="append", metavar="SYSTEM", help="a part of a name; may be repeated")
    parser.add_argument("--guarantee", action="append", choices=GUARANTEES, help="may be repeated")
    parser.add_argument("--commit-ms", action="append", type=int, choices=COMMITS_MS, help="may be repeated")
    parser.add_argument(
        "--rate", action="append", type=int, help=f"messages a second (default: {RATES}); may be repeated"
    )
    parser.add_argument("--seconds", type=int, default=SECONDS, help=f"measured (default: {SECONDS})")
    parser.add_argument("--warm-up-s", type=int, default=WARM_UP_S, help=f"before (default: {WARM_UP_S})")
    parser.add_argument("--repeats", type=int, default=1, help="default: 1")
    parser.add_argument(
        "--apart",
        action=argparse.BooleanOptionalAction,
        help="the peer has half of the processors to itself (default: with four)",
    )
    parser.add_argument("--bootstrap", help="measure on this broker (default: one of its own)")
    parser.add_argument("--output", type=Path, help=f"a folder for tables and plot (default, for all: {RESULTS})")
    options = parser.parse_args()
    narrowed = (options.only, options.guarantee, options.commit_ms, options.rate)
    if options.output is None and not any(narrowed) and options.seconds == SECONDS:
        options.output = RESULTS
    return options


if __name__ == "__main__":
    sys.exit(main())
