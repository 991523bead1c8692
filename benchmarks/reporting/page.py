"""Writes the tables of docs/reference/benchmarks.md from the files of results:
python -m benchmarks.reporting.page

A table of the page stands between `<!-- table: NAME -->` and `<!-- end -->`. A test holds the page against the files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from benchmarks.latency.report import middle
from benchmarks.latency.running import Latency
from benchmarks.peers.catalog import PEERS, Peer
from benchmarks.peers.launchers import KEYED_COUNT, REPARTITIONED
from benchmarks.peers.report import Row as PeerRow
from benchmarks.peers.report import rows as peer_rows
from benchmarks.reporting.results import LATEST, RESULTS, ROOT, Spread, Summary, read
from benchmarks.workloads.base import BARE, LOCAL, SPARK
from samzapy.bench.measuring import Measurement

PAGE = ROOT / "docs" / "reference" / "benchmarks.md"
#: What `make bench-latency` keeps, and the cases of the page's table: guarantee, milliseconds between commits, rate.
LATENCY = RESULTS / "latency.json"
LATENCIES = (*(("at-least-once", 1_000, rate) for rate in (1_000, 10_000, 50_000)), ("exactly-once", 100, 10_000))

_TABLE = re.compile(r"(<!-- table: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

#: The lines of a table.
Lines = Iterator[str]
#: The variants of a table, with their names on the page.
Named = Mapping[str, str]

_KEYED_COUNT: Named = {
    LOCAL: "samzapy, no key about the cache",
    "local.exactly-once": "the same, exactly-once",
    "local.cache-1000": "samzapy, `object.cache.size=1000`",
    "local.typed": "samzapy, messages of a class",
    "local.batch": "samzapy, batch task",
    "local.batch.typed": "samzapy, batch task, messages of a class",
    "local.batch.keys": "samzapy, batch task, keys only",
    SPARK: "samzapy on Spark `local[1]`, no key about the cache",
}
_GUARANTEES: Named = {
    "at-least-once": "at-least-once",
    "exactly-once": "exactly-once",
    "effectively-once": "effectively-once (an id on each output)",
    "at-most-once": "at-most-once",
}
_OPERATOR_JOBS: Named = {
    "tumbling": "tumbling windows, 1 min",
    "sessions": "sessions, gap 2 s",
    "as-of": "as-of join",
    "stream-stream": "stream-stream join, 5 s",
    "timers": "timers, moved by each message",
    "heap": "heap of the 100 worst, 10 groups",
    "count-by-key": "persistent state, count by key",
}


class Figures(NamedTuple):
    """What the tables need of the results, by workload."""

    summaries: Mapping[str, Summary]

    def rate(self, workload: str, variant: str) -> str:
        """Thousands of messages a second of the wall clock."""
        return f"{self.median(workload, variant, 'messages_per_s') / 1e3:,.0f} k"

    def cpu(self, workload: str, variant: str) -> str:
        return f"{self.median(workload, variant, 'cpu_s_per_million'):.2f}"

    def per_cpu(self, workload: str, variant: str) -> str:
        """Thousands of messages per CPU second; empty for a variant that was not measured."""
        if variant not in self.summaries[workload].variants:
            return ""
        return f"{1e3 / self.median(workload, variant, 'cpu_s_per_million'):,.0f} k"

    def times(self, workload: str, ratio: str, digits: int = 2) -> str:
        """A ratio with its least and its greatest; empty for one that was not measured."""
        result = self.summaries[workload].ratios.get(ratio)
        return "" if result is None else spread(result, digits)

    def median(self, workload: str, variant: str, figure: str) -> float:
        return self.summaries[workload].variants[variant][figure].median


def spread(found: Spread, digits: int) -> str:
    """`1.02 (0.98-1.10)`"""
    low, middle, high = (f"{value:.{digits}f}" for value in (found.min, found.median, found.max))
    return f"{middle} ({low}-{high})"


def _ratio(workload: str, variant: str) -> str:
    """The name of a variant's ratio to the plain loop by hand."""
    return ".".join([workload, *variant.split(".")[variant.startswith(LOCAL) :], "cpu"])


def _head(*names: str) -> Lines:
    yield _row(*names)
    yield f"| --- |{' ---: |' * (len(names) - 1)}"


def _row(*cells: str) -> str:
    return f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in cells)}|"


def _keyed_count(found: Figures) -> Lines:
    workload = "keyed-count"
    yield from _head("keyed count", "msg/s", "CPU-s/M", "CPU, of the loop by hand")
    yield _row("the loop by hand", found.rate(workload, BARE), found.cpu(workload, BARE), "")
    for variant, name in _KEYED_COUNT.items():
        ratio = found.times(workload, _ratio(workload, variant))
        yield _row(name, found.rate(workload, variant), found.cpu(workload, variant), ratio)


def _guarantees(found: Figures) -> Lines:
    yield from _head(
        "msg/s, CPU-s/M", "commits every 1 s", "CPU, of at-least-once", "every 10 s", "CPU, of at-least-once"
    )
    workload = "guarantees"
    for partitions in ("", ".200"):
        for guarantee, name in _GUARANTEES.items():
            cells = []
            for interval in ("1s", "10s"):
                variant = f"{guarantee}.{interval}{partitions}"
                if variant in found.summaries[workload].variants:
                    both = f"{found.rate(workload, variant)}, {found.cpu(workload, variant)}"
                    cells += [both, found.times(workload, f"{workload}.{variant}.cpu")]
            if cells:
                yield _row(f"{name}{', 200 partitions' if partitions else ''}", *cells)


def _restores(found: Figures) -> Lines:
    yield from _head("records/s", "by hand", "samzapy", "throughput ratio", "CPU ratio")
    names = {
        "restore": "restore of 1 M records (by hand: a consumer that only reads)",
        "restore-large": "restore of 5 M records over 1 M keys of 100 bytes, 556 MiB",
    }
    for workload, name in names.items():
        rates = (found.rate(workload, variant) for variant in (BARE, LOCAL))
        yield _row(
            name, *rates, found.times(workload, f"{workload}.throughput"), found.times(workload, f"{workload}.cpu")
        )


def _operator_jobs(found: Figures) -> Lines:
    workload, beside = "operator-jobs", "CPU, of the loop by hand"
    yield from _head("operator", "the loop by hand", "message by message", beside, "in batches", beside)
    for variant, name in _OPERATOR_JOBS.items():
        cells = [found.per_cpu(workload, f"{BARE}.{variant}")]
        for way in (variant, f"{variant}.batch"):
            cells += [found.per_cpu(workload, way), found.times(workload, f"{workload}.{way}.cpu", 1)]
        yield _row(name, *cells)


TABLES: Mapping[str, Callable[[Figures], Lines]] = {
    "keyed-count": _keyed_count,
    "guarantees": _guarantees,
    "restores": _restores,
    "operator-jobs": _operator_jobs,
}


def peers_table(title: str, found: Sequence[PeerRow]) -> Lines:
    """A row for each stream processor."""
    yield from _head(title, "msg/s", "CPU-s/M", "CPU, of samzapy", "MiB")
    for row in found:
        times = "" if row.times is None else spread(row.times, 1)
        yield _row(
            row.peer.label, f"{row.rate.median:,.0f} k", f"{row.cpu.median:.2f}", times, f"{row.memory_mib:,.0f}"
        )


def latency_table(found: Sequence[Latency]) -> Lines:
    """A row for each stream processor: p50 and p99 of some cases."""
    runs: dict[tuple[str, str, int, int], list[Latency]] = {}
    for item in found:
        runs.setdefault((item.name, item.guarantee, item.commit_ms, item.rate), []).append(item)
    heads = (f"{guarantee}, {rate // 1000} k/s" for guarantee, _, rate in LATENCIES)
    yield from _head("ms at p50/p99", *heads)
    for name in dict.fromkeys(item.name for item in found):
        yield _row(name, *(_percentiles(runs.get((name, *case), ())) for case in LATENCIES))


def _percentiles(runs: Sequence[Latency]) -> str:
    values = [middle(runs, figure) for figure in ("p50_ms", "p99_ms")] if runs else []
    return "/".join(f"{value:,.0f}" if value >= 10 else f"{value:.1f}" for value in values)


def of_files() -> dict[str, str]:
    """The text of every table of the page, by name, from the kept results."""
    result = Figures(read(LATEST))
    texts = {name: list(table(result)) for name, table in TABLES.items()}
    for workload in (KEYED_COUNT, REPARTITIONED):
        runs = _peer_runs(workload)
        rows = peer_rows(_as_measured(runs), workload, runs)
        texts[f"peers-{workload}"] = list(peers_table(workload.replace("-", " "), rows))
    if LATENCY.exists():
        kept = json.loads(LATENCY.read_text(encoding="utf-8"))["runs"]
        texts["latency"] = list(latency_table([Latency(**run) for run in kept]))
    return {name: "\n".join(lines) for name, lines in texts.items()}


def _peer_runs(workload: str) -> dict[str, list[Measurement]]:
    """The repeats of each stream processor, by label."""
    kept = json.loads((RESULTS / "peers.json").read_text(encoding="utf-8"))["workloads"][workload]
    return {label: [Measurement.from_json(run) for run in peer["repeats"]] for label, peer in kept.items()}


def _as_measured(labels: Iterable[str]) -> list[Peer]:
    """The peers with these labels, in the versions that they were measured in."""
    return [
        replace(peer, version=label.removeprefix(peer.name).strip())
        for peer in PEERS
        for label in labels
        if re.fullmatch(rf"{re.escape(peer.name)}( [\d.]+)?", label)
    ]


def with_tables(page: str, made: Mapping[str, str]) -> str:
    """The page with its tables replaced. Raises KeyError for a table that there is not."""
    return _TABLE.sub(lambda found: f"{found[1]}\n{made[found[2]]}\n\n{found[3]}", page)


def main() -> None:
    """Rewrite the page."""
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), of_files()), encoding="utf-8")


if __name__ == "__main__":
    main()
