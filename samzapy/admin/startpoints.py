"""Writes, shows and clears the startpoints of a job, which may be running."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from samzapy.admin.positions import chosen_inputs, must_keep_checkpoints
from samzapy.api.checkpoint import CheckpointManager, JobRecord
from samzapy.checkpoint.offsets import Target
from samzapy.checkpoint.startpoints import Startpoint, from_json, is_followed, to_json
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.job import JobConfig
from samzapy.container.supervision.job_records import open_job
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.job.model import JobModel


def write_startpoints(
    config: JobConfig,
    model: JobModel,
    position: str,
    inputs: tuple[str, ...],
    task: str | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> list[Startpoint]:
    """Let the next start of the job begin at `position`, for `inputs` (none: all) and for one task or all tasks.

    Startpoints that were followed, have expired, or are replaced are dropped. Raises ConfigError for a task or an input that
    the job does not have.
    """
    Target(position).check()
    names = [each.name for each in model.tasks]
    if task is not None and task not in names:
        raise ConfigError([ConfigProblem("--task", task, f"a task of the job: {', '.join(names)}")])
    read_by_task = {ssp for each in model.tasks if task in {None, each.name} for ssp in each.ssps}
    now = clock.wall_ms()
    new = [Startpoint(secrets.token_hex(8), ssp, position, now, task) for ssp in chosen_inputs(read_by_task, inputs)]
    replaced = {(each.ssp, each.task) for each in new}
    with _checkpoints(config) as checkpoints:
        kept = [each for each in _valid(checkpoints, model, now) if (each.ssp, each.task) not in replaced]
        checkpoints.start()
        checkpoints.write_record(JobRecord.STARTPOINTS, to_json([*kept, *new]))
    return new


def read_startpoints(config: JobConfig, model: JobModel, clock: Clock = SYSTEM_CLOCK) -> list[Startpoint]:
    """The startpoints that the next start will follow."""
    with _checkpoints(config) as checkpoints:
        return _valid(checkpoints, model, clock.wall_ms())


def clear_startpoints(config: JobConfig, model: JobModel, clock: Clock = SYSTEM_CLOCK) -> int:
    """Drop all startpoints; returns how many the next start would have followed."""
    with _checkpoints(config) as checkpoints:
        dropped = len(_valid(checkpoints, model, clock.wall_ms()))
        if dropped:
            checkpoints.write_record(JobRecord.STARTPOINTS, to_json([]))
    return dropped


def _valid(checkpoints: CheckpointManager, model: JobModel, now_ms: int) -> list[Startpoint]:
    """The startpoints that have not expired, and that some of their tasks have not followed yet."""
    written = from_json(checkpoints.read_record(JobRecord.STARTPOINTS))
    of_task = checkpoints.read_all(task.name for task in model.tasks)
    return [
        each
        for each in written
        if not each.expired(now_ms)
        and not all(
            is_followed(each, of_task[task.name])
            for task in model.tasks
            if each.ssp in task.ssps and each.task in {None, task.name}
        )
    ]


@contextmanager
def _checkpoints(config: JobConfig) -> Iterator[CheckpointManager]:
    must_keep_checkpoints(config)
    with open_job(config, "startpoints") as (_, checkpoints):
        yield checkpoints
