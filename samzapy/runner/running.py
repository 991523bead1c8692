"""Whether a run of a job is going on, as far as that can be seen from here.

What can be seen: the run that was started last, which every start writes down beside the checkpoints, if its driver is a
process of this machine; and any process of this machine that has one of the job's local stores open (a container that
outlives its driver). What cannot: a driver on another machine. Its record stays after its end, so it may be running or not.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from datetime import datetime, timezone

import psutil

from samzapy.api.checkpoint import JobRun
from samzapy.config.job import JobConfig
from samzapy.errors import EnvironmentFailure
from samzapy.storage.local.directory import store_directory
from samzapy.storage.rocksdb.failures import locking_pid

#: In the place of a driver's pid: the job was made somebody's own to be looked after, nothing was started.
NO_DRIVER = 0

#: A record is written a while after its process began; the two clocks differ by less than this.
_SLACK_S = 2.0


@dataclass(frozen=True)
class Running:
    """`certain`: one line about a run that goes on; `unseen`: one about a run that nobody here can tell of. Empty: none."""

    certain: str = ""
    unseen: str = ""


def look_for_run(config: JobConfig, owner: JobRun | None) -> Running:
    """What can be told; `owner` is the run that was started last."""
    holder = _store_holder(config)
    if owner is None or owner.pid == NO_DRIVER:
        return Running(certain=holder)
    if owner.host == socket.gethostname():
        if _lives(owner):
            return Running(certain=f"{told(owner)} is running")
    elif not holder:
        return Running(unseen=f"{told(owner)} cannot be seen from here")
    return Running(certain=holder)


def refuse_if_running(
    config: JobConfig, owner: JobRun | None, *, take_over: bool, anyway: bool = False, how: str = "--take-over"
) -> str:
    """Raise EnvironmentFailure for a job that runs, or may run elsewhere (unless `take_over`); with `anyway` for none.

    `how` is what the caller calls taking over. Returns one line about a run that nobody here can tell of, empty for none.
    """
    found = look_for_run(config, owner)
    if found.certain and not anyway:
        raise EnvironmentFailure(f"job {config.name} (id {config.id}): {found.certain}; stop it first")
    if found.unseen and not (take_over or anyway):
        raise EnvironmentFailure(
            f"job {config.name} (id {config.id}): {found.unseen}; if it has ended, or shall end now, add {how}"
        )
    return found.unseen


def told(run: JobRun) -> str:
    """A run, in words."""
    started = datetime.fromtimestamp(run.started_ms / 1000, timezone.utc).isoformat(timespec="seconds")
    return f"the run started at {started} on {run.host} (pid {run.pid})"


def _lives(owner: JobRun) -> bool:
    """Whether the driver's process is there, and no later one that has got its number."""
    try:
        process = psutil.Process(owner.pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return bool(process.create_time() <= owner.started_ms / 1000 + _SLACK_S)
    except psutil.Error:
        return False


def _store_holder(config: JobConfig) -> str:
    for store in config.stores.values():
        base = config.logged_store_base_dir if store.changelog else config.non_logged_store_base_dir
        parent = store_directory(base, config.job_name, store.name, "task").parent
        for lock in sorted(parent.glob("*/LOCK")):
            pid = locking_pid(lock.parent)
            if pid is not None:
                return f"pid {pid} has the store {lock.parent} open"
    return ""
