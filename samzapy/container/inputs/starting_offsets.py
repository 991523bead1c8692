"""Finds the offsets where tasks start, and counts the difference to their checkpoints."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from samzapy.api.checkpoint import Checkpoint
from samzapy.api.metrics import MetricsRegistry
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import OffsetRange, SystemAdmin
from samzapy.checkpoint.offsets import Target, starting_offset
from samzapy.checkpoint.records import Startpoint, pending
from samzapy.config.guarantee_warnings import GUARANTEE
from samzapy.config.job import JobConfig
from samzapy.errors import ConfigError, OffsetOutOfRange, PositionVoid, SamzapyError
from samzapy.job.model import TaskModel

logger = logging.getLogger(__name__)

#: Starting offsets of one task.
Offsets = dict[SystemStreamPartition, int]


def count_moves(
    before: Mapping[SystemStreamPartition, int], after: Mapping[SystemStreamPartition, int], metrics: MetricsRegistry
) -> None:
    """Count the offsets that are skipped, or repeated, by starting at `after` instead of `before`."""
    for ssp, offset in after.items():
        moved = offset - before.get(ssp, offset)
        if moved:
            name = "offsets-skipped" if moved > 0 else "offsets-repeated"
            metrics.counter(GUARANTEE, name).inc(abs(moved))


def committed_changelogs(config: JobConfig, checkpoint: Checkpoint | None) -> Mapping[str, int]:
    """The changelog offsets that a task's state must reach, by store: none if its inputs are all reset, since then the
    checkpoint does not bind the state."""
    if checkpoint is None:
        return {}
    streams = {ssp.system_stream for ssp in checkpoint.input_offsets}
    if streams and all(config.stream(stream).reset_offset for stream in streams):
        return {}
    return checkpoint.changelog_offsets


def own_changelog_ends(config: JobConfig, checkpoint: Checkpoint | None) -> Mapping[str, int] | None:
    """The offset after a task's last changelog record, by store. None where that is unknown: without
    checkpoints, and where a crash may leave records that no checkpoint covers."""
    if config.task.checkpoint is None or (checkpoint is not None and not checkpoint.atomic):
        return None
    return {} if checkpoint is None else {store: last + 1 for store, last in checkpoint.changelog_offsets.items()}


def of_inputs(config: JobConfig, task: str, checkpoint: Checkpoint | None) -> Checkpoint | None:
    """The checkpoint without the positions of streams that are no longer inputs of the job; a warning names these."""
    if checkpoint is None:
        return None
    inputs = {*config.task.inputs, *(ssp.system_stream for ssp in config.task.broadcast_inputs)}
    former = sorted({ssp.system_stream for ssp in checkpoint.input_offsets} - inputs)
    if not former:
        return checkpoint
    logger.warning(
        "%s: the checkpoint has positions in %s, no inputs of the job any more: they are dropped",
        task,
        ", ".join(map(str, former)),
    )
    kept = {ssp: offset for ssp, offset in checkpoint.input_offsets.items() if ssp.system_stream in inputs}
    return replace(checkpoint, input_offsets=kept)


class Followed(NamedTuple):
    """The startpoints that the first commit of a task completes: the `ids` of all, and the `offsets` of those that have
    a valid one."""

    offsets: Offsets
    ids: dict[SystemStreamPartition, str]


def refuse_made_anew(
    config: JobConfig,
    task: TaskModel,
    checkpoint: Checkpoint | None,
    followed: Followed,
    ids: Mapping[SystemStream, str],
) -> None:
    """Raise PositionVoid if a committed position is of an earlier stream of the same name: the new stream may
    have that offset, but the job has not processed the records before it. `ids`: the current ids of the streams. A
    partition that starts by a startpoint (`followed`) or is reset does not need its position."""
    if checkpoint is None:
        return
    valid = still_valid(checkpoint, ids)
    for ssp in sorted(task.ssps - followed.offsets.keys()):
        stream = ssp.system_stream
        committed = checkpoint.input_offsets.get(ssp)
        if committed is not None and ssp not in valid and not config.stream(stream).reset_offset:
            before, now = checkpoint.input_ids[stream], ids[stream]
            done = f"the committed offset {committed} of partition {ssp.partition} is of the old one"
            raise PositionVoid.made_anew(stream, before, now).after(done)


def still_valid(checkpoint: Checkpoint | None, ids: Mapping[SystemStream, str]) -> Mapping[SystemStreamPartition, int]:
    """The committed positions without those of earlier streams of the same names. `ids`: the current ids of the
    streams."""
    if checkpoint is None:
        return {}
    before = checkpoint.input_ids
    anew = {stream for stream in before.keys() & ids.keys() if before[stream] != ids[stream]}
    return {ssp: offset for ssp, offset in checkpoint.input_offsets.items() if ssp.system_stream not in anew}


def follow(
    config: JobConfig,
    startpoints: Sequence[Startpoint],
    task: TaskModel,
    checkpoint: Checkpoint | None,
    logs: Mapping[SystemStreamPartition, OffsetRange],
    admin_of: Callable[[str], SystemAdmin],
    now_ms: int,
) -> Followed:
    """The startpoints that the task follows. A startpoint without a valid offset is logged and passed over for good, as
    in Samza: a later start does not follow it when the partition has grown. Other errors are raised."""
    followed = Followed({}, {})
    for ssp, startpoint in pending(startpoints, task.name, task.ssps, checkpoint, now_ms).items():
        try:
            offset = Target(startpoint.position).offsets(config.offset_default, {ssp: logs[ssp]}, admin_of)[ssp]
        except (ConfigError, OffsetOutOfRange) as cause:
            logger.warning("%s: the startpoint %s of %s is passed over: %s", task.name, startpoint.position, ssp, cause)
        except SamzapyError:
            logger.warning(
                "%s: the startpoint %s of %s has no offset yet; to start without it: samzapy startpoint clear "
                "JOB.properties",
                task.name,
                startpoint.position,
                ssp,
            )
            raise
        else:
            logger.info("%s: %s starts at %d, by the startpoint %s", task.name, ssp, offset, startpoint.position)
            followed.offsets[ssp] = offset
        followed.ids[ssp] = startpoint.id
    return followed


def tell_unread(
    config: JobConfig,
    starts: Mapping[SystemStreamPartition, int],
    logs: Mapping[SystemStreamPartition, OffsetRange],
    ends: Mapping[SystemStreamPartition, int],
) -> None:
    """Log the inputs whose first start, by their default, leaves out records that are there: `upcoming` is Samza's
    default, so a first run to the `ends` of its inputs would read nothing and not say why."""
    unread: dict[SystemStream, dict[SystemStreamPartition, int]] = {}
    for ssp, offset in starts.items():
        if offset > logs[ssp].oldest:
            unread.setdefault(ssp.system_stream, {})[ssp] = offset - logs[ssp].oldest
    for stream, left_out in sorted(unread.items()):
        logger.log(
            logging.INFO if ends.keys().isdisjoint(left_out) else logging.WARNING,
            "%s: %s without a committed offset, so the job starts behind %s offsets that are there; to read them, run "
            "it once with %s",
            stream,
            "1 partition is" if len(left_out) == 1 else f"{len(left_out):,} partitions are",
            f"{sum(left_out.values()):,}",
            config.stream(stream).from_oldest,
        )


def kept_epochs(
    offsets: Mapping[SystemStreamPartition, int], checkpoint: Checkpoint | None, followed: Followed
) -> dict[SystemStreamPartition, int]:
    """The leader epochs of the offsets that are the committed ones. A position that an operator has chosen has none: it
    holds for the log as it is."""
    if checkpoint is None:
        return {}
    return {
        ssp: epoch
        for ssp, epoch in checkpoint.leader_epochs.items()
        if ssp not in followed.offsets and ssp in offsets and offsets[ssp] == checkpoint.input_offsets.get(ssp)
    }


def first_offsets(
    config: JobConfig,
    task: TaskModel,
    checkpoint: Checkpoint | None,
    followed: Followed,
    logs: Mapping[SystemStreamPartition, OffsetRange],
    admin_of: Callable[[str], SystemAdmin],
) -> dict[SystemStreamPartition, int]:
    """The first offset of each partition of the task: by its startpoint, else by its checkpoint, else by default."""
    return {
        ssp: followed.offsets[ssp]
        if ssp in followed.offsets
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
