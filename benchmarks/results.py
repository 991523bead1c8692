"""All repeats of a run, what they come to, and the file they are kept in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.kafka import PARTITIONS
from benchmarks.suite import WORKLOADS
from samzapy.bench.events import Events
from samzapy.bench.measuring import Measurement, describe_versions

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


def figures(repeats: Sequence[Measurement]) -> dict[str, list[float]]:
    """Every figure of every repeat, by its name."""
    found = {name: [figure(measured) for measured in repeats] for name, figure in _FIGURES.items()}
    for name in (*PERCENTILES, "changelog_records_per_put", "commits", "commit_s", FIRST_MESSAGE, *START):
        if all(name in measured.more for measured in repeats):
            found[name] = [measured.more[name] for measured in repeats]
    return found


def summary(repeats: Sequence[Measurement]) -> dict[str, dict[str, float]]:
    """Minimum, median and maximum of every figure."""
    return {
        name: {"min": min(values), "median": median(values), "max": max(values)}
        for name, values in figures(repeats).items()
    }


def ratios(repeats: Repeats) -> dict[str, float]:
    """Each variant over its baseline, by medians. Of samzapy over the bare loop `<workload>.throughput` and `.cpu` are of
    the local runner, those of Spark have `.spark` in their names; latencies are `<workload>.p50` and so on. Of the
    guarantees over at-least-once they are `guarantees.<guarantee>.<interval>[.<partitions>].throughput` and `.cpu`, and
    `tasks.<guarantee>.<tasks>[.spark].throughput` and `.cpu`; of a standby's copy over a full restore `takeover.standby.first_message`."""
    found: dict[str, float] = {}
    for workload, variants in repeats.items():
        kind = WORKLOADS[workload]
        for variant, runs in variants.items():
            baseline = kind.baseline(variant)
            if baseline is None or baseline not in variants:
                continue
            ours, theirs = summary(runs), summary(variants[baseline])
            for name, figure in _ratio_names(ours).items():
                found[f"{kind.ratio_prefix(variant)}.{name}"] = round(
                    ours[figure]["median"] / theirs[figure]["median"], 3
                )
    return found


def _ratio_names(ours: Mapping[str, object]) -> dict[str, str]:
    if FIRST_MESSAGE in ours:
        return {FIRST_MESSAGE.removesuffix("_s"): FIRST_MESSAGE}
    if PERCENTILES[0] in ours:
        return {name.removesuffix("_ms"): name for name in PERCENTILES} | {"cpu": "cpu_s_per_million"}
    return {"throughput": "messages_per_s", "cpu": "cpu_s_per_million"}


def write(
    path: Path, repeats: Repeats, events: int, machine: Mapping[str, Any], targets: Sequence[Mapping[str, Any]]
) -> None:
    """Keep everything as JSON; `machine` describes it as it was before the run, `targets` say what was to be reached."""
    made = Events(events)
    content: dict[str, Any] = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": machine,
        "versions": describe_versions(),
        "settings": {**vars(made), "partitions": PARTITIONS, "commit_ms": 2_000, "object.cache.size": 1_000},
        "ratios": ratios(repeats),
        "targets": list(targets),
        "workloads": {
            workload: {
                variant: {"summary": summary(runs), "repeats": [run.to_json() for run in runs]}
                for variant, runs in variants.items()
            }
            for workload, variants in repeats.items()
        },
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_json(content), encoding="utf-8")


def _json(content: Mapping[str, Any]) -> str:
    """Indented, with lists of numbers in one line each."""
    return _NUMBERS.sub(lambda found: " ".join(found[0].split()), json.dumps(content, indent=2)) + "\n"
