"""Makes a fault happen: signals to processes below our own driver and to our own broker, and records of another writer."""

from __future__ import annotations

from contextlib import suppress

import psutil

from samzapy.verify.job import FILE, LEASE_S
from samzapy.verify.processes import NoProgress
from samzapy.verify.scene import LONGEST_RECOVERY_S, Scene
from samzapy.verify.schedule import Fault, Kind
from samzapy.verify.target import Target
from samzapy.verify.traffic import Stranger

#: Seconds past the lease for which a zombie stays stopped at most: by then a successor may have started.
_PAST_LEASE_S = 3.0


def strike(fault: Fault, scene: Scene, target: Target, stranger: Stranger) -> None:
    """Make the fault happen; the job may recover when this returns. Raises NoProgress without a victim."""
    broker = target.broker
    if fault.kind is Kind.DRIVER:
        scene.kill_driver()
    elif fault.kind is Kind.OVERLAP:
        scene.overlap(stopped=target.may_stop_runs and fault.choice % 2 == 0)
    elif fault.kind is Kind.FOREIGN_WRITER:
        stranger.write(fault.choice)
        scene.refuse("holds a record of another writer")
        stranger.put_right()
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


def _victim(fault: Fault, scene: Scene) -> psutil.Process:
    """A process of the kind; waits until one runs."""
    candidates: list[psutil.Process] = []

    def look() -> bool:
        scene.status()
        candidates[:] = scene.run.executors() if fault.kind is Kind.EXECUTOR else scene.run.workers()
        return bool(candidates)

    scene.until(look, f"a process to hit with {fault}", LONGEST_RECOVERY_S)
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
