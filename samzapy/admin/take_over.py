"""Makes a run, or a tool, the owner of its job, and keeps it away from the records of other jobs.

`take_over` works in this order:

    1  read which run owned the job before, as far as that can be read without waiting for open transactions
    2  refuse checkpoints that belong to another job
    3  write this run down as the owner, with its transactional ids: a container that is fenced from now on reads that
       record, and lets go
    4  with transactions, fence the ids of the previous run, and this run's own, until no transaction is open in the
       checkpoints
    5  if the previous run cannot be fenced, wait as long as its containers may go on unseen, unless it has ended
    6  check that no checkpoint has a greater epoch than this run's attempts will have

A broker may refuse the transactional ids. A guarantee that needs them is refused then; any other is kept without them.

`refuse_foreign` refuses a changelog with records that the job has not written; `adopt` makes such records the job's
own.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from samzapy.admin.running import NO_DRIVER, has_ended, refuse_if_running
from samzapy.api.checkpoint import Checkpoint, CheckpointManager, JobRecord, JobRun
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import StreamDescription
from samzapy.checkpoint.records import Adopted, refuse_unfinished
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.guarantee import Guarantee
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.container.outputs.producers import fence
from samzapy.container.supervision.job_records import open_job, this_run
from samzapy.errors import ConfigError, ConfigProblem, EnvironmentFailure, TransactionsRefused
from samzapy.job.model import JobModel
from samzapy.job.transactions import StateTransactions, refused, state_transactions, transactional_id
from samzapy.storage.changelog.end import STALL_S, foreign_records
from samzapy.storage.changelog.reading import Tail, first_records
from samzapy.system.clients import SystemClients
from samzapy.system.factories import has_transactions

logger = logging.getLogger(__name__)

#: A run's attempts have epochs above its own, and below the next run's: no container starts so often.
_ATTEMPTS = 1 << 20
#: The number of attempts to read the checkpoints while an unknown run has a transaction open in them.
_MOST_LOOKS = 60


@dataclass(frozen=True)
class Claim:
    """The run that owns the job now, the transactions that carry its state, and whether the start waited for the run
    before."""

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

    `members` write state, each under a separate id: the containers of the run, or a tool. `tasks` are the names of the
    job's tasks. `wait` waits for seconds. `run` is written down, else a new one. Raises EnvironmentFailure for
    checkpoints of another job, TransactionsRefused.
    """
    # 1  the previous run
    previous, complete = checkpoints.peek_owner()
    # 2  the job of the checkpoints
    refuse_another_job(config, previous)
    # 3  this run
    ids = tuple(transactional_id(config.job_name, member) for member in members)
    before = 0 if previous is None else previous.epoch
    mine = replace(run or this_run(), job=(config.name, config.id), epoch=before + _ATTEMPTS, transactional_ids=ids)
    mine = replace(mine, lease_ms=_lease_ms(config, state, mine))
    # Until this wait is over, any later run has to wait for the previous run as well.
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
        logger.warning("Waiting %.0f s, as long as the previous run may go on unseen", previous.lease_ms / 1000)
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
    """The time in milliseconds for which containers of a run may go on unnoticed: 0 if they are fenced, and for a tool,
    which has none. At-most-once writes its positions ahead, outside of the fenced transaction."""
    fenced = state.system is not None and config.task.guarantee is not Guarantee.AT_MOST_ONCE
    return 0 if fenced or run.pid == NO_DRIVER else config.spark.lease_ms


def refuse_another_job(config: JobConfig, owner: JobRun | None) -> None:
    """Raise EnvironmentFailure if the checkpoints belong to a job of another name or id: in the topic's name Samza
    spells `a_b` and `a-b` alike."""
    if owner is not None and owner.job is not None and owner.job != (config.name, config.id):
        name, job_id = owner.job
        raise EnvironmentFailure(
            f"job.name, job.id: the checkpoints of job {config.name} (id {config.id}) are those of job {name} (id "
            f"{job_id}), because both checkpoint topics have the same name; choose another job.name or job.id"
        )


def _ids(config: JobConfig, previous: JobRun | None, tasks: Iterable[str]) -> Iterable[str]:
    """The ids under which the previous run may still write. An older version recorded none and had an id for each
    task."""
    if previous is None:
        return ()
    if previous.transactional_ids is None:
        return [f"{config.name}-{config.id}-{task}" for task in tasks]
    return previous.transactional_ids


def _may_go_on(checkpoints: CheckpointManager, previous: JobRun) -> bool:
    if not previous.lease_ms or (previous.host, previous.pid) == (socket.gethostname(), os.getpid()):
        return False
    return not has_ended(checkpoints, previous)


def refuse_foreign(
    config: JobConfig,
    model: JobModel,
    committed: Mapping[str, Checkpoint | None],
    checkpoints: CheckpointManager,
    clients: SystemClients,
    describe: Callable[[SystemStream], StreamDescription | None],
) -> None:
    """Raise ForeignRecords for a changelog that holds records of a task that has never committed.

    Such a changelog was copied together with its job file. Tasks that have committed, as their checkpoints
    (`committed`) say, check their changelogs themselves when they restore. `describe` gives a stream, None if it does
    not exist.
    """
    if config.task.checkpoint is None:
        return
    numbers = sorted({task.changelog_partition for task in model.tasks if committed[task.name] is None})
    if not numbers:
        return
    adopted = Adopted.from_json(checkpoints.read_record(JobRecord.ADOPTED))
    ends: dict[SystemStreamPartition, int] = {}
    stores: dict[SystemStreamPartition, str] = {}
    for store in config.stores.values():
        topic = None if store.changelog is None else describe(store.changelog)
        if store.changelog is None or topic is None:
            continue
        for number in numbers:
            if number < topic.partitions:
                ssp = SystemStreamPartition(*store.changelog, number)
                ends[ssp], stores[ssp] = adopted.end(ssp, topic.stream_id), store.name
    tails = [Tail(ssp, max(ends[ssp], log.oldest), log.upcoming) for ssp, log in clients.offsets(ends).items()]
    found = _first_records([tail for tail in tails if tail.start < tail.bound], clients)
    if found:
        ssp = min(found)
        raise foreign_records(stores[ssp], ssp, ends[ssp], found[ssp])


def _first_records(tails: Sequence[Tail], clients: SystemClients) -> dict[SystemStreamPartition, int]:
    """The first record behind each tail, read with one consumer for each system."""
    found: dict[SystemStreamPartition, int] = {}
    for system in dict.fromkeys(tail.ssp.system for tail in tails):
        of_system = [tail for tail in tails if tail.ssp.system == system]
        with closing(clients.consumer(system)) as consumer:
            found.update(first_records(of_system, consumer, SYSTEM_CLOCK, STALL_S, open_counts=True))
    return found


def adopt(config: JobConfig, store_names: Collection[str], *, take_over: bool = False) -> dict[str, Mapping[int, int]]:
    """Make all records that the changelogs of the stores hold now the job's own; returns the ends by store and
    partition.

    Raises ConfigError for a store without a changelog, EnvironmentFailure for a job that runs, and for a store that is
    being migrated.
    """
    if config.task.checkpoint is None:
        raise ConfigError([ConfigProblem("task.checkpoint.factory", "none", "must keep checkpoints to adopt records")])
    stores = [
        _logged(config.stores, name) for name in store_names or [s.name for s in config.stores.values() if s.changelog]
    ]
    found: dict[str, Mapping[int, int]] = {}
    with open_job(config, "adopt") as (clients, checkpoints):
        refuse_if_running(config, checkpoints.read_owner(), take_over=take_over)
        refuse_unfinished(checkpoints, [store.name for store in stores])
        adopted = Adopted.from_json(checkpoints.read_record(JobRecord.ADOPTED))
        for store in stores:
            ends = _ends(store, clients)
            if ends is not None:
                topic_id, found[store.name] = ends
                assert store.changelog is not None
                adopted = adopted.with_ends(store.changelog, topic_id, found[store.name])
        checkpoints.start()
        checkpoints.write_record(JobRecord.ADOPTED, adopted.to_json())
    return found


def _logged(stores: Mapping[str, StoreConfig], name: str) -> StoreConfig:
    store = stores.get(name)
    if store is None:
        known = ", ".join(sorted(stores)) or "none"
        raise ConfigError([ConfigProblem("STORE", name, f"must be a store of the job ({known})")])
    if store.changelog is None:
        raise ConfigError([ConfigProblem(f"stores.{name}.changelog", None, "is required: there is nothing to adopt")])
    return store


def _ends(store: StoreConfig, clients: SystemClients) -> tuple[str, dict[int, int]] | None:
    assert store.changelog is not None
    admin = clients.admin(store.changelog.system)
    topic = admin.describe(store.changelog.stream)
    if topic is None:
        return None
    ssps = [SystemStreamPartition(*store.changelog, number) for number in range(topic.partitions)]
    return topic.stream_id, {ssp.partition: log.upcoming for ssp, log in admin.offsets(ssps).items()}
