"""Runs one scenario: a separate job, events, faults of one kind (or of all), and the verdict by the promise table.

================ ======= ============================= =====================================
guarantee        loss    repeated outputs              state
================ ======= ============================= =====================================
at-most-once     some    none                          some deposits, each at most once
at-least-once    none    some                          equals the fold of the inputs
effectively-once none    under the same id only        equals the fold of the inputs
exactly-once     none    none                          equals the fold of the inputs
================ ======= ============================= =====================================

1. Where no transaction carries the state, at-least-once may hold more than the inputs make, and no less.
2. Where a run that has lost its tasks may come back from a stop, its last outputs in at-most-once may be late: behind
   its successor's outputs, which do not repeat them. In the other guarantees they are repetitions, or they are aborted.
3. Everything else is a violation under every guarantee: another order within a key, another key or partition, a local
   store that differs from its changelog, a committed output that vanishes, an input that is not committed in the end.

Faults are signals to processes below the scenario's driver and to its own broker, and records of another writer.
"""

from __future__ import annotations

import secrets
import shlex
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.loader import load_job
from samzapy.config.task import Guarantee
from samzapy.errors import StoreError
from samzapy.verify import checkers
from samzapy.verify.checkers import Finding, state
from samzapy.verify.evidence import Evidence, fold
from samzapy.verify.processes import NoProgress
from samzapy.verify.scene import Scene
from samzapy.verify.streams import Streams, collect, streams_of
from samzapy.verify.target import (
    FILE,
    LEASE_S,
    MIXED,
    Fault,
    Kind,
    Target,
    changelog,
    job_properties,
    schedule,
    write_job,
)
from samzapy.verify.traffic import Feeder, ForeignWriter, Pace, Watcher, mean_burst
from samzapy.verify.workload import events

ALLOWED = {
    Guarantee.AT_MOST_ONCE: {"loss"},
    Guarantee.AT_LEAST_ONCE: {"duplicates"},
    Guarantee.EFFECTIVELY_ONCE: {"duplicates"},
    Guarantee.EXACTLY_ONCE: set[str](),
}
#: The scenarios that stop a process for longer than its lease, and let it go on.
_WITH_STOPS = {Kind.ZOMBIE.value, Kind.OVERLAP.value, MIXED}
_COUNTED_APART = {"loss", "duplicates", "order"}


@dataclass(frozen=True)
class Verdict:
    """The findings with a count above 0, and the violations of the guarantee among them. `may_be_late`: as for
    `judge`."""

    guarantee: Guarantee
    findings: tuple[Finding, ...]
    may_be_late: bool = False

    @property
    def violations(self) -> tuple[Finding, ...]:
        """The findings that the guarantee does not allow."""
        allowed = ALLOWED[self.guarantee]
        if self.may_be_late and self.guarantee is Guarantee.AT_MOST_ONCE:
            allowed = {*allowed, "order"}
        return tuple(finding for finding in self.findings if finding.check not in allowed)

    def count(self, check: str) -> int:
        """The number of findings of a check."""
        return sum(finding.count for finding in self.findings if finding.check == check)

    @property
    def mismatches(self) -> int:
        """The count of all other findings than losses, repetitions and changes of order."""
        return sum(finding.count for finding in self.findings if finding.check not in _COUNTED_APART)


def judge(
    evidence: Evidence, guarantee: Guarantee, written: int, *, transactions: bool = True, may_be_late: bool = False
) -> Verdict:
    """Run every check over the evidence of a run with `written` events. `transactions`: whether they
    carry the job's state. `may_be_late`: whether a run that had lost its tasks may have come back from a stop."""
    oracle = fold(evidence.inputs)
    echoes = checkers.echoes_of(evidence.outputs)
    findings = [
        checkers.inputs(evidence, written),
        checkers.loss(oracle, echoes),
        checkers.duplicates(echoes),
        checkers.order(echoes),
        checkers.echo_keys(oracle, echoes),
        checkers.running_sums(oracle, echoes, guarantee, transactions=transactions),
        checkers.partitions(evidence),
        checkers.vanished(evidence),
        checkers.stores(evidence),
        state(evidence, oracle, echoes, guarantee, transactions=transactions),
        checkers.lag(evidence),
    ]
    if guarantee is Guarantee.EFFECTIVELY_ONCE:
        findings.append(checkers.output_ids(evidence, oracle, echoes))
    return Verdict(guarantee, tuple(finding for finding in findings if finding.count), may_be_late)


#: During an upgrade each step writes this part of the events that its stretch has left, so that some come however long
#: it takes.
_STEP = 1 / 1_000
#: Seconds past the lease for which a zombie stays stopped at most: by then a successor may have started.
_PAST_LEASE_S = 3.0


def strike(fault: Fault, scene: Scene, target: Target, writer: ForeignWriter) -> None:
    """Make the fault happen; the job may recover when this returns. Raises NoProgress without a victim."""
    broker = target.broker
    if fault.kind is Kind.DRIVER:
        scene.kill_driver()
    elif fault.kind is Kind.UPGRADE:
        scene.upgrade(lambda: scene.feeder.allow(_next_step(scene.feeder.acknowledged, fault.until)))
    elif fault.kind is Kind.OVERLAP:
        scene.overlap(stopped=target.may_stop_runs and fault.choice % 2 == 0)
    elif fault.kind is Kind.FOREIGN_WRITER:
        writer.write(fault.choice)
        scene.refuse("holds a record of another writer")
        writer.correct()
        scene.go_on("store", "adopt", FILE)
    elif fault.kind is Kind.ZOMBIE:
        _pause(_victim(fault, scene), scene)
    elif fault.kind in {Kind.WORKER, Kind.EXECUTOR}:
        with suppress(psutil.NoSuchProcess):
            _victim(fault, scene).kill()
    elif broker is not None:
        if fault.kind is Kind.BROKER_KILL:
            broker.kill()
            broker.start()
        else:
            broker.restart()


def _next_step(written: int, until: int) -> int:
    """The number of events after the next step of an upgrade, at most `until`."""
    return min(until, written + 1 + int((until - written) * _STEP))


def _victim(fault: Fault, scene: Scene) -> psutil.Process:
    """A process of the kind; waits until one runs."""
    candidates: list[psutil.Process] = []

    def check() -> bool:
        scene.status()
        candidates[:] = scene.run.executors() if fault.kind is Kind.EXECUTOR else scene.run.workers()
        return bool(candidates)

    scene.until(check, f"a process to hit with {fault}")
    return sorted(candidates, key=lambda process: process.pid)[fault.choice % len(candidates)]


def _pause(worker: psutil.Process, scene: Scene) -> None:
    """SIGSTOP to the worker until another attempt has replaced it, or for longer than its lease; then SIGCONT."""
    before = scene.epochs()
    with suppress(psutil.NoSuchProcess):
        worker.suspend()
        try:
            # A successor is not required: the lease alone ends the worker's attempt.
            with suppress(NoProgress):
                scene.until(lambda: scene.epochs() - before, "another attempt", LEASE_S + _PAST_LEASE_S)
        finally:
            worker.resume()


#: Events after a fault that must be processed before the job counts as recovered.
_PROOF_OF_LIFE = 200


@dataclass(frozen=True)
class Plan:
    """A scenario to run: the number of events and faults; `seed` and the scenario's name decide everything else."""

    scenario: str
    guarantee: Guarantee
    events: int
    faults: int
    seed: int

    def __str__(self) -> str:
        return f"{self.guarantee.value} {self.scenario}"

    @property
    def own_seed(self) -> str:
        """A different seed for each scenario of a command."""
        return f"{self.seed}/{self.scenario}"

    @property
    def options(self) -> list[str]:
        """The command line's options for this scenario alone."""
        named = {"guarantee": self.guarantee.value, "scenario": self.scenario, "events": self.events}
        given = {**named, "kills": self.faults, "seed": self.seed}
        return [part for name, value in given.items() for part in (f"--{name}", str(value))]


@dataclass(frozen=True)
class Row:
    """The end of a scenario. `recoveries_s`: the seconds after each fault that was waited for. `gave_up`: why the job
    ended by itself.

    The streams of a `job` that broke its promise are kept; their names begin with the job's.
    """

    plan: Plan
    verdict: Verdict
    struck: tuple[Fault, ...]
    recoveries_s: tuple[float, ...]
    seconds: float
    job: str = ""
    gave_up: tuple[str, ...] = ()

    @property
    def kept(self) -> bool:
        """Whether the promise was kept."""
        return not self.verdict.violations

    @property
    def word(self) -> str:
        """The verdict in a word. `refused`: the job refused each record of another writer, and kept its promise."""
        if not self.kept:
            return "BROKEN"
        return "refused" if self.plan.scenario == Kind.FOREIGN_WRITER.value else "kept"

    def to_json(self) -> dict[str, Any]:
        """All fields as plain values."""
        count = self.verdict.count
        return {
            "scenario": self.plan.scenario,
            "guarantee": self.plan.guarantee.value,
            "job": self.job,
            "seed": self.plan.seed,
            "command": shlex.join(["samzapy", "verify", *self.plan.options]),
            "events": self.plan.events,
            "faults": len(self.struck),
            "schedule": [str(fault) for fault in self.struck],
            "lost": count("loss"),
            "duplicated": count("duplicates"),
            "reordered": count("order"),
            "mismatches": self.verdict.mismatches,
            "recovery_s": [round(seconds, 2) for seconds in self.recoveries_s],
            "seconds": round(self.seconds, 1),
            "gave_up": list(self.gave_up),
            "violations": [str(finding) for finding in self.verdict.violations],
            "kept": self.kept,
        }


class Listener:
    """Follows a scenario; its methods are called from several threads."""

    def written(self, plan: Plan, events: int) -> None:
        """The log holds this number of events now."""

    def happened(self, plan: Plan, line: str) -> None:
        """A line about the scenario, for people."""


class Scenario:
    """Runs one plan on a target, in a separate folder."""

    def __init__(
        self,
        plan: Plan,
        target: Target,
        folder: Path,
        listener: Listener,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._plan = plan
        self._target = target
        self._folder = folder
        self._listener = listener
        self._struck: list[Fault] = []
        self._clock = clock
        self._name = f"verify-{plan.scenario}-{secrets.token_hex(4)}"
        self._recoveries_s: list[float] = []
        self._findings: list[Finding] = []

    def run(self) -> Row:
        """Run it from the first event to the verdict. Raises JobRefused, ConfigError, EnvironmentFailure."""
        started = self._clock.monotonic()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flat = job_properties(self._target, self._plan.guarantee, self._name, self._folder)
        job_file = write_job(flat, self._folder)
        with ExitStack() as stack:
            streams = Streams(load_job(flat).systems[self._target.system], self._clock)
            stack.callback(streams.close)
            for stream in ("in", "out"):
                streams.create(f"{self._name}-{stream}", self._target.partitions)
            watcher = Watcher(streams, f"{self._name}-out")
            stack.callback(watcher.close)
            feeder = self._feeder(streams)
            stack.callback(feeder.close)
            containers, patience_s = self._target.containers, self._target.patience_s
            scene = Scene(self._folder, job_file, feeder, self._clock, containers, patience_s)
            stack.callback(scene.close)
            self._through_faults(scene, ForeignWriter(streams, changelog(self._name, "sum")))
            scene.close()
            verdict = self._judge(streams, watcher, scene.state)
            if not verdict.violations:
                streams.delete(streams_of(self._name))
            gave_up = tuple(scene.gave_up)
        seconds = self._clock.monotonic() - started
        return Row(self._plan, verdict, tuple(self._struck), tuple(self._recoveries_s), seconds, self._name, gave_up)

    def _feeder(self, streams: Streams) -> Feeder:
        plan = self._plan
        pace = Pace(plan.own_seed, mean_burst(plan.events, plan.faults + 1))
        made = events(plan.events, plan.own_seed)
        producer, stream = streams.producer(), f"{self._name}-in"
        return Feeder(producer, stream, self._target.partitions, made, pace, lambda n: self._listener.written(plan, n))

    def _through_faults(self, scene: Scene, writer: ForeignWriter) -> None:
        """Feed and strike until everything is processed and committed. A job that hangs is a finding."""
        plan = self._plan
        kinds = self._target.kinds
        try:
            scene.feeder.allow(plan.events // (plan.faults + 1))
            scene.fed(1)
            self._report("starting")
            scene.until(lambda: scene.caught_up(scene.feeder.ends), "running")
            for fault in schedule(plan.scenario, kinds, plan.faults, plan.events, plan.own_seed):
                self._through(fault, scene, writer)
            scene.feeder.allow(plan.events)
            scene.fed(plan.events)
            scene.recovered(scene.feeder.ends)
            scene.stop()
        except NoProgress as hung:
            self._findings.append(Finding("progress", 1, str(hung)))

    def _through(self, fault: Fault, scene: Scene, writer: ForeignWriter) -> None:
        feeder = scene.feeder
        feeder.allow(fault.after if fault.kind is Kind.UPGRADE else fault.until)
        scene.fed(fault.after)
        struck = self._clock.monotonic()
        self._struck.append(fault)
        strike(fault, scene, self._target, writer)
        feeder.allow(fault.until)
        if not fault.patient:
            self._report(f"{fault}; not waited for")
            return
        scene.fed(min(feeder.acknowledged + _PROOF_OF_LIFE, fault.until))
        scene.recovered(feeder.ends)
        self._recoveries_s.append(self._clock.monotonic() - struck)
        self._report(f"{fault}; recovered in {self._recoveries_s[-1]:.1f} s")

    def _report(self, line: str) -> None:
        self._listener.happened(self._plan, line)

    def _judge(self, streams: Streams, watcher: Watcher, state: Path) -> Verdict:
        self._report("checking")
        plan, target = self._plan, self._target
        if not self._findings:
            try:
                seen = watcher.close()
                evidence = collect(streams, self._name, seen, state if target.stores_in_reach else None)
                late = plan.scenario in _WITH_STOPS
                return judge(evidence, plan.guarantee, plan.events, transactions=target.transactions, may_be_late=late)
            except (NoProgress, StoreError) as unreadable:
                self._findings.append(Finding("evidence", 1, str(unreadable)))
        return Verdict(plan.guarantee, tuple(self._findings))
