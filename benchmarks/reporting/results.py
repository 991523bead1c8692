"""All repeats of a run, what they come to, and the file they are kept in."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.kafka import PARTITIONS
from benchmarks.suite import WORKLOADS
from samzapy.bench.events import Events
from samzapy.bench.measuring import Measurement
from samzapy.bench.report import describe_machine, describe_versions

ROOT = Path(__file__).parents[2]
#: The folder of the results, and the file of `make bench`.
RESULTS = ROOT / "benchmarks" / "results"
LATEST = RESULTS / "latest.json"
#: A list of nothing but numbers, as it is indented.
_NUMBERS = re.compile(r"\[[\s\d.,e+-]*\]")
#: Repeats by workload and variant.
Repeats = Mapping[str, Mapping[str, Sequence[Measurement]]]
PERCENTILES = ("p50_ms", "p99_ms", "p99.9_ms")
#: Seconds from a container's start to the end of its first message, of the tasks that mark it.
FIRST_MESSAGE = "first_message_s"
#: Of a run with many tasks: seconds from before the job is prepared to the end of its first message, and what the
#: container's process has open meanwhile.
START = ("start_s", "threads", "descriptors")
_FIGURES: dict[str, Callable[[Measurement], float]] = {
    "messages_per_s": lambda measured: measured.messages_per_s,
    "cpu_s_per_million": lambda measured: measured.cpu_s_per_million,
    "peak_rss_bytes": lambda measured: measured.peak_rss["tree"],
}


@dataclass(frozen=True)
class Spread:
    """The least, the middle and the greatest of a figure's repeats."""

    min: float
    median: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(min(values), median(values), max(values))

    def rounded(self) -> Spread:
        """With three decimals."""
        return Spread(round(self.min, 3), round(self.median, 3), round(self.max, 3))


def figures(repeats: Sequence[Measurement]) -> dict[str, list[float]]:
    """Every figure of every repeat, by its name."""
    found = {name: [figure(measured) for measured in repeats] for name, figure in _FIGURES.items()}
    for name in (*PERCENTILES, "changelog_records_per_put", "commits", "commit_s", FIRST_MESSAGE, *START):
        if all(name in measured.more for measured in repeats):
            found[name] = [measured.more[name] for measured in repeats]
    return found


def summary(repeats: Sequence[Measurement]) -> dict[str, dict[str, float]]:
    """Minimum, median and maximum of every figure."""
    return {name: asdict(Spread.of(values)) for name, values in figures(repeats).items()}


def ratios(repeats: Repeats) -> dict[str, Spread]:
    """Each variant over those it is compared with, turn by turn: the n-th repeat of one over the n-th of the other.

    `<workload>[.<way>].throughput` and `.cpu` are over the plain loop by hand; a way is that of a variant without
    `local`. `<workload>[.<way>]/<other>.cpu` is over another variant: the loop by hand with the same means,
    at-least-once. Latencies are `.p50` and so on, first messages `.first_message`.
    """
    found: dict[str, Spread] = {}
    for workload, variants in repeats.items():
        for variant, runs in variants.items():
            for comparison in WORKLOADS[workload].comparisons(variant):
                if comparison.baseline in variants:
                    found |= _ratios(comparison.name, figures(runs), figures(variants[comparison.baseline]))
    return found


def _ratios(prefix: str, ours: Mapping[str, list[float]], theirs: Mapping[str, list[float]]) -> dict[str, Spread]:
    return {
        f"{prefix}.{name}": Spread.of([a / b for a, b in zip(ours[figure], theirs[figure], strict=False)]).rounded()
        for name, figure in _ratio_names(ours).items()
    }


def _ratio_names(ours: Mapping[str, object]) -> dict[str, str]:
    if FIRST_MESSAGE in ours:
        return {FIRST_MESSAGE.removesuffix("_s"): FIRST_MESSAGE}
    if PERCENTILES[0] in ours:
        return {name.removesuffix("_ms"): name for name in PERCENTILES} | {"cpu": "cpu_s_per_million"}
    return {"throughput": "messages_per_s", "cpu": "cpu_s_per_million"}


def circumstances(events: int) -> dict[str, Any]:
    """When, with which commit, on which machine and with which settings a workload is measured; to be asked before it
    is, as other load on the machine counts."""
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": _commit(),
        "machine": describe_machine(),
        "versions": describe_versions(),
        "settings": {**vars(Events(events)), "partitions": PARTITIONS, "commit_ms": 2_000},
    }


def _commit() -> str:
    """The commit, with `-dirty` for changes of tracked files; a benchmark changes the results itself."""
    commit = _git("describe", "--always", "--abbrev=12", "--exclude=*")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!benchmarks/results")
    return f"{commit}-dirty" if commit and changed else commit or "-"


def _git(*arguments: str) -> str:
    """What a command of git prints; empty if it fails."""
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


@dataclass(frozen=True)
class Results:
    """The repeats of each workload, and the circumstances of each."""

    repeats: Mapping[str, Mapping[str, Sequence[Measurement]]]
    measured: Mapping[str, Mapping[str, Any]]

    @classmethod
    def read(cls, path: Path) -> Results:
        """What a file holds; nothing if there is none. Workloads that are not measured any more are left out."""
        if not path.exists():
            return cls({}, {})
        content = json.loads(path.read_text(encoding="utf-8"))
        repeats = {
            workload: {
                variant: [Measurement.from_json(run) for run in kept["repeats"]] for variant, kept in variants.items()
            }
            for workload, variants in content["workloads"].items()
            if workload in WORKLOADS
        }
        return cls(repeats, {name: each for name, each in content.get("measured", {}).items() if name in repeats})

    def with_workload(
        self, name: str, repeats: Mapping[str, Sequence[Measurement]], measured: Mapping[str, Any]
    ) -> Results:
        """The same with a workload measured anew; all its variants are replaced, as only those of one run can be
        compared."""
        together, when = {**self.repeats, name: repeats}, {**self.measured, name: measured}
        return Results(
            {each: together[each] for each in WORKLOADS if each in together},
            {each: when[each] for each in WORKLOADS if each in when},
        )

    def write(self, path: Path, targets: Sequence[Mapping[str, Any]]) -> None:
        """Keep everything as JSON; `targets` say what was to be reached."""
        content: dict[str, Any] = {
            "ratios": {name: asdict(spread) for name, spread in ratios(self.repeats).items()},
            "targets": list(targets),
            "measured": self.measured,
            "workloads": {
                workload: {
                    variant: {"summary": summary(runs), "repeats": [run.to_json() for run in runs]}
                    for variant, runs in variants.items()
                }
                for workload, variants in self.repeats.items()
            },
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_json(content), encoding="utf-8")


def _json(content: Mapping[str, Any]) -> str:
    """Indented, with lists of numbers in one line each."""
    return _NUMBERS.sub(lambda found: " ".join(found[0].split()), json.dumps(content, indent=2)) + "\n"
