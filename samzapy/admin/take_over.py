"""Makes a run, or a tool, the owner of its job, and keeps it away from the records of other jobs.

`take_over` works in this order:

    1  read which run owned the job before, as far as that can be read without waiting for open transactions
    2  refuse checkpoints that belong to another job
    3  write this run down as the owner, with its transactional ids and the ids of earlier runs: a container that is
       fenced after this step reads that record, and lets go
    4  with transactions, fence all these ids
    5  read all owners, since other runs may have started between 1 and 3. A run with a record before this run's is an
       earlier run: if it is a new one, repeat 2 to 5. A run with a record after this run's has taken the job over
    6  wait as long as containers of earlier runs may go on unseen, if nothing fences them and they have not ended
    7  check that no checkpoint has a greater epoch than this run's attempts will have
    8  once no earlier run can write, write this run's record without their ids and leases, and read all owners again

A broker may refuse the transactional ids. A guarantee that needs them is refused then; any other is kept without them.

`refuse_foreign` refuses a changelog with records that the job has not written; `adopt` makes such records the job's
own.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from samzapy.admin.running import NO_DRIVER, has_ended, refuse_if_running
from samzapy.api.checkpoint import Checkpoint, CheckpointManager, JobRecord, JobRun
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import StreamDescription
from samzapy.checkpoint.records import (
    Adopted,
    adopt_ends,
    peek_owner,
    peek_owners,
    read_changelog_partitions,
    read_owner,
    refuse_copied,
    write_owner,
)
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.job import JobConfig
from samzapy.config.task import Guarantee
from samzapy.container.outputs.producers import StateTransactions, fence, refused, state_transactions, transactional_id
from samzapy.container.supervision.job_records import open_job, this_run
from samzapy.errors import ConfigError, EnvironmentFailure, JobTakenOver, TransactionsRefused, UnknownStream
from samzapy.job.planner import JobModel
from samzapy.storage.changelog.topic import STALL_S, Tail, changelog_of, check_end, first_records, foreign_records
from samzapy.storage.inspection import store_of
from samzapy.system.clients import SystemClients

logger = logging.getLogger(__name__)

#: A run's attempts have epochs above its own, and below the next run's: no container starts so often.
_ATTEMPTS = 1 << 20


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
    job's tasks. `wait` waits for seconds. `run`: the run to write down, else a new one. Raises EnvironmentFailure for
    checkpoints of another job, TransactionsRefused, JobTakenOver if another run takes over meanwhile.
    """
    # 1  the previous run
    previous, _ = peek_owner(checkpoints)
    # 2  the job of the checkpoints
    refuse_another_job(config, previous)
    ids = tuple(transactional_id(config.job_name, member) for member in members)
    mine = replace(run or this_run(), job=(config.name, config.id), transactional_ids=ids)
    earlier = _EarlierRuns(config, tasks, previous, mine)
    written: JobRun | None = None
    settled = False
    while True:
        # 3  this run
        record = replace(mine, epoch=earlier.epoch + _ATTEMPTS, lease_ms=_lease_ms(config, state, mine))
        wanted = record if settled else earlier.added_to(record)
        if wanted != written:
            write_owner(checkpoints, wanted)
            written = wanted
        # 4  fences
        if state.system is not None and earlier.unfenced:
            state = _fenced(config, clients, state, state.system, [*earlier.ids, *ids])
            earlier.unfenced = False
            continue
        # 5  the owners up to this run's record
        owners, complete = peek_owners(checkpoints)
        if earlier.take(owners, complete=complete):
            settled = False
            continue
        if not complete:
            # An unknown run has a transaction open: wait until it ends, by the broker at the latest.
            read_owner(checkpoints)
            continue
        # 6  runs that nothing fences
        if earlier.wait_for_those_that_go_on(checkpoints, wait):
            settled = True
            continue
        # 7  epochs
        if earlier.are_passed_by(checkpoints, written.epoch):
            continue
        # 8  this run alone
        if written == record:
            return Claim(written, state, earlier.were_waited_for)
        settled = True


def _fenced(
    config: JobConfig, clients: SystemClients, state: StateTransactions, system: str, ids: Sequence[str]
) -> StateTransactions:
    """Fence the ids; returns `state`, without transactions if the system refuses them and the guarantee does not need
    them."""
    try:
        fence(clients, system, ids)
    except TransactionsRefused as cause:
        if config.task.guarantee.transactional:
            raise
        return refused(system, str(cause))
    return state


class _EarlierRuns:
    """The runs with records before the record of the run `mine`, back to the run that was found first: each run deals
    with the runs before it. `epoch`: the greatest epoch of these runs. `unfenced`: whether some of their ids, or of the
    ids of this run, may still write."""

    def __init__(self, config: JobConfig, tasks: Collection[str], first: JobRun | None, mine: JobRun) -> None:
        self._config = config
        self._tasks = tasks
        self._first = first
        self._mine = mine
        self._runs: dict[str, JobRun] = {}
        self._waited: set[str] = set()
        self.unfenced = True
        self.epoch = 0
        if first is not None:
            self._add(first)

    @property
    def ids(self) -> list[str]:
        """The ids under which the runs may still write."""
        return [item for run in self._runs.values() for item in _ids(self._config, run, self._tasks)]

    @property
    def were_waited_for(self) -> bool:
        return bool(self._waited)

    def added_to(self, record: JobRun) -> JobRun:
        """The record of this run while it takes over, with the ids and leases of the earlier runs: if this run crashes,
        a later run has to deal with them."""
        leases = [run.lease_ms for name, run in self._runs.items() if name not in self._waited]
        ids = tuple(dict.fromkeys([*(record.transactional_ids or ()), *self.ids]))
        return replace(record, lease_ms=max([record.lease_ms, *leases]), transactional_ids=ids)

    def take(self, owners: Sequence[JobRun], *, complete: bool) -> bool:
        """Note the runs of these records; returns whether one is new. Raises JobTakenOver if a later run owns the job,
        EnvironmentFailure for a run of another job."""
        ids = [run.id for run in owners]
        own = _last(ids, self._mine.id)
        if owners and own < len(ids) - 1 and (own >= 0 or complete):
            newest = owners[-1]
            raise JobTakenOver.by(self._config.name, newest.started_ms, newest.host, newest.pid)
        end = len(ids) if own < 0 else own
        known = -1 if self._first is None else _last(ids[:end], self._first.id)
        # If the record of the first run is gone, the last run before this one has dealt with all others.
        begin = known if known >= 0 else max(0, end - 1)
        result = {run.id: run for run in owners[begin:end] if run.id != self._mine.id}
        fresh = [run for run in result.values() if self._runs.get(run.id) != run]
        for run in fresh:
            refuse_another_job(self._config, run)
            self._add(run)
        return bool(fresh)

    def wait_for_those_that_go_on(self, checkpoints: CheckpointManager, wait: Callable[[float], object]) -> bool:
        """Wait as long as containers of these runs may go on unseen; returns whether that was necessary."""
        left = [run for name, run in self._runs.items() if name not in self._waited]
        longest_ms = max((run.lease_ms for run in left if _may_go_on(checkpoints, run)), default=0)
        if not longest_ms:
            return False
        logger.warning("Waiting %.0f s, as long as the previous run may go on unseen", longest_ms / 1000)
        wait(longest_ms / 1000)
        self._waited.update(self._runs)
        return True

    def are_passed_by(self, checkpoints: CheckpointManager, epoch: int) -> bool:
        """Whether some checkpoint has that epoch or a greater one; its epoch counts from now on."""
        result = checkpoints.read(self._tasks).values()
        greatest = max((item.epoch for item in result if item is not None), default=0)
        if greatest < epoch:
            return False
        self.epoch = greatest
        return True

    def _add(self, run: JobRun) -> None:
        self.epoch = max(self.epoch, run.epoch)
        self.unfenced = True
        if run.id != self._mine.id:
            self._runs[run.id] = run


def _last(ids: Sequence[str], wanted: str) -> int:
    """The index of the last one, -1 if there is none."""
    return max((index for index, item in enumerate(ids) if item == wanted), default=-1)


def take_over_by_tool(
    config: JobConfig,
    clients: SystemClients,
    checkpoints: CheckpointManager,
    members: Iterable[str],
    tasks: Collection[str],
    wait: Callable[[float], object],
    *,
    unseen: bool,
) -> Claim:
    """Own a job for a tool that starts nothing. `unseen`: a run may go on elsewhere.

    Nothing fences such a run without transactions, so the tool waits until it must have noticed. Raises as `take_over`.
    """
    checkpoints.start()
    run = replace(this_run(), pid=NO_DRIVER)
    state = state_transactions(config)
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


def _ids(config: JobConfig, previous: JobRun, tasks: Iterable[str]) -> Iterable[str]:
    """The ids under which an earlier run may still write. An older version recorded none and had an id for each
    task."""
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
    numbers = sorted({task.changelog_partition for task in model.tasks if committed[task.name] is None})
    if config.task.checkpoint is None or not numbers:
        return
    adopted = Adopted.from_json(checkpoints.read_record(JobRecord.ADOPTED).newest)
    ends: dict[SystemStreamPartition, int] = {}
    stores: dict[SystemStreamPartition, str] = {}
    for stream, store in config.changelogs.items():
        if (topic := describe(stream)) is not None:
            for number in filter(topic.partitions.__gt__, numbers):
                ssp = SystemStreamPartition(*stream, number)
                ends[ssp], stores[ssp] = adopted.end(ssp, topic.stream_id), store.name
    refuse_records_past(ends, stores, clients)


def refuse_records_past(
    ends: Mapping[SystemStreamPartition, int], stores: Mapping[SystemStreamPartition, str], clients: SystemClients
) -> None:
    """Raise ForeignRecords if a changelog partition has a record at or after its offset in `ends`. `stores`: the store
    of each partition."""
    tails = [Tail(ssp, max(ends[ssp], log.oldest), log.upcoming) for ssp, log in clients.offsets(ends).items()]
    unread = [tail for tail in tails if tail.start < tail.bound]
    first = first_records(unread, clients.consumer, SYSTEM_CLOCK, STALL_S, open_counts=True)
    if first:
        ssp = min(first)
        raise foreign_records(stores[ssp], ssp, ends[ssp], first[ssp])


def adopt(config: JobConfig, store_names: Collection[str], *, take_over: bool = False) -> dict[str, Mapping[int, int]]:
    """Make all records that the changelogs of the stores hold now the job's own; returns the ends by store and
    partition.

    Raises ConfigError for a store without a changelog, EnvironmentFailure for a job that runs, StateLost for a
    changelog without the last committed record, UnknownStream for a store of `store_names` without the stream.
    """
    if config.task.checkpoint is None:
        raise ConfigError.of("task.checkpoint.factory", "none", "must keep checkpoints to adopt records")
    names = store_names or [store.name for store in config.changelogs.values()]
    changelogs = {name: changelog_of(store_of(config.stores, name)) for name in names}
    adopted = {}
    with open_job(config, "adopt") as (clients, checkpoints):
        refuse_if_running(config, read_owner(checkpoints), take_over=take_over)
        refuse_copied(checkpoints, config.stores)
        tasks = {number: task for task, number in read_changelog_partitions(checkpoints).items()}
        committed = checkpoints.read(tasks.values())
        for name, changelog in changelogs.items():
            topic = clients.admin(changelog.system).describe(changelog.stream)
            if topic is not None:
                logs = clients.offsets([SystemStreamPartition(*changelog, each) for each in range(topic.partitions)])
                for ssp, log in logs.items():
                    if (checkpoint := committed.get(tasks.get(ssp.partition, ""))) is not None:
                        check_end(ssp, log, checkpoint.changelog_offsets.get(name, -1), None, topic.stream_id)
                adopted[changelog] = topic.stream_id, {ssp.partition: log.upcoming for ssp, log in logs.items()}
            elif name in store_names:
                raise UnknownStream(*changelog, store=name)
        checkpoints.start()
        adopt_ends(checkpoints, adopted)
    return {name: adopted[changelog][1] for name, changelog in changelogs.items() if changelog in adopted}
