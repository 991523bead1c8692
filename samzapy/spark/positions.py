"""Where a job starts to read after one of its stores was filled by batch."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace

from samzapy.admin.positions import chosen_inputs, write_checkpoints
from samzapy.api.checkpoint import Checkpoint, CheckpointManager
from samzapy.checkpoint.target import Positions, Target
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.job import JobConfig
from samzapy.container.supervision.job_ownership import Ownership
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.job.transactions import state_transactions
from samzapy.spark.tasks import JobTasks
from samzapy.system.clients import SystemClients
from samzapy.system.factories import has_transactions


def starting_positions(
    config: JobConfig, clients: SystemClients, tasks: JobTasks, wanted: str | Mapping[str, str]
) -> Positions:
    """Offsets by partition: of every input, or of those (`system.stream`, `system.stream[partition]`) that `wanted` names.

    Targets are those of `samzapy checkpoint set`: oldest, newest, upcoming, default, an offset, a time. Raises ConfigError.
    """
    if config.task.checkpoint is None:
        raise ConfigError([ConfigProblem("task.checkpoint.factory", "none", "the job keeps no positions")])
    logs = clients.offsets(ssp for task in tasks.model.tasks for ssp in task.ssps)
    named = {"": wanted} if isinstance(wanted, str) else wanted
    found: Positions = {}
    for name, target in named.items():
        chosen = {ssp: logs[ssp] for ssp in chosen_inputs(logs, (name,) if name else (), "positions")}
        found.update(Target(target).offsets(config, chosen, clients.admin))
    return found


def commit_positions(
    config: JobConfig,
    clients: SystemClients,
    checkpoints: CheckpointManager,
    run_id: str,
    updates: Mapping[str, Checkpoint],
) -> None:
    """Commit what is new in the tasks' checkpoints, of all at once where they are kept in a topic.

    Raises JobTakenOver if the job was started meanwhile; then nothing is committed.
    """
    before = checkpoints.read_all(updates)
    merged = {task: _merged(before[task], new) for task, new in updates.items()}
    with closing(Ownership(config, run_id)) as ownership:
        ownership.look()
    # Looked at before, and not inside the transaction: who reads the topic waits for whatever is open in it.
    write_checkpoints(config, clients, checkpoints, state_transactions(config, has_transactions), merged)


def _merged(old: Checkpoint | None, new: Checkpoint) -> Checkpoint:
    old = old or Checkpoint({})
    return replace(
        old,
        input_offsets={**old.input_offsets, **new.input_offsets},
        changelog_offsets={**old.changelog_offsets, **new.changelog_offsets},
        serdes={**old.serdes, **new.serdes},
        time_ms=SYSTEM_CLOCK.wall_ms(),
    )
