"""What the repeats of a run come to, and the file it is kept in."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
    result = {name: [figure(measured) for measured in repeats] for name, figure in _FIGURES.items()}
    for name in ("changelog_records_per_put", "commits", FIRST_MESSAGE, *START):
        if all(name in measured.more for measured in repeats):
            result[name] = [measured.more[name] for measured in repeats]
    return result


def summary(repeats: Sequence[Measurement]) -> dict[str, Spread]:
    """Minimum, median and maximum of every figure."""
    return {name: Spread.of(values).rounded() for name, values in figures(repeats).items()}


def ratios(repeats: Repeats) -> dict[str, Spread]:
    """Each variant over those it is compared with, turn by turn: the n-th repeat of one over the n-th of the other.

    `<workload>[.<way>].throughput` and `.cpu` are over the plain loop by hand; a way is that of a variant without
    `local`. `<workload>[.<way>]/<other>.cpu` is over another variant: the loop by hand with the same means,
    at-least-once. First messages are `.first_message`.
    """
    result: dict[str, Spread] = {}
    for workload, variants in repeats.items():
        for variant, runs in variants.items():
            for comparison in WORKLOADS[workload].comparisons(variant):
                if comparison.baseline in variants:
                    result |= _ratios(comparison.name, figures(runs), figures(variants[comparison.baseline]))
    return result


def _ratios(prefix: str, ours: Mapping[str, list[float]], theirs: Mapping[str, list[float]]) -> dict[str, Spread]:
    return {
        f"{prefix}.{name}": Spread.of([a / b for a, b in zip(ours[figure], theirs[figure], strict=False)]).rounded()
        for name, figure in _ratio_names(ours).items()
    }


def _ratio_names(ours: Mapping[str, object]) -> dict[str, str]:
    if FIRST_MESSAGE in ours:
        return {FIRST_MESSAGE.removesuffix("_s"): FIRST_MESSAGE}
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
class Summary:
    """One measured workload: the figures of each variant, their ratios, the targets and the circumstances."""

    variants: Mapping[str, Mapping[str, Spread]]
    ratios: Mapping[str, Spread]
    targets: Sequence[Mapping[str, Any]]
    measured: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        workload: str,
        variants: Mapping[str, Sequence[Measurement]],
        targets: Sequence[Mapping[str, Any]],
        measured: Mapping[str, Any],
    ) -> Summary:
        """The summary of all repeats of a workload."""
        return cls(
            {variant: summary(runs) for variant, runs in variants.items()},
            ratios({workload: variants}),
            targets,
            measured,
        )


def read(path: Path) -> dict[str, Summary]:
    """The summaries in a file by workload; none without a file, and none of workloads that are gone."""
    if not path.exists():
        return {}
    content = json.loads(path.read_text(encoding="utf-8"))
    return {
        workload: Summary(
            {variant: _spreads(kept) for variant, kept in content[workload]["variants"].items()},
            _spreads(content[workload]["ratios"]),
            content[workload]["targets"],
            content[workload]["measured"],
        )
        for workload in WORKLOADS
        if workload in content
    }


def write(path: Path, summaries: Mapping[str, Summary]) -> None:
    """Write the summaries as JSON, in the order of the workloads; a spread is [minimum, median, maximum]."""
    ordered = {workload: summaries[workload] for workload in WORKLOADS if workload in summaries}
    text = json.dumps(
        ordered,
        default=lambda value: list(vars(value).values()) if isinstance(value, Spread) else vars(value),
        indent=1,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_NUMBERS.sub(lambda match: " ".join(match[0].split()), text) + "\n", encoding="utf-8")


def _spreads(kept: Mapping[str, Sequence[float]]) -> dict[str, Spread]:
    return {name: Spread(*values) for name, values in kept.items()}
