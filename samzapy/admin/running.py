"""Finds out whether a job is running, and asks a running job to drain.

1. Every start records its run with the checkpoints. If the driver of that run is a process of this machine, its state
   is certain.
2. A process of this machine that has a local store of the job open is certain evidence as well: a container can outlive
   its driver.
3. A driver on another machine cannot be seen. Its record stays after its end, and a run that ends properly notes that;
   without such a note the run may be active or not.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil

from samzapy.api.checkpoint import CheckpointManager, JobRecord, JobRun
from samzapy.checkpoint.managers import one_pass
from samzapy.checkpoint.records import read_owner
from samzapy.clock import SYSTEM_CLOCK, boot_id, process_start
from samzapy.config.job import JobConfig
from samzapy.container.supervision.job_records import RunEnd, open_job
from samzapy.container.supervision.logs import PageAddress
from samzapy.coordinator.clocks import utc
from samzapy.errors import ConfigError, EnvironmentFailure, RestoreStalled, RetriableError, SamzapyError, Unreachable
from samzapy.storage.local.directory import locking_pid, store_directory

#: Stands in place of a driver's pid when a tool owns the job: nothing was started.
NO_DRIVER = 0

#: A run is recorded a while after its process began; the two clocks differ by less than this.
_SLACK_S = 2.0
#: Seconds between two looks at whether a run has ended.
_PACE_S = 0.5


@dataclass(frozen=True)
class Running:
    """`certain`: one line about a run that goes on. `unseen`: one line about a run that may go on elsewhere. Empty:
    none."""

    certain: str = ""
    unseen: str = ""


#: The files of `samzapy.container.supervision.logs` that a process of a job keeps open.
_LOG = re.compile(r"(driver|container-.+)\.log")


class JobProcess(NamedTuple):
    """A process of a job. `part`: driver, or container-N. `page`: the address of the job's status page, empty if it has
    none."""

    job: str
    part: str
    pid: int
    since_ms: int
    page: str
    log: Path


def job_processes() -> list[JobProcess]:
    """This user's processes of jobs on this machine, by job."""
    result = []
    for process in psutil.process_iter():
        try:
            logs = [
                Path(file.path)
                for file in process.open_files()
                # A reader, such as `tail -F`, is no part of the job.
                if _LOG.fullmatch(Path(file.path).name) and getattr(file, "mode", "a") == "a"
            ]
            since_ms = round(1_000 * process.create_time())
        except (psutil.Error, OSError):
            continue  # it has ended, or is another user's
        for log in logs:
            page = PageAddress(log.parent).read() or ""
            result.append(JobProcess(log.parent.name, log.stem, process.pid, since_ms, page, log))
    return sorted(result)


def may_answer(owner: JobRun | None) -> bool:
    """Whether the run that was started last may go on, so that it can be asked for something."""
    if owner is None or owner.pid == NO_DRIVER:
        return False
    return owner.host != socket.gethostname() or _is_alive(owner)


def has_ended(checkpoints: CheckpointManager, run: JobRun) -> bool:
    """Whether the run has noted that it has ended, so that no part of it goes on."""
    end = RunEnd.read(checkpoints, run)
    return end is not None and not end.failed


def find_run(config: JobConfig, owner: JobRun | None) -> Running:
    """Find out whether the job is running; `owner` is the run that was started last."""
    holder = _store_holder(config)
    if owner is None or owner.pid == NO_DRIVER:
        return Running(certain=holder)
    if owner.host == socket.gethostname():
        if _is_alive(owner):
            return Running(certain=f"{describe_run(owner)} is running")
    elif not holder:
        return Running(unseen=f"{describe_run(owner)} cannot be seen from here")
    return Running(certain=holder)


def refuse_if_running(
    config: JobConfig, owner: JobRun | None, *, take_over: bool, anyway: bool = False, how: str = "--take-over"
) -> str:
    """Raise EnvironmentFailure for a job that runs, or may run elsewhere (unless `take_over`); with `anyway` for none.

    `how` is the caller's name for taking over. Returns one line about a run that may go on unseen, empty for none.
    """
    result = find_run(config, owner)
    if result.certain and not anyway:
        raise EnvironmentFailure(f"job {config.name} (id {config.id}): {result.certain}; stop it first")
    if result.unseen and not (take_over or anyway):
        raise EnvironmentFailure(
            f"job {config.name} (id {config.id}): {result.unseen}; if it has ended, or must end now, add {how}"
        )
    return result.unseen


def describe_run(run: JobRun) -> str:
    """A run in words."""
    return f"the run started at {utc(run.started_ms)} on {run.host} (pid {run.pid})"


def ask_to_drain(config: JobConfig) -> JobRun:
    """Ask the run that was started last to drain, by a record with the checkpoints.

    Its driver looks for the request three times a lease (`job.spark.lease.ms`). Raises ConfigError for a job without
    checkpoints, EnvironmentFailure if no run goes on, as far as can be seen.
    """
    if config.task.checkpoint is None:
        raise ConfigError.of("task.checkpoint.factory", "none", "a job that keeps no positions cannot drain")
    with open_job(config, "drain") as (_, checkpoints):
        owner = read_owner(checkpoints)
        result = find_run(config, owner)
        end = None if owner is None else RunEnd.read(checkpoints, owner)
        over = not result.unseen or (end is not None and not end.again)
        if owner is None or owner.pid == NO_DRIVER or (over and not result.certain):
            raise EnvironmentFailure(
                f"job {config.name} (id {config.id}): no run is active, so there is nothing to drain"
            )
        checkpoints.start()
        checkpoints.write_record(JobRecord.DRAIN, {"run": owner.id})
    return owner


def wait_for_drain(config: JobConfig, run: JobRun, timeout_s: float, wait: Callable[[float], object]) -> bool:
    """Wait until the run has drained and ended; False if it goes on after that time. If its process has started the job
    again meanwhile, as for new inputs, the new run is asked instead.

    Raises SamzapyError if the run has ended otherwise, with what is known about its end. A system that does not answer
    is asked again until then.
    """
    until = SYSTEM_CLOCK.monotonic() + timeout_s
    with open_job(config, "drain") as (_, checkpoints):
        while True:
            # Before the records: a run notes its end and then ends its process.
            gone = find_run(config, run) == Running()
            try:
                with one_pass(checkpoints):
                    owner, end = read_owner(checkpoints), RunEnd.read(checkpoints, run)
            except (Unreachable, RetriableError, RestoreStalled):
                # The job outlives the restart of a broker, and the request is kept.
                if SYSTEM_CLOCK.monotonic() >= until:
                    raise
                # A reader that has failed may not recover.
                checkpoints.close()
                wait(_PACE_S)
                continue
            if end is not None and end.for_good:
                if not end.drained:
                    raise SamzapyError(_undrained(config, run, ": it was stopped, or has handed the job over"))
                return True
            if owner is None or owner.id != run.id:
                if owner is None or not _same_process(owner, run, starts_again=end is not None and end.again):
                    by = "" if owner is None else f": {describe_run(owner)} has taken the job over"
                    raise SamzapyError(_undrained(config, run, by))
                run = owner
                checkpoints.write_record(JobRecord.DRAIN, {"run": run.id})
            elif gone:
                raise SamzapyError(_undrained(config, run, ": it has failed, or was killed"))
            elif end is not None and end.failed:
                raise SamzapyError(_undrained(config, run, ": it has failed"))
            if SYSTEM_CLOCK.monotonic() >= until:
                return False
            wait(_PACE_S)


def _undrained(config: JobConfig, run: JobRun, why: str) -> str:
    return f"job {config.name} (id {config.id}): {describe_run(run)} has ended without draining{why}"


def _same_process(owner: JobRun, run: JobRun, *, starts_again: bool) -> bool:
    """Whether the owner is a later run of the same process. In containers many a driver has the same host name and
    pid."""
    same = (owner.host, owner.pid, owner.born, owner.boot) == (run.host, run.pid, run.born, run.boot)
    return same and (bool(run.born and run.boot) or starts_again)


def _is_alive(owner: JobRun) -> bool:
    """Whether the driver's process is there, and is not a later one with the same number."""
    try:
        process = psutil.Process(owner.pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        boot = boot_id()
        if owner.born and owner.boot and boot:
            return owner.boot == boot and process_start(owner.pid) == owner.born
        # The record of an older version. These two times move apart when the clock is set.
        return bool(process.create_time() <= owner.started_ms / 1000 + _SLACK_S)
    except psutil.Error:
        return False


def _store_holder(config: JobConfig) -> str:
    for store in config.stores.values():
        parent = store_directory(config.base_dir(store), config.job_name, store.name, "task").parent
        for lock in sorted(parent.glob("*/LOCK")):
            pid = locking_pid(lock.parent)
            if pid is not None:
                return f"pid {pid} has the store {lock.parent} open"
    return ""
