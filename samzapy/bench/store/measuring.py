"""Opens the target of each case, warms it up, and repeats the cases of a test in turns."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path

import psutil

from samzapy.api.engine import EngineSettings
from samzapy.bench.store.material import Material, Parameters
from samzapy.bench.store.plan import Case, Plan
from samzapy.bench.store.results import CaseResult, Figures
from samzapy.bench.store.scenario import Stopwatch
from samzapy.bench.store.scenarios import SCENARIOS
from samzapy.bench.store.targets import Counts, DictStore, RawTarget, StoreTarget, Target, WriteThroughStore
from samzapy.config.job import JobConfig
from samzapy.config.loader import load_job
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.serializers.registry import serde_registry
from samzapy.storage.rocksdb.options import RocksDbOptions
from samzapy.storage.spec import store_specs

_LOCAL = "systems.local.samza.factory"
_BYTES = "bytes"


@dataclass(frozen=True)
class Opener:
    """`job`: the `systems.*` and `serializers.*` of the plan; everything on disk is below `folder`."""

    job: Mapping[str, str]
    folder: Path
    seed: int

    def open(self, case: Case) -> tuple[Target, Material]:
        """The empty target, and the material for it. Raises ConfigError."""
        config = self._config(case)
        store = config.stores[case.store]
        folder = self.folder / case.name.replace("/", "--")
        if case.target == "store":
            material = Material(store.key_serde, store.msg_serde, self.seed)
            settings = None if store.changelog is None else config.systems[store.changelog.system]
            return StoreTarget.of(config, case.store, folder, settings, case.tasks_in_container), material
        store_specs(config)
        if "rocksdb" not in store.factory:
            raise ConfigError(
                [ConfigProblem(f"{case.prefix}target", case.target, "needs a store with factory rocksdb")]
            )
        settled = EngineSettings(case.store, store.properties, case.tasks_in_container)
        options, _ = RocksDbOptions.read(settled)
        if case.target == "raw":
            return RawTarget(folder, options), Material(_BYTES, _BYTES, self.seed)
        serdes = serde_registry(config)
        kind = DictStore if case.target == "dict" else WriteThroughStore
        over = partial(kind, key_serde=serdes[store.key_serde], msg_serde=serdes[store.msg_serde])
        return RawTarget(folder, options, over), Material(store.key_serde, store.msg_serde, self.seed)

    def _config(self, case: Case) -> JobConfig:
        """A job with this store only."""
        defaults = {"factory": "rocksdb", "key.serde": _BYTES, "msg.serde": _BYTES}
        keys = {leaf: value for leaf, value in {**defaults, **case.store_keys}.items() if value}
        job = {
            "job.name": "bench-store",
            "task.class": "samzapy.bench.tasks:KeyedCountTask",
            "task.inputs": "local.none",
            _LOCAL: "local",
            **self.job,
            **{f"stores.{case.store}.{leaf}": value for leaf, value in keys.items()},
        }
        if job[_LOCAL] == "local":
            job.setdefault("systems.local.path", str(self.folder / "local.db"))
        return load_job(job)


#: Called with the name of a case, the number of the next repeat (0: preparing and warming up), and the number of
#: repeats.
Progress = Callable[[str, int, int], None]


def run_plan(plan: Plan, *, scale: float = 1.0, on_progress: Progress | None = None) -> list[CaseResult]:
    """Measure every case; `scale` multiplies the counts. The sets of one test take turns, so that whatever else the
    machine does falls on all of them alike. Raises ConfigError before anything of the test has run."""
    results: list[CaseResult] = []
    progress = on_progress or _silent
    with tempfile.TemporaryDirectory(prefix="samzapy-bench-") as folder:
        opener = Opener(plan.job, Path(folder), plan.seed)
        for _, cases in groupby(plan.cases, key=lambda case: case.test):
            results += _run_test(list(cases), plan, opener, scale, progress)
    return results


def _silent(name: str, repeat: int, repeats: int) -> None:
    """Report no progress."""


def _run_test(cases: Sequence[Case], plan: Plan, opener: Opener, scale: float, progress: Progress) -> list[CaseResult]:
    with ExitStack() as opened:
        runs = []
        for case in cases:
            run = CaseRun(case, opener, scale)
            opened.callback(run.close)
            runs.append(run)
        for run in runs:
            progress(run.case.name, 0, plan.repeats)
            run.prepare()
            for _ in range(plan.warmup):
                run.repeat()
            run.measured.clear()
        for number in range(1, plan.repeats + 1):
            for run in runs:
                progress(run.case.name, number, plan.repeats)
                run.repeat()
        return [result for run in runs for result in run.results()]


class CaseRun:
    """One case, open. `measured` are the figures so far, by part."""

    def __init__(self, case: Case, opener: Opener, scale: float) -> None:
        self.case = case
        self.measured: dict[str, list[Figures]] = {}
        self._parameters = Parameters(case.prefix, case.parameters, scale)
        self._target, material = opener.open(case)
        try:
            self._scenario = SCENARIOS[case.scenario](material, self._parameters)
            self._parameters.check()
        except BaseException:
            self._target.close()
            raise

    def prepare(self) -> None:
        """Fill the target, if the scenario needs that."""
        self._scenario.prepare(self._target)

    def repeat(self) -> None:
        """Run the scenario once and note its figures."""
        if self._scenario.fresh:
            self._target.empty()
        gc.collect()
        watches: dict[str, Stopwatch] = {}
        before = self._target.counts()
        self._scenario.run(self._target, lambda part: watches.setdefault(part, Stopwatch()))
        counts = self._target.counts() - before
        for part, watch in watches.items():
            self.measured.setdefault(part, []).append(_figures(watch, counts))

    def results(self) -> list[CaseResult]:
        """One for each part of the scenario."""
        case = self.case
        return [
            CaseResult(
                name=f"{case.name}/{part}" if part else case.name,
                test=case.test,
                scenario=case.scenario,
                target=case.target,
                store_keys=dict(case.store_keys),
                parameters=dict(self._parameters.values),
                repeats=figures,
            )
            for part, figures in self.measured.items()
        ]

    def close(self) -> None:
        """Release the target."""
        self._target.close()


def _figures(watch: Stopwatch, counts: Counts) -> Figures:
    done, seconds = watch.operations, watch.seconds
    p50, p99, p999 = (watch.percentile_us(share) for share in (0.5, 0.99, 0.999))
    return Figures(
        operations=done,
        seconds=seconds,
        ops_per_s=done / seconds if seconds else 0.0,
        cpu_us_per_op=watch.cpu_s / done * 1e6 if done else 0.0,
        p50_us=p50,
        p99_us=p99,
        p999_us=p999,
        rss_bytes=psutil.Process().memory_info().rss,
        bytes_written=watch.bytes_written,
        hit_rate=counts.hits / counts.gets if counts.gets > 0 else None,
        changelog_per_change=counts.changelog_records / counts.changes
        if counts.changes > 0 and counts.changelog_records > 0
        else None,
    )
