"""Makes a batch write the owner of its job, and commits the positions that the job starts from."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import replace

from samzapy.admin.positions import MEMBER, chosen_inputs, write_checkpoints
from samzapy.admin.take_over import take_over_by_tool
from samzapy.api.checkpoint import Checkpoint, CheckpointManager, JobRecord, JobRun
from samzapy.checkpoint.offsets import Positions, Target
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.job import JobConfig
from samzapy.container.outputs.producers import fence
from samzapy.container.supervision.job_records import Ownership
from samzapy.dataframe.partition_writer import write_clients, writer_id, writer_member
from samzapy.dataframe.tasks import JobTasks
from samzapy.errors import ConfigError, ConfigProblem, SamzapyError
from samzapy.job.expansion import to_json
from samzapy.job.transactions import state_transactions
from samzapy.system.clients import SystemClients
from samzapy.system.factories import has_transactions

_LOG = logging.getLogger(__name__)


def own(
    config: JobConfig,
    clients: SystemClients,
    checkpoints: CheckpointManager,
    tasks: JobTasks,
    unseen: str,
    wait: Callable[[float], object],
) -> JobRun:
    """Become the job's owner, so that a run that goes on `unseen` lets go, and write down what a start would.

    Without transactions nothing fences such a run: then `wait` for as many seconds as it takes to notice.
    """
    members = [MEMBER, *map(writer_member, tasks.names)]
    names = list(tasks.names.values())
    claim = take_over_by_tool(config, clients, checkpoints, members, names, wait, unseen=bool(unseen))
    if checkpoints.read_changelog_partitions() != tasks.changelog_partitions:
        checkpoints.write_changelog_partitions(tasks.changelog_partitions)
    inputs = to_json(tasks.inputs)
    if checkpoints.read_record(JobRecord.INPUTS) != inputs:
        checkpoints.write_record(JobRecord.INPUTS, inputs)
    return claim.run


def abort_open(config: JobConfig, run_id: str, system: str, partitions: Iterable[int], timeout_ms: int) -> None:
    """Abort what failed attempts have left open, which readers of the changelog would wait for; best effort.

    Not when the job is another run's by now: it has done so itself.
    """
    with closing(write_clients(config, timeout_ms)) as clients, closing(Ownership.of(config, run_id)) as ownership:
        try:
            ownership.look()
            fence(clients, system, [writer_id(config, number) for number in partitions])
        except SamzapyError as cause:
            _LOG.warning("An open transaction is left to its time-out: %s", cause)


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
        found.update(Target(target).offsets(config.offset_default, chosen, clients.admin))
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
    with closing(Ownership.of(config, run_id)) as ownership:
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
