"""Following the startpoints that were written for a job's tasks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from samzapy.api.checkpoint import Checkpoint
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange, SystemAdmin
from samzapy.checkpoint.offsets import starting_offset
from samzapy.checkpoint.startpoints import Startpoint, pending
from samzapy.checkpoint.target import Target
from samzapy.config.job import JobConfig
from samzapy.errors import SamzapyError
from samzapy.job.model import TaskModel

logger = logging.getLogger(__name__)


class Told(NamedTuple):
    """Where a partition starts, and the startpoint that says so."""

    offset: int
    id: str


def follow(
    config: JobConfig,
    startpoints: Sequence[Startpoint],
    task: TaskModel,
    checkpoint: Checkpoint | None,
    logs: Mapping[SystemStreamPartition, OffsetRange],
    admin_of: Callable[[str], SystemAdmin],
    now_ms: int,
) -> dict[SystemStreamPartition, Told]:
    """Where the task is told to start. One that leads nowhere is logged and passed over, as in Samza."""
    found = {}
    for ssp, startpoint in pending(startpoints, task.name, task.ssps, checkpoint, now_ms).items():
        try:
            offset = Target(startpoint.position).offsets(config, {ssp: logs[ssp]}, admin_of)[ssp]
        except SamzapyError as cause:
            logger.warning("%s: the startpoint %s of %s is passed over: %s", task.name, startpoint.position, ssp, cause)
            continue
        logger.info("%s: %s starts at %d, by the startpoint %s", task.name, ssp, offset, startpoint.position)
        found[ssp] = Told(offset, startpoint.id)
    return found


def first_offsets(
    config: JobConfig,
    task: TaskModel,
    checkpoint: Checkpoint | None,
    told: Mapping[SystemStreamPartition, Told],
    logs: Mapping[SystemStreamPartition, OffsetRange],
    admin_of: Callable[[str], SystemAdmin],
) -> dict[SystemStreamPartition, int]:
    """Where each partition of the task starts: where it is told to, else by its checkpoint, else by default."""
    return {
        ssp: told[ssp].offset
        if ssp in told
        else starting_offset(
            ssp,
            checkpoint,
            config.stream(ssp.system_stream),
            logs[ssp],
            late=ssp in task.late,
            goes_back=admin_of(ssp.system).upcoming_goes_back,
        )
        for ssp in sorted(task.ssps)
    }
