"""Opens the target of each case of a plan, warms it up, and repeats the cases of a test in turns."""

from __future__ import annotations

import gc
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from samzapy.api.engine import EngineSettings
from samzapy.bench.plan import Case, Plan
from samzapy.bench.scenarios import SCENARIOS, Material, Parameters, Stopwatch
from samzapy.bench.targets import RawTarget, StoreTarget, Target
from samzapy.config.job import JobConfig
from samzapy.config.loader import load_job
from samzapy.errors import ConfigError
from samzapy.storage.rocksdb.options import RocksDbOptions
from samzapy.storage.spec import store_specs

_LOCAL = "systems.local.samza.factory"
_BYTES = "bytes"


@dataclass(frozen=True, kw_only=True)
class Figures:
    """One repeat. Latencies in microseconds, None without any; `rss_mib` is the process's at its end, with all that
    the test has open; `hit_rate` of gets, `changelog_per_change` in records, None where there is nothing to count."""

    operations: int
    seconds: float
    ops_per_s: float
    cpu_us_per_op: float
    p50_us: float | None
    p99_us: float | None
    p999_us: float | None
    rss_mib: float
    hit_rate: float | None
    changelog_per_change: float | None


@dataclass(frozen=True)
class CaseResult:
    """A case over all repeats, with its parameters, defaults included."""

    case: Case
    parameters: Mapping[str, int | float]
    repeats: Sequence[Figures]

    def median(self, figure: str) -> float | None:
        """The median over the repeats, None if there is none."""
        known = [value for run in self.repeats if (value := getattr(run, figure)) is not None]
        return median(known) if known else None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, the median rate first."""
        case = {name: getattr(self.case, name) for name in ("test", "scenario", "target", "store_keys")}
        own = {"parameters": self.parameters, "repeats": [asdict(run) for run in self.repeats]}
        return {"name": self.case.name, "median_ops_per_s": self.median("ops_per_s"), **case, **own}


#: Called with the name of a case, the number of the next repeat (0: preparing and warming up), and the number of
#: repeats.
Progress = Callable[[str, int, int], None]


def run_plan(
    plan: Plan, *, scale: float = 1.0, on_progress: Progress = lambda _name, _repeat, _repeats: None
) -> list[CaseResult]:
    """Measure every case; `scale` multiplies the counts. The sets of one test take turns, so that whatever else the
    machine does falls on all of them alike. Raises ConfigError before anything of the test has run."""
    results: list[CaseResult] = []
    with tempfile.TemporaryDirectory(prefix="samzapy-bench-") as folder:
        for _, cases in groupby(plan.cases, key=lambda case: case.test):
            results += _run_test([*cases], plan, Path(folder), scale, on_progress)
    return results


def _run_test(cases: Sequence[Case], plan: Plan, folder: Path, scale: float, progress: Progress) -> list[CaseResult]:
    with ExitStack() as opened:
        runs = []
        for case in cases:
            runs.append(CaseRun(case, plan, folder, scale))
            opened.callback(runs[-1].target.close)
        for run in runs:
            progress(run.case.name, 0, plan.repeats)
            run.scenario.prepare(run.target)
            for _ in range(plan.warmup):
                run.repeat()
            run.repeats.clear()
        for number in range(1, plan.repeats + 1):
            for run in runs:
                progress(run.case.name, number, plan.repeats)
                run.repeat()
        return [run.result() for run in runs]


class CaseRun:
    """One case, open: its target is empty at first. Everything on disk is below `folder`."""

    def __init__(self, case: Case, plan: Plan, folder: Path, scale: float) -> None:
        """Raises ConfigError."""
        self.case = case
        self.repeats: list[Figures] = []
        self._parameters = Parameters(case.prefix, case.parameters, scale)
        config = _job(case, plan, folder)
        store = config.stores[case.store]
        serdes = (_BYTES, _BYTES) if case.target == "raw" else (store.key_serde, store.msg_serde)
        self.scenario = SCENARIOS[case.scenario](Material(*serdes, plan.seed), self._parameters)
        self._parameters.check()
        self.target = _target(case, config, folder / case.name.replace("/", "--"))

    def repeat(self) -> None:
        """Run the scenario once and note its figures."""
        if self.scenario.fresh:
            self.target.empty()
        gc.collect()
        watch, before = Stopwatch(), self.target.counts()
        self.scenario.run(self.target, watch)
        self.repeats.append(_figures(watch, self.target.counts() - before))

    def result(self) -> CaseResult:
        """The case over all repeats."""
        return CaseResult(self.case, self._parameters.values, self.repeats)


def _job(case: Case, plan: Plan, folder: Path) -> JobConfig:
    """A job with this store only."""
    defaults = {"factory": "rocksdb", "key.serde": _BYTES, "msg.serde": _BYTES}
    keys = {leaf: value for leaf, value in {**defaults, **case.store_keys}.items() if value}
    job = {
        "job.name": "bench-store",
        "task.class": "samzapy.bench.tasks:KeyedCountTask",
        "task.inputs": "local.none",
        _LOCAL: "local",
        **plan.job,
        **{f"stores.{case.store}.{leaf}": value for leaf, value in keys.items()},
    }
    if job[_LOCAL] == "local":
        job.setdefault("systems.local.path", str(folder / "local.db"))
    return load_job(job)


def _target(case: Case, config: JobConfig, folder: Path) -> Target:
    store = config.stores[case.store]
    if case.target == "store":
        return StoreTarget(config, case.store, folder)
    store_specs(config)
    if "rocksdb" not in store.factory:
        raise ConfigError.of(f"{case.prefix}target", case.target, "needs a store with factory rocksdb")
    options, _ = RocksDbOptions.read(EngineSettings(case.store, store.properties))
    return RawTarget(folder, options)


def _figures(watch: Stopwatch, counts: Counter[str]) -> Figures:
    operations, seconds = watch.operations, watch.seconds
    p50, p99, p999 = (watch.percentile_us(share) for share in (0.5, 0.99, 0.999))
    return Figures(
        operations=operations,
        seconds=seconds,
        ops_per_s=operations / seconds if seconds else 0.0,
        cpu_us_per_op=watch.cpu_s / operations * 1e6 if operations else 0.0,
        p50_us=p50,
        p99_us=p99,
        p999_us=p999,
        rss_mib=psutil.Process().memory_info().rss / 2**20,
        hit_rate=counts["hits"] / counts["gets"] if counts["gets"] else None,
        changelog_per_change=records / counts["changes"] if (records := counts["changelog_records"]) else None,
    )
