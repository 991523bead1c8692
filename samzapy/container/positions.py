"""Where tasks start, and by how much that differs from where they had got."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from samzapy.api.checkpoint import Checkpoint
from samzapy.api.metrics import MetricsRegistry
from samzapy.api.stream import SystemStreamPartition
from samzapy.config.job import JobConfig
from samzapy.config.promises import GUARANTEE

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
    checkpoint says nothing about what the state is to be."""
    if checkpoint is None:
        return {}
    streams = {ssp.system_stream for ssp in checkpoint.input_offsets}
    if streams and all(config.stream(stream).reset_offset for stream in streams):
        return {}
    return checkpoint.changelog_offsets


def own_changelog_ends(config: JobConfig, checkpoint: Checkpoint | None) -> Mapping[str, int] | None:
    """By store, the offset after the last changelog record that a task has written. None where that is not known: without
    checkpoints, and where a crash may leave records that no checkpoint tells of."""
    if config.task.checkpoint is None or (checkpoint is not None and not checkpoint.atomic):
        return None
    return {} if checkpoint is None else {store: last + 1 for store, last in checkpoint.changelog_offsets.items()}


def of_inputs(config: JobConfig, task: str, checkpoint: Checkpoint | None) -> Checkpoint | None:
    """The checkpoint without the positions in streams that are no inputs of the job any more, which a warning names."""
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
