"""Checks and sets up a job before any container runs; writes nothing before everything is checked."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass

from samzapy.admin.adoption import refuse_foreign
from samzapy.admin.durability import check_copies, weakly_kept
from samzapy.admin.job_check import existing, input_partitions
from samzapy.admin.positions import kept_clocks
from samzapy.admin.take_over import Claim, take_over
from samzapy.api.checkpoint import CheckpointManager, JobRecord, JobRun
from samzapy.api.engine import StorageEngineFactory
from samzapy.api.event_time import StateCheckpointTask
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import StreamDescription, StreamSpec
from samzapy.api.task import AnyTask, StreamTask
from samzapy.checkpoint import manager_for
from samzapy.checkpoint.states import store_factory
from samzapy.config.guarantee_warnings import guarantee_warnings
from samzapy.config.job import JobConfig
from samzapy.config.own_streams import checkpoint_stream
from samzapy.config.stores import StoreConfig
from samzapy.config.tasks import asynchronous
from samzapy.config.tasks.asynchronous import AsyncConfig
from samzapy.container.outputs.producers import check_transaction_timeout
from samzapy.container.sideinputs.filling import load_processors
from samzapy.container.tasks.task_class import check_timers, load_task_class
from samzapy.coordinator.clocks import KeptClocks
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.job.expansion import InputPartitions, follow_growth, from_json, growth, to_json
from samzapy.job.model import JobModel
from samzapy.job.planner import changelog_partition_count, check_copartitioned, keeps_state, parted, plan
from samzapy.job.transactions import StateTransactions, state_transactions, transactional_id, weakened_state
from samzapy.runner.base import PreparedJob
from samzapy.runner.folders import check_folders
from samzapy.serializers import StreamSerdes, task_serdes
from samzapy.storage.changelog.topic import ensure_access_log, ensure_changelog, find_changelog
from samzapy.storage.engines import check_checkpoints, load_engines
from samzapy.system.choosers.stack import load_chooser
from samzapy.system.clients import SystemClients, job_clients
from samzapy.system.factories import has_transactions, load_factory, system_factory


def prepare(config: JobConfig, *, until_end: bool = False) -> PreparedJob:
    """Check and set up, in this order.

    1  the guarantee can be kept with these systems, the task class and the stores' engines can be imported, the
       systems and engines take their settings, the folders that the job writes to can be written to
    2  every input exists, those that fill stores and the stream of dead letters too; the inputs' partitions are counted
    3  the job's checkpoints exist already: this run takes the job over, as `take_over` has it
    4  the tasks keep the changelog partitions they had, and with state the inputs' new partitions come to them;
       changelogs that exist are compacted, have a partition for each, and hold no records of another job
    5  the checkpoint topic (or folder) is created, where there was none, and the job taken over
    6  missing changelogs and streams of metrics are created
    7  with `until_end`, and for `bounded` streams, the ends as they are now
    8  the warnings about the guarantee are listed, those about copies of changelogs and checkpoints included

    Inputs with different partition counts are a warning (Samza's rule: a task per partition number of the largest one),
    and an error for a CopartitionedTask, which would miss matches. Raises ConfigError, EnvironmentFailure.
    """
    code = _checked_code(config)
    state, task_class = code.state, code.task_class
    with closing(job_clients(config, "driver")) as clients:
        counts = _partition_counts(config, clients)
        check_transaction_timeout(config.task.transaction_timeout_ms, clients, state.system)
        check_copies(config, clients.admin)
        planned = _Planning(config, clients, counts, code).planned()
        claim = planned.claim
        ends = _ends(config, clients, planned.model, until_end)
        kept = weakly_kept(config, lambda stream: clients.admin(stream.system).describe(stream.stream))
    weaker = (*guarantee_warnings(config, load_factory, task_class), *weakened_state(config, claim.state), *kept)
    return PreparedJob(
        config,
        planned.model,
        ends,
        tuple(_warnings(config, counts, planned.inputs, task_class)),
        claim.run.id,
        weaker,
        planned.clocks,
        transactions=claim.state.system is not None,
        epoch=None if config.task.checkpoint is None else claim.run.epoch,
        lease_ms=claim.run.lease_ms,
    )


@dataclass(frozen=True)
class _Code:
    """The classes that the job file names, and the transactions that its systems allow."""

    state: StateTransactions
    task_class: type[AnyTask]
    engines: Mapping[str, StorageEngineFactory]


def _checked_code(config: JobConfig) -> _Code:
    """Step 1 of `prepare`."""
    state = state_transactions(config, has_transactions)
    task_class = load_task_class(config.task.task_class)
    engines = load_engines(config)
    StreamSerdes(config, task_serdes(config), task_class)
    check_timers(config, task_class)
    load_processors(config)
    _check_own_state(config, task_class)
    load_chooser(config)
    for settings in config.systems.values():
        system_factory(settings).check(settings)
    check_folders(config, engines)
    return _Code(state, task_class, engines)


def _check_own_state(config: JobConfig, task_class: type[AnyTask]) -> None:
    """Refuse stores beside a state of the task's own: after a crash that state goes back to its checkpoint, stores do not."""
    if not issubclass(task_class, StateCheckpointTask):
        return
    store_factory(config)
    logged = sorted(store.name for store in config.stores.values() if store.source is None)
    if logged:
        message = f"{task_class.__name__} keeps a state of its own, replayed messages would be applied to a store twice"
        raise ConfigError([ConfigProblem(f"stores.{name}.factory", None, message) for name in logged])


def _partition_counts(config: JobConfig, clients: SystemClients) -> dict[SystemStream, int]:
    def describe(stream: SystemStream) -> StreamDescription | None:
        return clients.admin(stream.system).describe(stream.stream)

    counts = input_partitions(config, describe)
    for stream in sorted(
        {each for store in config.stores.values() if store.source for each in store.source.all_streams}
    ):
        existing(stream, describe)
    letters = config.task.errors.dead_letters
    if letters is not None:
        existing(letters, describe)
    return counts


@dataclass(frozen=True)
class _Planned:
    """The model of the job as its checkpoints and inputs make it, and the claim of this run."""

    model: JobModel
    inputs: Mapping[SystemStream, InputPartitions]
    clocks: KeptClocks
    claim: Claim


class _Planning:
    """Steps 3 to 6 of `prepare`."""

    def __init__(
        self,
        config: JobConfig,
        clients: SystemClients,
        counts: Mapping[SystemStream, int],
        code: _Code,
    ) -> None:
        self._config = config
        self._clients = clients
        self._counts = counts
        self._state = code.state
        self._task_class = code.task_class
        self._engines = code.engines

    def planned(self) -> _Planned:
        with closing(manager_for(self._config, self._clients)) as checkpoints:
            return self._steps(checkpoints)

    def _steps(self, checkpoints: CheckpointManager) -> _Planned:
        config = self._config
        # 3  the job is taken over
        claim = self._take_over(checkpoints, plan(config, self._counts)) if self._known() else None
        # 4  the model
        previous = checkpoints.read_changelog_partitions()
        before = from_json(checkpoints.read_record(JobRecord.INPUTS))
        inputs = follow_growth(before, self._counts, keeps_state=keeps_state(config))
        check_copartitioned(config, inputs, self._task_class)
        model = plan(config, self._counts, previous, inputs)
        committed = checkpoints.read_all(task.name for task in model.tasks)
        clocks = kept_clocks(committed, checkpoints.read_record(JobRecord.CLOCK))
        check_checkpoints(config, self._engines, committed.values())
        self._check_changelogs(model)
        refuse_foreign(config, model, committed, checkpoints, self._clients)
        # 5  checkpoints
        checkpoints.start()
        if claim is None or not _covers(claim, config, model):
            claim = self._take_over(checkpoints, model, None if claim is None else claim.run)
        # 6  streams
        self._create(model)
        owned = {task.name: task.changelog_partition for task in model.tasks}
        if {**previous, **owned} != previous:
            checkpoints.write_changelog_partitions({**previous, **owned})
        if inputs != before:
            checkpoints.write_record(JobRecord.INPUTS, to_json(inputs))
        return _Planned(model, inputs, clocks, claim)

    def _known(self) -> bool:
        """Whether there are checkpoints already: then the job may have an owner."""
        checkpoints = checkpoint_stream(self._config)
        if checkpoints is None:
            return False
        return self._clients.admin(checkpoints.system).describe(checkpoints.stream) is not None

    def _take_over(self, checkpoints: CheckpointManager, model: JobModel, run: JobRun | None = None) -> Claim:
        members = [container.id for container in model.containers]
        tasks = [task.name for task in model.tasks]
        wait = threading.Event().wait
        return take_over(self._config, self._clients, checkpoints, self._state, members, tasks, wait, run=run)

    def _check_changelogs(self, model: JobModel) -> None:
        partitions = changelog_partition_count(model)
        for store, system in self._changelogs():
            find_changelog(self._clients.admin(system), store, partitions)

    def _create(self, model: JobModel) -> None:
        partitions = changelog_partition_count(model)
        for store, system in self._changelogs():
            ensure_changelog(self._clients.admin(system), store, partitions)
            ensure_access_log(self._clients.admin(system), store, partitions)
        for stream in filter(None, (reporter.stream for reporter in self._config.metrics_reporters)):
            self._clients.admin(stream.system).create(StreamSpec(stream.stream, 1))

    def _changelogs(self) -> list[tuple[StoreConfig, str]]:
        return [(store, store.changelog.system) for store in self._config.stores.values() if store.changelog]


def _covers(claim: Claim, config: JobConfig, model: JobModel) -> bool:
    """Whether the run was written down with the ids of every container of the model."""
    ids = {transactional_id(config.job_name, container.id) for container in model.containers}
    return ids <= set(claim.run.transactional_ids or ())


def _ends(
    config: JobConfig, clients: SystemClients, model: JobModel, until_end: bool
) -> dict[SystemStreamPartition, int] | None:
    read = {ssp for task in model.tasks for ssp in task.ssps}
    bounded = {ssp for ssp in read if until_end or config.stream(ssp.system_stream).bounded}
    return {ssp: found.upcoming for ssp, found in clients.offsets(bounded).items()} or None


def _warnings(
    config: JobConfig,
    counts: Mapping[SystemStream, int],
    inputs: Mapping[SystemStream, InputPartitions],
    task_class: type[AnyTask],
) -> Iterable[str]:
    yield from config.warnings
    yield from growth(inputs, counts)
    # With a task for each partition no task expects them to meet.
    if config.grouper != "ssp" and (apart := parted(config, inputs)):
        yield f"task.inputs: {apart}"
    if issubclass(task_class, StreamTask) and config.task.asynchronous != AsyncConfig():
        given = [key.name for key in asynchronous.KEYS if key.name in config.resolved]
        yield f"{', '.join(given)}: without effect on a StreamTask, whose messages are processed one by one"
