"""Runs one scenario: a separate job, events, faults of one kind (or of all), and the verdict on its guarantee.

Faults are signals to processes below the scenario's driver and to its own broker, and records of another writer.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil

from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.loader import load_job
from samzapy.errors import StoreError
from samzapy.verify.campaign import Plan, Row
from samzapy.verify.checkers import Finding, Verdict, judge
from samzapy.verify.evidence import Streams, collect, streams_of
from samzapy.verify.processes import NoProgress
from samzapy.verify.scene import Feeder, ForeignWriter, Scene, Watcher, mean_burst
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
from samzapy.verify.workload import events

#: The scenarios that stop a process for longer than its lease, and let it go on.
_WITH_STOPS = {Kind.ZOMBIE.value, Kind.OVERLAP.value, MIXED}
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


class Scenario:
    """Runs one plan on a target, in a separate folder."""

    def __init__(self, plan: Plan, target: Target, folder: Path, report: Callable[[str], None]) -> None:
        """`report` gets a line about each step, from several threads."""
        self._plan = plan
        self._target = target
        self._folder = folder
        self._report = report
        self._struck: list[Fault] = []
        self._name = f"verify-{plan.scenario}-{secrets.token_hex(4)}"
        self._recoveries_s: list[float] = []
        self._findings: list[Finding] = []

    def run(self) -> Row:
        """Run it from the first event to the verdict, and remove the folder unless the promise is broken. Raises
        JobRefused, ConfigError, EnvironmentFailure."""
        started = SYSTEM_CLOCK.monotonic()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flat = job_properties(self._target, self._plan.guarantee, self._name, self._folder)
        job_file = write_job(flat, self._folder)
        with ExitStack() as stack:
            streams = Streams(load_job(flat).systems[self._target.system])
            stack.callback(streams.close)
            for stream in ("in", "out"):
                streams.create(f"{self._name}-{stream}", self._target.partitions)
            watcher = Watcher(streams, f"{self._name}-out")
            stack.callback(watcher.close)
            feeder = self._feeder(streams)
            stack.callback(feeder.close)
            scene = Scene(job_file, feeder, self._target.containers, self._target.patience_s)
            stack.callback(scene.close)
            self._through_faults(scene, ForeignWriter(streams, changelog(self._name, "sum")), watcher)
            scene.close()
            verdict = self._judge(streams, watcher, scene.state)
            if not verdict.violations:
                streams.delete(streams_of(self._name, flat))
        row = Row(
            plan=self._plan,
            verdict=verdict,
            struck=tuple(self._struck),
            recoveries_s=tuple(self._recoveries_s),
            seconds=SYSTEM_CLOCK.monotonic() - started,
            job=self._name,
            gave_up=tuple(scene.gave_up),
        )
        if row.kept:
            shutil.rmtree(self._folder, ignore_errors=True)
        return row

    def _feeder(self, streams: Streams) -> Feeder:
        plan = self._plan
        return Feeder(
            streams.producer(),
            f"{self._name}-in",
            self._target.partitions,
            events(plan.events, plan.own_seed),
            burst=mean_burst(plan.events, plan.faults + 1),
            seed=plan.own_seed,
        )

    def _through_faults(self, scene: Scene, writer: ForeignWriter, watcher: Watcher) -> None:
        """Feed and strike until everything is processed and committed. A job that hangs is a finding."""
        plan = self._plan
        kinds = self._target.kinds
        try:
            scene.feeder.allow(plan.events // (plan.faults + 1))
            scene.fed(1)
            self._report("starting")
            scene.recovered()
            for fault in schedule(plan.scenario, kinds, plan.faults, plan.events, plan.own_seed):
                self._through(fault, scene, writer)
            scene.feeder.allow(plan.events)
            scene.fed(plan.events)
            scene.recovered()
            if self._target.is_pipeline:
                with suppress(NoProgress):
                    scene.until(lambda: scene.status() and len(watcher.seen) >= plan.events, "all outputs")
            scene.stop()
        except NoProgress as hung:
            self._findings.append(Finding("progress", 1, str(hung)))

    def _through(self, fault: Fault, scene: Scene, writer: ForeignWriter) -> None:
        feeder = scene.feeder
        feeder.allow(fault.after if fault.kind is Kind.UPGRADE else fault.until)
        scene.fed(fault.after)
        struck = SYSTEM_CLOCK.monotonic()
        self._struck.append(fault)
        strike(fault, scene, self._target, writer)
        feeder.allow(fault.until)
        if not fault.patient:
            self._report(f"{fault}; not waited for")
            return
        scene.fed(min(feeder.acknowledged + _PROOF_OF_LIFE, fault.until))
        scene.recovered()
        self._recoveries_s.append(SYSTEM_CLOCK.monotonic() - struck)
        self._report(f"{fault}; recovered in {self._recoveries_s[-1]:.1f} s")

    def _judge(self, streams: Streams, watcher: Watcher, state: Path) -> Verdict:
        self._report("checking")
        plan, target = self._plan, self._target
        if not self._findings:
            try:
                seen = watcher.close()
                evidence = collect(streams, self._name, seen, state if target.stores_in_reach else None)
                late = plan.scenario in _WITH_STOPS
                return judge(evidence, plan.guarantee, plan.events, may_be_late=late)
            except (NoProgress, StoreError) as unreadable:
                self._findings.append(Finding("evidence", 1, str(unreadable)))
        return Verdict(plan.guarantee, tuple(self._findings))
