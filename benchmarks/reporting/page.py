"""Writes the tables of docs/reference/benchmarks.md from the files of results, and copies the plot beside it:
python -m benchmarks.reporting.page

A table of the page stands between `<!-- table: NAME -->` and `<!-- end -->`. A test holds the page against the files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import median
from typing import NamedTuple

from benchmarks.operators import OPERATORS
from benchmarks.peers.catalog import PEERS
from benchmarks.peers.report import Row as PeerRow
from benchmarks.peers.report import rows as peer_rows
from benchmarks.reporting.results import FIRST_MESSAGE, LATEST, RESULTS, ROOT, Repeats, Results, Spread, figures, ratios
from benchmarks.workloads.base import BARE, LOCAL, SPARK
from benchmarks.workloads.operators import slug_of
from benchmarks.workloads.takeover import FULL, STANDBY
from samzapy.bench.measuring import Measurement

PAGE = ROOT / "docs" / "reference" / "benchmarks.md"
#: The plot of the page, and the one of the results.
PLOT, MEASURED_PLOT = ROOT / "docs" / "pictures" / "peers.svg", RESULTS / "peers.svg"

_TABLE = re.compile(r"(<!-- table: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_COMPILED = "not-compiled"

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
_PASS_THROUGH: Named = {
    LOCAL: "samzapy",
    "local.exactly-once": "the same, exactly-once",
    "local.typed": "samzapy, messages of a class",
    "local.batch": "samzapy, batch task",
    "local.batch.typed": "samzapy, batch task, messages of a class",
    SPARK: "samzapy on Spark `local[1]`",
}
_NOT_COMPILED: Named = {
    LOCAL: "",
    "local.typed": ", messages of a class",
    "local.batch.typed": ", batch task, messages of a class",
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
    """What the tables need of the results."""

    repeats: Repeats
    ratios: Mapping[str, Spread]

    def rate(self, workload: str, variant: str) -> str:
        """Thousands of messages a second of the wall clock."""
        return f"{self._median(workload, variant, 'messages_per_s') / 1e3:,.0f} k msg/s"

    def cpu(self, workload: str, variant: str) -> str:
        return f"{self._median(workload, variant, 'cpu_s_per_million'):.2f} CPU-s/M"

    def per_cpu(self, workload: str, variant: str) -> str:
        """Thousands of messages a CPU second; empty for a variant that is not there."""
        if variant not in self.repeats[workload]:
            return ""
        return f"{1e3 / self._median(workload, variant, 'cpu_s_per_million'):,.0f} k"

    def times(self, ratio: str, digits: int = 2) -> str:
        """A ratio with its least and its greatest; empty for one that is not there."""
        found = self.ratios.get(ratio)
        return "" if found is None else spread(found, digits)

    def _median(self, workload: str, variant: str, figure: str) -> float:
        return median(figures(self.repeats[workload][variant])[figure])


def spread(found: Spread, digits: int) -> str:
    """`1.02 x (0.98 to 1.10)`"""
    low, middle, high = (f"{value:.{digits}f}" for value in (found.min, found.median, found.max))
    return f"{middle} x ({low} to {high})"


def _ratio(workload: str, variant: str) -> str:
    """The name of a variant's ratio to the plain loop by hand."""
    return ".".join([workload, *variant.split(".")[variant.startswith(LOCAL) :], "cpu"])


def _head(*names: str) -> Lines:
    yield _row(*names)
    yield f"| --- |{' ---: |' * (len(names) - 1)}"


def _row(*cells: str) -> str:
    return f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in cells)}|"


def _beside_the_loop(workload: str, title: str, named: Named, found: Figures) -> Lines:
    yield from _head(title, "throughput", "CPU", "CPU, of the loop by hand")
    yield _row("the loop by hand", found.rate(workload, BARE), found.cpu(workload, BARE), "")
    for variant, name in named.items():
        ratio = found.times(_ratio(workload, variant))
        yield _row(name, found.rate(workload, variant), found.cpu(workload, variant), ratio)


def _not_compiled(found: Figures) -> Lines:
    yield from _head("", "throughput", "CPU", "CPU, of the same with it")
    for workload, title in (("keyed-count", "keyed count"), ("pass-through", "pass-through")):
        for compiled, name in _NOT_COMPILED.items():
            variant = f"{compiled}.{_COMPILED}"
            if variant in found.repeats[workload]:
                ratio = _ratio(workload, variant).replace(".cpu", f"/{compiled}.cpu")
                yield _row(
                    f"{title}{name}", found.rate(workload, variant), found.cpu(workload, variant), found.times(ratio)
                )


def _guarantees(found: Figures) -> Lines:
    yield from _head("guarantee", "commits every 1 s", "CPU, of at-least-once", "every 10 s", "CPU, of at-least-once")
    workload = "guarantees"
    for partitions in ("", ".200"):
        for guarantee, name in _GUARANTEES.items():
            cells = []
            for interval in ("1s", "10s"):
                variant = f"{guarantee}.{interval}{partitions}"
                if variant in found.repeats[workload]:
                    both = f"{found.rate(workload, variant)}, {found.cpu(workload, variant)}"
                    cells += [both, found.times(f"{workload}.{variant}.cpu")]
            if cells:
                yield _row(f"{name}{', 200 partitions' if partitions else ''}", *cells)


def _restores(found: Figures) -> Lines:
    yield from _head("workload", "by hand", "samzapy", "throughput", "CPU")
    names = {
        "restore": "restore of 1 M records (by hand: a consumer that only reads)",
        "restore-large": "restore of 5 M records over 1 M keys of 100 bytes, 556 MiB",
    }
    for workload, name in names.items():
        rates = (found.rate(workload, variant).replace("msg", "records") for variant in (BARE, LOCAL))
        yield _row(name, *rates, found.times(f"{workload}.throughput"), found.times(f"{workload}.cpu"))


def _first_messages(found: Figures) -> Lines:
    yield from _head("first message of a task", "after the start of its container")
    starts = {
        "stopped with a million keys in its files": found.repeats["restart"][LOCAL],
        "with nothing, five million records in its changelog": found.repeats["takeover"][FULL],
        "with a standby's copy of the same": found.repeats["takeover"][STANDBY],
    }
    for name, runs in starts.items():
        seconds = median(figures(runs)[FIRST_MESSAGE])
        yield _row(name, f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s")


_OPERATOR_HEAD = (
    "operator",
    "the loop by hand",
    "message by message",
    "CPU, of the loop by hand",
    "in batches",
    "CPU, of the loop by hand",
)


def _operator_rows(workload: str, named: Named, batches: str, found: Figures) -> Lines:
    yield from _head(*_OPERATOR_HEAD)
    for variant, name in named.items():
        cells = [found.per_cpu(workload, f"{BARE}.{variant}")]
        for each in (variant, f"{variant}{batches}"):
            cells += [found.per_cpu(workload, each), found.times(f"{workload}.{each}.cpu", 1)]
        yield _row(name, *cells)


def _operators(found: Figures) -> Lines:
    named = {slug_of(name): name for name in OPERATORS if not name.endswith(", batches")}
    return _operator_rows("operators", named, "-batches", found)


TABLES: Mapping[str, Callable[[Figures], Lines]] = {
    "keyed-count": partial(_beside_the_loop, "keyed-count", "keyed count", _KEYED_COUNT),
    "pass-through": partial(_beside_the_loop, "pass-through", "pass-through, one added field", _PASS_THROUGH),
    _COMPILED: _not_compiled,
    "guarantees": _guarantees,
    "restores": _restores,
    "first-messages": _first_messages,
    "operator-jobs": partial(_operator_rows, "operator-jobs", _OPERATOR_JOBS, ".batch"),
    "operators": _operators,
}


def peers_table(title: str, found: Sequence[PeerRow]) -> Lines:
    """A row for each stream processor."""
    yield from _head(title, "throughput", "CPU", "CPU, of samzapy", "memory")
    for row in found:
        times = "" if row.times is None else spread(row.times, 1)
        yield _row(
            row.peer.label,
            f"{row.rate.median:,.0f} k msg/s",
            f"{row.cpu.median:.2f} CPU-s/M",
            times,
            f"{row.memory_mib:.0f} MiB",
        )


_PEERS = {"keyed-count": "keyed count", "pass-through": "pass-through, one added field"}


def tables(repeats: Repeats, peers: Mapping[str, Mapping[str, Sequence[Measurement]]]) -> dict[str, str]:
    """The text of every table of the page, by name. `peers`: the repeats of each workload, by label."""
    found = Figures(repeats, ratios(repeats))
    made = {name: list(table(found)) for name, table in TABLES.items()}
    for workload, title in _PEERS.items():
        made[f"peers-{workload}"] = list(peers_table(title, peer_rows(PEERS, workload, peers[workload])))
    return {name: "\n".join(lines) for name, lines in made.items()}


def with_tables(page: str, made: Mapping[str, str]) -> str:
    """The page with its tables replaced. Raises KeyError for a table that there is not."""
    return _TABLE.sub(lambda found: f"{found[1]}\n{made[found[2]]}\n\n{found[3]}", page)


def of_files() -> dict[str, str]:
    """The tables of the kept results."""
    return tables(Results.read(LATEST).repeats, Results.read(RESULTS / "peers.json").repeats)


def main() -> None:
    """Rewrite the page and its plot."""
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), of_files()), encoding="utf-8")
    PLOT.write_bytes(MEASURED_PLOT.read_bytes())


if __name__ == "__main__":
    main()
