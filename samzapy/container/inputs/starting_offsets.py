"""Finds the positions where tasks start, and counts the difference to their checkpoints."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from samzapy.api.checkpoint import Checkpoint
from samzapy.api.context import MetricsRegistry
from samzapy.api.stream import SystemStream, SystemStreamPartition, grouped
from samzapy.api.system import OffsetRange
from samzapy.checkpoint.records import Startpoint, Target, pending, starting_offset
from samzapy.config.guarantee_warnings import GUARANTEE
from samzapy.config.job import JobConfig
from samzapy.container.tasks.task_instance import TaskStart
from samzapy.errors import ConfigError, OffsetOutOfRange, PositionVoid, SamzapyError
from samzapy.job.planner import ContainerModel, TaskModel
from samzapy.system.clients import SystemClients

logger = logging.getLogger(__name__)

#: Starting offsets of one task.
Offsets = dict[SystemStreamPartition, int]


class StartingPositions:
    """The starts of the tasks of one container, as of now."""

    def __init__(
        self, config: JobConfig, model: ContainerModel, clients: SystemClients, metrics: MetricsRegistry, now_ms: int
    ) -> None:
        self._config = config
        self._model = model
        self._clients = clients
        self._metrics = metrics
        self._now_ms = now_ms
        self._logs: Mapping[SystemStreamPartition, OffsetRange] = clients.offsets(model.ssps)
        described = clients.describe({ssp.system_stream for ssp in model.ssps})
        self._ids = {stream: item.stream_id for stream, item in described.items() if item is not None}

    def starts(
        self,
        checkpoints: Mapping[str, Checkpoint | None],
        startpoints: Sequence[Startpoint],
        ends: Mapping[SystemStreamPartition, int],
    ) -> dict[str, TaskStart]:
        """The start of every task; counts the offsets that it skips or repeats, and logs those that a first start
        leaves out. `ends`: where the run ends. Raises OffsetOutOfRange, UnknownStream, PositionVoid."""
        starts: dict[str, TaskStart] = {}
        of_partition = grouped((each.ssp, each) for each in startpoints)
        by_default: dict[SystemStreamPartition, int] = {}
        for task in self._model.tasks:
            own = [each for ssp in task.ssps for each in of_partition.get(ssp, ())]
            start = starts[task.name] = self._start(task, checkpoints[task.name], own)
            committed = {} if start.checkpoint is None else start.checkpoint.input_offsets
            count_moves(committed, start.offsets, self._metrics)
            by_default |= {ssp: start.offsets[ssp] for ssp in start.offsets.keys() - committed.keys() - start.pinned}
        self._log_unread(by_default, ends)
        return starts

    def _start(self, task: TaskModel, committed: Checkpoint | None, startpoints: Sequence[Startpoint]) -> TaskStart:
        checkpoint = of_inputs(self._config, task.name, committed)
        followed, pinned = self.follow(startpoints, task, checkpoint)
        self._refuse_made_anew(task, checkpoint, pinned)
        offsets = {
            ssp: pinned[ssp] if ssp in pinned else self._default(task, ssp, checkpoint) for ssp in sorted(task.ssps)
        }
        epochs = {} if checkpoint is None else checkpoint.leader_epochs
        kept = {
            ssp: epoch
            for ssp, epoch in epochs.items()
            if checkpoint and ssp not in pinned and ssp in offsets and offsets[ssp] == checkpoint.input_offsets.get(ssp)
        }
        ids = {stream: self._ids[stream] for ssp in offsets if (stream := ssp.system_stream) in self._ids}
        outdated = checkpoint is not committed
        return TaskStart(
            offsets,
            checkpoint,
            followed=followed,
            pinned=frozenset(pinned),
            input_ids=ids,
            leader_epochs=kept,
            outdated=outdated,
        )

    def _default(self, task: TaskModel, ssp: SystemStreamPartition, checkpoint: Checkpoint | None) -> int:
        stream, goes_back = self._config.stream(ssp.system_stream), self._clients.traits(ssp.system).upcoming_goes_back
        return starting_offset(ssp, checkpoint, stream, self._logs[ssp], late=ssp in task.late, goes_back=goes_back)

    def follow(
        self, startpoints: Sequence[Startpoint], task: TaskModel, checkpoint: Checkpoint | None
    ) -> tuple[dict[SystemStreamPartition, str], Offsets]:
        """The ids of the startpoints that the task follows, and the offsets of those that have a valid one. A
        startpoint without one is logged and passed over for good, as in Samza: a later start does not follow it when
        the partition has grown. Other errors are raised."""
        followed: dict[SystemStreamPartition, str] = {}
        offsets: Offsets = {}
        for ssp, startpoint in pending(startpoints, task.name, task.ssps, checkpoint, self._now_ms).items():
            target = Target(startpoint.position)
            try:
                offset = target.offsets(self._config.offset_default, {ssp: self._logs[ssp]}, self._clients.admin)[ssp]
            except (ConfigError, OffsetOutOfRange) as cause:
                logger.warning(
                    "%s: the startpoint %s of %s is passed over: %s", task.name, startpoint.position, ssp, cause
                )
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
                offsets[ssp] = offset
            followed[ssp] = startpoint.id
        return followed, offsets

    def _refuse_made_anew(
        self, task: TaskModel, checkpoint: Checkpoint | None, pinned: Mapping[SystemStreamPartition, int]
    ) -> None:
        """Raise PositionVoid if a committed position is of an earlier stream of the same name: the new stream may have
        that offset, but the job has not processed the records before it. A partition that starts by a startpoint or is
        reset does not need its position."""
        if checkpoint is None:
            return
        valid = still_valid(checkpoint, self._ids)
        for ssp in sorted(task.ssps - pinned.keys()):
            stream = ssp.system_stream
            committed = checkpoint.input_offsets.get(ssp)
            if committed is not None and ssp not in valid and not self._config.stream(stream).reset_offset:
                before, now = checkpoint.input_ids[stream], self._ids[stream]
                done = f"the committed offset {committed} of partition {ssp.partition} is of the old one"
                raise PositionVoid.made_anew(stream, before, now).after(done)

    def _log_unread(
        self, starts: Mapping[SystemStreamPartition, int], ends: Mapping[SystemStreamPartition, int]
    ) -> None:
        """Log the inputs whose first start, by their default, leaves out records that are there: `upcoming` is Samza's
        default, so a first run to the `ends` of its inputs would read nothing and not say why."""
        unread: dict[SystemStream, dict[SystemStreamPartition, int]] = {}
        for ssp, offset in starts.items():
            if offset > self._logs[ssp].oldest:
                unread.setdefault(ssp.system_stream, {})[ssp] = offset - self._logs[ssp].oldest
        for stream, left_out in sorted(unread.items()):
            logger.log(
                logging.INFO if ends.keys().isdisjoint(left_out) else logging.WARNING,
                "%s: %s without a committed offset, so the job starts behind %s offsets that are there; to read them, "
                "run it once with %s",
                stream,
                "1 partition is" if len(left_out) == 1 else f"{len(left_out):,} partitions are",
                f"{sum(left_out.values()):,}",
                self._config.stream(stream).from_oldest,
            )


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
    inputs = config.task.all_inputs
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


def still_valid(checkpoint: Checkpoint | None, ids: Mapping[SystemStream, str]) -> Mapping[SystemStreamPartition, int]:
    """The committed positions without those of earlier streams of the same names. `ids`: the current ids of the
    streams."""
    if checkpoint is None:
        return {}
    before = checkpoint.input_ids
    anew = {stream for stream in before.keys() & ids.keys() if before[stream] != ids[stream]}
    return {ssp: offset for ssp, offset in checkpoint.input_offsets.items() if ssp.system_stream not in anew}
