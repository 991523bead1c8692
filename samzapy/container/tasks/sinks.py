"""A task's sinks at its start: who may write to them, and how their offsets go with the checkpoint's."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from samzapy.api.checkpoint import Checkpoint
from samzapy.api.sink import Sink, TaskAttempt
from samzapy.api.stream import SystemStreamPartition
from samzapy.config.guarantee import Guarantee
from samzapy.config.job import JobConfig
from samzapy.container.tasks.task_instance import TaskInstance
from samzapy.errors import EnvironmentFailure

logger = logging.getLogger(__name__)


def open_sinks(
    config: JobConfig,
    task: TaskInstance,
    attempt: TaskAttempt,
    checkpoint: Checkpoint | None,
    moved: Collection[SystemStreamPartition],
) -> int:
    """Take the task's sinks over from earlier attempts; returns how many offsets of the checkpoint a sink lacks.

    A partition without a checkpoint starts at the sinks' offsets, the least of them, instead of at the configured
    default. One with a checkpoint starts there, and no sink may be behind it, or rows would be missing: except at most
    once, where the checkpoint goes first, and a crash loses its messages for the sink as well. Where `init` has set an
    offset (`moved`) or the configuration resets it, that is where the partition starts, wherever the sinks are.
    A sink commits before the checkpoint, so one that has no offset where the checkpoint has one keeps none (and repeats
    rows), or is not the one that the earlier inputs went to.
    Raises what the sinks raise, and EnvironmentFailure for one that is behind.
    """
    committed = {} if checkpoint is None else checkpoint.input_offsets
    may_be_behind = config.task.guarantee is Guarantee.AT_MOST_ONCE
    held_by = [(sink, task.open_sink(sink, attempt)) for sink in task.sinks]
    lacking = sum(_lacking(attempt, sink, committed, held) for sink, held in held_by)
    for ssp in task.offsets:
        if ssp in moved or config.stream(ssp.system_stream).reset_offset:
            continue
        known = [(held[ssp], sink) for sink, held in held_by if ssp in held]
        if not known:
            continue
        least, sink = min(known, key=lambda each: each[0])
        if ssp not in committed:
            task.offsets[ssp] = least
        elif least < committed[ssp] and not may_be_behind:
            raise EnvironmentFailure(_behind(attempt, sink, ssp, least, committed[ssp]))
    return lacking


def _lacking(
    attempt: TaskAttempt,
    sink: Sink,
    committed: Mapping[SystemStreamPartition, int],
    held: Mapping[SystemStreamPartition, int],
) -> int:
    without = sorted(committed.keys() - held.keys())
    if without:
        logger.warning(
            "%s: sink '%s' has no offset of %s, the checkpoint has: it keeps none and may repeat rows, or it is new and "
            "lacks those of earlier inputs",
            attempt,
            sink.name,
            ", ".join(map(str, without)),
        )
    return len(without)


def _behind(attempt: TaskAttempt, sink: Sink, ssp: SystemStreamPartition, held: int, committed: int) -> str:
    key = f"systems.{ssp.system}.streams.{ssp.stream}.samza"
    return (
        f"{attempt}: sink '{sink.name}' has {ssp} up to offset {held}, the checkpoint says {committed}: the rows of what "
        f"is between are missing (was the sink restored from a copy?); to process the inputs again, run the job once "
        f"with --config {key}.reset.offset=true --config {key}.offset.default=oldest; to go on without those rows, "
        f"delete the sink's offset of this partition"
    )
