"""Shows and moves the positions of a job.

1. `read_positions` gives the positions and clocks that the job has committed.
2. `move_positions` moves a job that is not running.
3. The functions for startpoints set, show and clear where the next start begins; the job may be running.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from samzapy.admin.running import refuse_if_running
from samzapy.admin.take_over import take_over_by_tool
from samzapy.api.checkpoint import Checkpoint, CheckpointManager, JobRecord, JobRun
from samzapy.api.event_time import StateCheckpointTask
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange
from samzapy.checkpoint.records import (
    Positions,
    Startpoint,
    Target,
    merged_startpoints,
    pending,
    pending_of_all,
    read_owner,
    startpoints_from_json,
    startpoints_to_json,
)
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.checkpoint import CheckpointConfig
from samzapy.config.job import JobConfig
from samzapy.container.outputs.producers import StateTransactions, transactional_id
from samzapy.container.supervision.job_records import Ownership, open_job
from samzapy.container.tasks.task_builder import load_task_class
from samzapy.coordinator.clocks import KeptClocks
from samzapy.errors import ConfigError, RestoreError
from samzapy.job.planner import JobModel
from samzapy.strict_json import Time, convert
from samzapy.system.clients import SystemClients

#: The name of this tool among the members that write the job's state.
MEMBER = "positions"
#: The field of the record `JobRecord.CLOCK`.
CHECKPOINT_CLOCK = "checkpoint-clock"


@dataclass(frozen=True)
class JobPositions:
    """Where a job stands.

    `checkpoints`: by task, None for one that has never committed. `logs`: the offsets that the inputs hold now.
    `owner`: the run that was started last. `clocks`: the job's progress in event time.
    """

    checkpoints: Mapping[str, Checkpoint | None]
    logs: Mapping[SystemStreamPartition, OffsetRange]
    owner: JobRun | None
    clocks: KeptClocks


def read_positions(config: JobConfig, model: JobModel) -> JobPositions:
    """The currently committed positions; the job may be running. Raises ConfigError for a job without
    checkpoints."""
    must_keep_checkpoints(config.task.checkpoint)
    with open_job(config, "checkpoint") as (clients, checkpoints):
        return _read(model, clients, checkpoints)


def _read(model: JobModel, clients: SystemClients, checkpoints: CheckpointManager) -> JobPositions:
    committed = checkpoints.read(task.name for task in model.tasks)
    logs = clients.offsets(ssp for task in model.tasks for ssp in task.ssps)
    owner = read_owner(checkpoints)
    return JobPositions(committed, logs, owner, kept_clocks(committed, checkpoints.read_record(JobRecord.CLOCK).newest))


def kept_clocks(committed: Mapping[str, Checkpoint | None], record: Mapping[str, Any] | None) -> KeptClocks:
    """The clocks that earlier runs have left: the tasks' in their checkpoints, the job's in its `record`.

    Raises RestoreError for a record that cannot be read.
    """
    clocks = {name: item.clock for name, item in committed.items() if item is not None and item.clock is not None}
    try:
        kept = None if record is None else convert(Time, record.get(CHECKPOINT_CLOCK))
    except ValueError as cause:
        raise RestoreError(f"the job's record of its checkpoint clock cannot be read: {record!r:.100}") from cause
    return KeptClocks(clocks, kept)


@dataclass(frozen=True)
class Move:
    """A move of positions.

    `inputs`: `system.stream` or `system.stream[partition]`, none for all. `take_over`: move also if a run may be active
    on another machine; that run is forced to let go. `dry_run`: change nothing, only return the changes.
    """

    target: Target
    inputs: tuple[str, ...] = ()
    take_over: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class Moved:
    """One partition of one task: its position before (None: it had none) and after."""

    task: str
    ssp: SystemStreamPartition
    before: int | None
    after: int


def move_positions(config: JobConfig, model: JobModel, move: Move, wait: Callable[[float], object]) -> list[Moved]:
    """Commit other positions for a job that is not running.

    1  look for a run; refuse if there is one, or (unless `take_over`) may be one on another machine
    2  become the job's owner, so that an unseen run lets go; with transactions, fence its containers as well; without,
       `wait` as many seconds as an unseen run takes to notice
    3  read the checkpoints, and write them with the new offsets: all in one transaction, where there are transactions

    Earlier startpoints of the moved partitions become void, since the move is the later request.
    Changelog offsets and local stores stay unchanged. Raises EnvironmentFailure when refused, and ConfigError if the
    tasks keep positions inside their own state: a startpoint moves both.
    """
    must_keep_checkpoints(config.task.checkpoint)
    _refuse_own_state(config.task.task_class)
    with open_job(config, "checkpoint") as (clients, checkpoints):
        # 1  a run
        unseen = refuse_if_running(config, read_owner(checkpoints), anyway=move.dry_run, take_over=move.take_over)
        before = _read(model, clients, checkpoints)
        chosen = {ssp: before.logs[ssp] for ssp in chosen_inputs(before.logs, move.inputs)}
        after = move.target.offsets(config.offset_default, chosen, clients.admin)
        if not move.dry_run:
            # 2  the owner
            tasks = [task.name for task in model.tasks]
            claim = take_over_by_tool(config, clients, checkpoints, [MEMBER], tasks, wait, unseen=bool(unseen))
            # 3  the checkpoints
            before = _read(model, clients, checkpoints)
            changed = _moved(before, after, model, _written(checkpoints))
            check_owner = partial(Ownership.of(config, claim.run.id).check, checkpoints)
            write_checkpoints(config.job_name, clients, checkpoints, claim.state, changed, check_owner=check_owner)
    return [
        Moved(task.name, ssp, _committed(before, task.name).get(ssp), after[ssp])
        for task in model.tasks
        for ssp in sorted(task.ssps)
        if ssp in after
    ]


def _refuse_own_state(path: str) -> None:
    try:
        task_class = load_task_class(path)
    except ConfigError:
        # If the class cannot be imported here, nothing is known about its positions.
        return
    if issubclass(task_class, StateCheckpointTask):
        message = "keeps its positions with its own state; use `samzapy startpoint set`, which moves both"
        raise ConfigError.of("task.class", path, message)


def write_checkpoints(
    job_name: str,
    clients: SystemClients,
    checkpoints: CheckpointManager,
    state: StateTransactions,
    changed: Mapping[str, Checkpoint],
    *,
    records: Mapping[JobRecord, Mapping[str, Any]] | None = None,
    check_owner: Callable[[], object],
) -> None:
    """Write the checkpoints and job records at once, in a transaction where there are transactions.

    This process must own the job (`take_over` with `MEMBER`). `check_owner` raises if another run owns it: that run
    fences this transaction, or is found here.
    """
    producer = None
    if state.system is not None:
        producer = clients.transactional(state.system, transactional_id(job_name, MEMBER))
        producer.init_transactions()
    # Before the transaction begins: a reader of the topic waits for every open transaction in it.
    check_owner()
    if producer is not None:
        producer.begin()
    for record, value in (records or {}).items():
        checkpoints.write_record(record, value, producer)
    checkpoints.write(changed, producer)
    if producer is not None:
        producer.commit()


def _moved(
    before: JobPositions, after: Positions, model: JobModel, startpoints: Sequence[Startpoint]
) -> dict[str, Checkpoint]:
    moved = {task.name: {ssp: after[ssp] for ssp in task.ssps if ssp in after} for task in model.tasks}
    return {
        task: moved_to(before.checkpoints[task], offsets, task, startpoints)
        for task, offsets in moved.items()
        if offsets
    }


def moved_to(
    old: Checkpoint | None, moved: Mapping[SystemStreamPartition, int], task: str, startpoints: Sequence[Startpoint]
) -> Checkpoint:
    """The checkpoint of a task after a tool has moved some of its positions, or none. `startpoints`: those of the
    job."""
    now = SYSTEM_CLOCK.wall_ms()
    old = replace(old or Checkpoint({}), time_ms=now)
    if not moved:
        return old
    return replace(
        old,
        input_offsets={**old.input_offsets, **moved},
        # Counts as followed: otherwise the next start would follow a startpoint and undo the move.
        startpoints={
            **old.startpoints,
            **{ssp: item.id for ssp, item in pending(startpoints, task, moved, old, now).items()},
        },
        # Event times and senders describe the messages before the old position.
        event_times={ssp: item for ssp, item in old.event_times.items() if ssp not in moved},
        senders={ssp: item for ssp, item in old.senders.items() if ssp not in moved},
        leader_epochs={ssp: item for ssp, item in old.leader_epochs.items() if ssp not in moved},
        # If a stream was created again, the positions in it are valid once all of them are moved.
        input_ids={
            stream: item
            for stream, item in old.input_ids.items()
            if any(ssp.system_stream == stream and ssp not in moved for ssp in old.input_offsets)
        },
        held_by="",
        idle=(),
    )


def _committed(positions: JobPositions, task: str) -> Mapping[SystemStreamPartition, int]:
    checkpoint = positions.checkpoints[task]
    return {} if checkpoint is None else checkpoint.input_offsets


def chosen_inputs(
    logs: Iterable[SystemStreamPartition], inputs: tuple[str, ...], key: str = "--input"
) -> list[SystemStreamPartition]:
    """The partitions that `inputs` (`system.stream`, `system.stream[partition]`) name; all for none.

    Raises ConfigError for a text that names no input; `key` is the caller's name for the texts.
    """
    known = sorted(logs)
    if not inputs:
        return known
    chosen: set[SystemStreamPartition] = set()
    for text in inputs:
        matching = [ssp for ssp in known if text in {str(ssp), str(ssp.system_stream)}]
        if not matching:
            names = ", ".join(dict.fromkeys(str(ssp.system_stream) for ssp in known))
            raise ConfigError.of(key, text, f"an input of the job ({names}), or a partition of one like a.b[0]")
        chosen.update(matching)
    return sorted(chosen)


def must_keep_checkpoints(checkpoint: CheckpointConfig | None) -> None:
    """Raise ConfigError for a job without checkpoints."""
    if checkpoint is None:
        raise ConfigError.of("task.checkpoint.factory", "none", "the job keeps no positions")


def write_startpoints(
    config: JobConfig,
    model: JobModel,
    position: str,
    inputs: tuple[str, ...],
    task: str | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> list[Startpoint]:
    """Let the next start of the job begin at `position`, for `inputs` (none: all) and for one task or all tasks.

    Startpoints that were followed, have expired, or are replaced are dropped. Raises ConfigError for a task or an input
    that the job does not have, and for a job that follows no startpoints.
    """
    if not config.startpoints:
        raise ConfigError.of("job.startpoint.enabled", "false", "must be true to follow a startpoint")
    Target(position).check()
    names = [item.name for item in model.tasks]
    if task is not None and task not in names:
        raise ConfigError.of("--task", task, f"a task of the job: {', '.join(names)}")
    read_by_task = {ssp for item in model.tasks if task in {None, item.name} for ssp in item.ssps}
    chosen = chosen_inputs(read_by_task, inputs)
    tasks = {task.name: task.ssps for task in model.tasks}
    with _checkpoints(config) as checkpoints:
        known = _written(checkpoints)
        # The newest startpoint counts, even if the machine that wrote an earlier one has a clock that is ahead.
        now = max([clock.wall_ms(), *(item.created_ms + 1 for item in known)])
        new = [Startpoint(secrets.token_hex(8), ssp, position, now, task) for ssp in chosen]
        committed = checkpoints.read(tasks)

        def with_new(values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
            written = [startpoints_from_json(value) for value in values]
            return startpoints_to_json(merged_startpoints(written, new, tasks, committed, now))

        checkpoints.start()
        checkpoints.change_record(JobRecord.STARTPOINTS, with_new)
    return new


def read_startpoints(config: JobConfig, model: JobModel) -> list[Startpoint]:
    """The startpoints that the next start will follow."""
    with _checkpoints(config) as checkpoints:
        return _pending(checkpoints, model)


def clear_startpoints(config: JobConfig, model: JobModel) -> int:
    """Drop all startpoints; returns the number that the next start would have followed."""
    with _checkpoints(config) as checkpoints:
        dropped = len(_pending(checkpoints, model))
        if dropped:
            checkpoints.write_record(JobRecord.STARTPOINTS, startpoints_to_json([]))
    return dropped


def _written(checkpoints: CheckpointManager) -> tuple[Startpoint, ...]:
    return startpoints_from_json(checkpoints.read_record(JobRecord.STARTPOINTS).newest)


def _pending(checkpoints: CheckpointManager, model: JobModel) -> list[Startpoint]:
    """The startpoints that some task of the job has yet to follow."""
    ssps = {task.name: task.ssps for task in model.tasks}
    return pending_of_all(_written(checkpoints), ssps, checkpoints.read(ssps), SYSTEM_CLOCK.wall_ms())


@contextmanager
def _checkpoints(config: JobConfig) -> Iterator[CheckpointManager]:
    must_keep_checkpoints(config.task.checkpoint)
    with open_job(config, "startpoints") as (_, checkpoints):
        yield checkpoints
