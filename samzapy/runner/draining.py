"""Asking a run of a job to drain: the request is written beside the checkpoints, where its driver looks for it."""

from __future__ import annotations

from collections.abc import Callable

from samzapy.api.checkpoint import JobRecord, JobRun
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.job import JobConfig
from samzapy.container.job_records import open_job
from samzapy.errors import ConfigError, ConfigProblem, EnvironmentFailure
from samzapy.runner.running import NO_DRIVER, look_for_run

#: Seconds between two looks at whether the run has ended.
_PACE_S = 0.5


def ask_to_drain(config: JobConfig) -> JobRun:
    """Ask the run that was started last; its driver hears of it within a third of a lease (`job.spark.lease.ms`).

    Raises ConfigError for a job without checkpoints, EnvironmentFailure if no run goes on, as far as can be seen.
    """
    if config.task.checkpoint is None:
        raise ConfigError(
            [ConfigProblem("task.checkpoint.factory", "none", "a job that keeps no positions cannot drain")]
        )
    with open_job(config, "drain") as (_, checkpoints):
        owner = checkpoints.read_owner()
        found = look_for_run(config, owner)
        if owner is None or owner.pid == NO_DRIVER or not (found.certain or found.unseen):
            raise EnvironmentFailure(
                f"job {config.name} (id {config.id}): no run is going on, so nothing is to be drained"
            )
        checkpoints.start()
        checkpoints.write_record(JobRecord.DRAIN, {"run": owner.id})
    return owner


def wait_for_end(
    config: JobConfig, run: JobRun, timeout_s: float, wait: Callable[[float], object], clock: Clock = SYSTEM_CLOCK
) -> bool:
    """Wait until the run's driver has ended; whether it has, None of it being visible from another machine counting so."""
    until = clock.monotonic() + timeout_s
    while look_for_run(config, run).certain:
        if clock.monotonic() >= until:
            return False
        wait(_PACE_S)
    return True
