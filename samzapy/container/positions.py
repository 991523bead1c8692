"""Where tasks start, and by how much that differs from where they had got."""

from __future__ import annotations

from collections.abc import Mapping

from samzapy.api.checkpoint import Checkpoint
from samzapy.api.metrics import MetricsRegistry
from samzapy.api.stream import SystemStreamPartition
from samzapy.config.job import JobConfig
from samzapy.config.promises import GUARANTEE

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
