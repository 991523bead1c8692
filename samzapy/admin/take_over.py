"""Makes a run, or a tool, the owner of its job, in this order.

    1  read which run owned it before, as far as that can be read without waiting for open transactions
    2  refuse checkpoints that belong to another job
    3  write this run down as the owner, with its transactional ids: a container that is fenced from now on finds it, and
       lets go
    4  with transactions, fence the ids of the run before, and this run's own, until nothing is open in the checkpoints
    5  where nothing fences the run before, wait as long as its containers may go on unseen, unless it has ended
    6  see that no checkpoint has a greater epoch than this run's attempts will have

A broker may refuse the transactional ids. A guarantee that needs them is refused then; any other is kept without them.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from samzapy.admin.running import NO_DRIVER
from samzapy.api.checkpoint import CheckpointManager, JobRecord, JobRun
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.guarantee import Guarantee
from samzapy.config.job import JobConfig
from samzapy.container.outputs.producers import fence
from samzapy.container.supervision.job_records import this_run
from samzapy.errors import EnvironmentFailure, TransactionsRefused
from samzapy.job.transactions import StateTransactions, refused, state_transactions, transactional_id
from samzapy.system.clients import SystemClients
from samzapy.system.factories import has_transactions

logger = logging.getLogger(__name__)

#: A run's attempts have epochs above its own, and below the next run's: no container starts so often.
_ATTEMPTS = 1 << 20
#: How often the checkpoints are read while a transaction is open in them that no known run has opened.
_MOST_LOOKS = 60


@dataclass(frozen=True)
class Claim:
    """The run that owns the job now, the transactions that carry its state, and whether the run before was waited for."""

    run: JobRun
    state: StateTransactions
    waited: bool = False


def take_over(
    config: JobConfig,
    clients: SystemClients,
    checkpoints: CheckpointManager,
    state: StateTransactions,
    members: Iterable[str],
    tasks: Collection[str],
    wait: Callable[[float], object],
    *,
    run: JobRun | None = None,
) -> Claim:
    """Own the job; the topic of the checkpoints exists.

    `members` write state under ids of their own: the containers of the run, or a tool. `tasks` are the names of the job's
    tasks. `wait` waits for seconds. `run` is written down, else a new one. Raises EnvironmentFailure for checkpoints of
    another job, TransactionsRefused.
    """
    # 1  the run before
    previous, complete = checkpoints.peek_owner()
    # 2  the job of the checkpoints
    refuse_another_job(config, previous)
    # 3  this run
    ids = tuple(transactional_id(config.job_name, member) for member in members)
    before = 0 if previous is None else previous.epoch
    mine = replace(run or this_run(), job=(config.name, config.id), epoch=before + _ATTEMPTS, transactional_ids=ids)
    mine = replace(mine, lease_ms=_lease_ms(config, state, mine))
    # Until the run before has been waited for, whoever comes next has to wait for it as well.
    unsure = mine if previous is None else replace(mine, lease_ms=max(mine.lease_ms, previous.lease_ms))
    checkpoints.write_owner(unsure)
    # 4  fences
    if state.system is not None:
        try:
            fence(clients, state.system, [*_ids(config, previous, tasks), *ids])
            for _ in range(_MOST_LOOKS if not complete else 0):
                if checkpoints.peek_owner()[1]:
                    break
        except TransactionsRefused as cause:
            if config.task.guarantee.transactional:
                raise
            state = refused(state.system, str(cause))
            mine = replace(mine, lease_ms=_lease_ms(config, state, mine))
    # 5  a run that nothing fences
    waited = previous is not None and _may_go_on(checkpoints, previous)
    if previous is not None and waited:
        logger.warning("Waiting %.0f s, as long as the run before may go on unseen", previous.lease_ms / 1000)
        wait(previous.lease_ms / 1000)
    # 6  epochs
    epochs = [found.epoch for found in checkpoints.read_all(tasks).values() if found is not None]
    greatest = max(epochs, default=0)
    if greatest >= mine.epoch:
        mine = replace(mine, epoch=greatest + _ATTEMPTS)
    if mine != unsure:
        checkpoints.write_owner(mine)
    return Claim(mine, state, waited)


def take_over_by_tool(
    config: JobConfig,
    clients: SystemClients,
    checkpoints: CheckpointManager,
    members: Iterable[str],
    tasks: Collection[str],
    wait: Callable[[float], object],
    *,
    unseen: bool,
    clock: Clock = SYSTEM_CLOCK,
) -> Claim:
    """Own a job for a tool that starts nothing. `unseen`: a run may go on elsewhere.

    Nothing fences such a run without transactions, so the tool waits until it must have noticed. Raises as `take_over`.
    """
    checkpoints.start()
    run = replace(this_run(clock), pid=NO_DRIVER)
    state = state_transactions(config, has_transactions)
    claim = take_over(config, clients, checkpoints, state, members, tasks, wait, run=run)
    if unseen and claim.state.system is None and not claim.waited:
        wait(config.spark.lease_ms / 1000)
    return claim


def _lease_ms(config: JobConfig, state: StateTransactions, run: JobRun) -> int:
    """How long containers of a run may go on unseen. A fenced container does not, and a tool has none. The positions of
    at-most-once are written ahead, outside the transaction that is fenced."""
    fenced = state.system is not None and config.task.guarantee is not Guarantee.AT_MOST_ONCE
    return 0 if fenced or run.pid == NO_DRIVER else config.spark.lease_ms


def refuse_another_job(config: JobConfig, owner: JobRun | None) -> None:
    """Raise EnvironmentFailure if the checkpoints belong to a job of another name or id: Samza spells `a_b` and `a-b`
    alike in the name of their topic."""
    if owner is not None and owner.job is not None and owner.job != (config.name, config.id):
        name, job_id = owner.job
        raise EnvironmentFailure(
            f"job.name, job.id: the checkpoints of job {config.name} (id {config.id}) are those of job {name} (id "
            f"{job_id}), whose checkpoint topic has the same name; choose another job.name or job.id"
        )


def _ids(config: JobConfig, previous: JobRun | None, tasks: Iterable[str]) -> Iterable[str]:
    """The ids under which the run before may still write. A version that named none had an id for each task."""
    if previous is None:
        return ()
    if previous.transactional_ids is None:
        return [f"{config.name}-{config.id}-{task}" for task in tasks]
    return previous.transactional_ids


def _may_go_on(checkpoints: CheckpointManager, previous: JobRun) -> bool:
    if not previous.lease_ms or (previous.host, previous.pid) == (socket.gethostname(), os.getpid()):
        return False
    ended = checkpoints.read_record(JobRecord.ENDED)
    return ended is None or ended.get("run") != previous.id
