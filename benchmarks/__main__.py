"""`python -m benchmarks`: measure samzapy beside loops written by hand, on a Kafka started for it.

With --compare or --against it is a gate: exit code 1 and a table if anything needs more CPU than before.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.gate.against import checkout, compare, last_release
from benchmarks.gate.changes import Change, changes, changes_table
from benchmarks.kafka import Kafka, broker
from benchmarks.reporting.results import LATEST, Repeats, Summary, circumstances, ratios, read, write
from benchmarks.reporting.tables import TABLES
from benchmarks.reporting.targets import targets
from benchmarks.suite import VARIANTS, WORKLOADS
from benchmarks.workloads.base import Workload
from benchmarks.workloads.turns import Runner, take_turns
from samzapy.bench.measuring import THIS_PROGRAM, Measurement, Program
from samzapy.errors import SamzapyError

#: Columns that the widest table needs.
WIDTH = 104
FOLDER = Path(__file__).parent
EVENTS = 1_000_000
#: What a run beside another commit measures unless the command line says.
BESIDE_A_COMMIT = ("pass-through", "keyed-count")
#: `--against` without a commit.
LAST_RELEASE = "last-release"


class Benchmark:
    """One run of the program: the workloads on one broker, and what is printed of them."""

    def __init__(self, options: argparse.Namespace, kafka: Kafka) -> None:
        self._options = options
        self._kafka = kafka
        self._console = Console()
        self._console.width = max(self._console.width, WIDTH)
        self._progress = Console(stderr=True, highlight=False)
        self._failed = False

    def measure(self) -> int:
        """Measure the workloads, keep them in the output as soon as each is done, and hold them against stored
        results."""
        options = self._options
        result: dict[str, Mapping[str, Sequence[Measurement]]] = {}
        for name in options.workload or WORKLOADS:
            workload = self._workload(name)
            variants = self._variants(workload)
            if not variants:
                continue
            when = circumstances(options.events)
            self._say(f"{name}: preparing")
            workload.prepare()
            runners = [Runner(item, workload, item, options.repeats or workload.times(item)) for item in variants]
            done = take_turns(runners, self._say)
            self._failed |= bool(done.failures)
            result[name] = done.repeats
            if options.output:
                reached = [target.to_json() for target in targets({name: done.repeats})]
                summary = Summary.of(name, done.repeats, reached, when)
                # All its variants are replaced, since only those of one run can be compared.
                write(options.output, {**read(options.output), name: summary})
        self._show(result)
        if options.compare:
            before = {ratio: spread for kept in read(options.compare).values() for ratio, spread in kept.ratios.items()}
            self._judge(changes(before, ratios(result)))
        return int(self._failed)

    def measure_beside(self, program: Program) -> int:
        """Measure the workloads in turns with those of another commit."""
        result: list[Change] = []
        for name in self._options.workload or BESIDE_A_COMMIT:
            here, there = self._workload(name), self._workload(name, program)
            times = self._options.repeats or here.repeats
            result += compare(here, there, self._variants(here), times, self._say)
        self._judge(result)
        return int(self._failed)

    def _workload(self, name: str, program: Program = THIS_PROGRAM) -> Workload:
        return WORKLOADS[name](self._kafka, self._options.events, program)

    def _variants(self, workload: Workload) -> list[str]:
        wanted = self._options.variant
        return [variant for variant in workload.variants if not wanted or variant in wanted]

    def _show(self, found: Repeats) -> None:
        for table in TABLES:
            built = table(found)
            if built.row_count:
                self._console.print(built)
        if self._options.output:
            self._console.print(f"medians, minima and maxima are in {self._options.output}", soft_wrap=True)

    def _judge(self, found: Sequence[Change]) -> None:
        allowed = self._options.fail_on
        self._console.print(changes_table(found, allowed))
        slower = [item.name for item in found if item.is_slower(allowed)]
        self._console.print(
            f"{len(slower)} of {len(found)} need over {allowed:.0%} more CPU" if found else "nothing to compare"
        )
        self._failed |= bool(slower) or not found

    def _say(self, line: str) -> None:
        self._progress.print(line, soft_wrap=True, markup=False)


def main() -> int:
    """The program; returns the exit code: 1 also if a variant failed or anything got slower."""
    options = _options()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="samzapy-benchmarks-") as folder,
            broker(Path(folder), options.bootstrap) as kafka,
        ):
            benchmark = Benchmark(options, kafka)
            if not options.against:
                return benchmark.measure()
            commit = last_release() if options.against == LAST_RELEASE else options.against
            print(f"beside {commit}", file=sys.stderr)
            with checkout(commit, Path(folder)) as program:
                return benchmark.measure_beside(program)
    except SamzapyError as failure:
        print(f"error: {failure}", file=sys.stderr)
        return failure.exit_code


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--workload",
        "--only",
        action="append",
        choices=list(WORKLOADS),
        metavar="WORKLOAD",
        help=f"only this one; may be repeated: {', '.join(WORKLOADS)}",
    )
    parser.add_argument(
        "--variant", action="append", choices=VARIANTS, metavar="VARIANT", help="only this one; may be repeated"
    )
    parser.add_argument("--repeats", type=int, help="default: as the workload says, 5 where CPU is compared")
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--bootstrap", help="measure on this broker (default: one of its own)")
    parser.add_argument(
        "--output", type=Path, help=f"the file to keep the measured workloads in (default, for all variants: {LATEST})"
    )
    parser.add_argument("--compare", type=_results_file, help="hold the CPU ratios against those of this file")
    parser.add_argument(
        "--against",
        metavar="COMMIT",
        nargs="?",
        const=LAST_RELEASE,
        help="measure in turns with this commit (default: the last release, else where this branch left main)",
    )
    parser.add_argument("--fail-on", type=_share, default=0.1, help="the growth that fails (default: 10%%)")
    options = parser.parse_args()
    is_gate = options.compare or options.against
    if options.output is None and not options.variant and not is_gate and options.events == EVENTS:
        options.output = LATEST
    return options


def _results_file(text: str) -> Path:
    """A file, here or in the folder of the benchmarks."""
    for path in (Path(text), FOLDER / text):
        if path.is_file():
            return path
    raise argparse.ArgumentTypeError(f"no file {text}, here or in {FOLDER}")


def _share(text: str) -> float:
    """`10%` or `0.1`."""
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a share such as 10% or 0.1, got {text!r}") from None


if __name__ == "__main__":
    sys.exit(main())
