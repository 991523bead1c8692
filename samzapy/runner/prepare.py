"""What the driver does before any container runs; nothing is written before everything was checked."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from samzapy.api.checkpoint import CheckpointManager, JobRecord, JobRun
from samzapy.api.state_checkpoint import StateCheckpointTask
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import StreamSpec
from samzapy.api.task import AnyTask, StreamTask
from samzapy.checkpoint import checkpoint_topic, manager_for
from samzapy.checkpoint.states import store_factory
from samzapy.config import asynchronous
from samzapy.config.asynchronous import AsyncConfig
from samzapy.config.job import JobConfig
from samzapy.config.promises import downgrades
from samzapy.container.clients import SystemClients
from samzapy.container.delivery import Delivery, check_transaction_timeout, transaction_system
from samzapy.container.factory import check_timers, load_task_class
from samzapy.container.ownership import this_run
from samzapy.container.sources.processors import load_processors
from samzapy.coordinator.clocks import KeptClocks
from samzapy.errors import ConfigError, ConfigProblem, UnknownStream
from samzapy.job.copartitioning import check_copartitioned, parted
from samzapy.job.expansion import InputPartitions, follow_growth, from_json, growth, to_json
from samzapy.job.model import JobModel
from samzapy.job.planner import changelog_partition_count, keeps_state, plan
from samzapy.metrics import Registry
from samzapy.runner.base import PreparedJob
from samzapy.runner.clock_keeper import read_clocks
from samzapy.runner.durability import weakly_kept
from samzapy.storage.changelog import ensure_access_log, ensure_changelog, find_changelog
from samzapy.storage.manager import load_engines
from samzapy.storage.written_with import check_checkpoints
from samzapy.system.choosers.stack import load_chooser
from samzapy.system.factories import system_factory

logger = logging.getLogger(__name__)


def prepare(config: JobConfig, *, until_end: bool = False) -> PreparedJob:
    """Check and set up, in this order.

    1  the guarantee can be kept with these systems, the task class and the stores' engines can be imported, the
       systems and engines take their settings
    2  every input exists, those that fill stores and the stream of dead letters too; the inputs' partitions are counted
    3  with transactions, this run takes the job over: it is written down as the owner of a checkpoint topic that exists,
       then what an earlier run left open is aborted, and its tasks are fenced
       the tasks keep the changelog partitions they had, and with state the inputs' new partitions come to them; changelogs that exist are compacted and have one for each
    4  the checkpoint topic (or folder), missing changelogs and streams of metrics are created; without transactions, and
       in a new topic, this run is now written down as the job's owner
    5  with `until_end`, and for `bounded` streams, the ends as they are now
    6  what weakens the guarantee is listed, the copies of changelogs and checkpoints included

    Inputs with different partition counts are a warning (Samza's rule: a task per partition number of the largest one),
    and an error for a CopartitionedTask, which would miss matches. Raises ConfigError, EnvironmentFailure.
    """
    transaction_system(config)
    task_class = load_task_class(config.task.task_class)
    load_engines(config)
    check_timers(config, task_class)
    load_processors(config)
    _check_own_state(config, task_class)
    load_chooser(config)
    for settings in config.systems.values():
        system_factory(settings).check(settings)
    clients = SystemClients(config.systems, system_factory, f"{config.name}-{config.id}-driver")
    try:
        counts = _partition_counts(config, clients)
        check_transaction_timeout(config, clients)
        run = this_run()
        model, inputs, clocks = _plan(config, clients, counts, run, task_class)
        ends = _ends(config, clients, model, until_end)
        kept = weakly_kept(config, lambda stream: clients.admin(stream.system).describe(stream.stream))
    finally:
        clients.close()
    warnings = (
        *config.warnings,
        *growth(inputs, counts),
        *_parted(config, inputs),
        *_idle_keys(config, task_class),
    )
    weaker = (*downgrades(config, task_class), *kept)
    return PreparedJob(config, model, ends, warnings, run.id, weaker, clocks)


def _check_own_state(config: JobConfig, task_class: type[AnyTask]) -> None:
    """A state of the task's own goes back to its checkpoint after a crash, stores do not."""
    if not issubclass(task_class, StateCheckpointTask):
        return
    store_factory(config)
    logged = sorted(store.name for store in config.stores.values() if store.source is None)
    if logged:
        message = f"{task_class.__name__} keeps a state of its own, replayed messages would be applied to a store twice"
        raise ConfigError([ConfigProblem(f"stores.{name}.factory", None, message) for name in logged])


def _partition_counts(config: JobConfig, clients: SystemClients) -> dict[SystemStream, int]:
    counts = {}
    for stream in config.task.inputs:
        description = clients.admin(stream.system).describe(stream.stream)
        if description is None:
            raise UnknownStream(stream.system, stream.stream)
        counts[stream] = description.partitions
    for ssp in sorted(config.task.broadcast_inputs):
        description = clients.admin(ssp.system).describe(ssp.stream)
        if description is None:
            raise UnknownStream(ssp.system, ssp.stream)
        if ssp.partition >= description.partitions:
            message = f"{ssp.system_stream} has partitions 0 to {description.partitions - 1}"
            raise ConfigError([ConfigProblem("task.broadcast.inputs", str(ssp), message)])
    for stream in sorted(
        {each for store in config.stores.values() if store.source for each in store.source.all_streams}
    ):
        if clients.admin(stream.system).describe(stream.stream) is None:
            raise UnknownStream(stream.system, stream.stream)
    letters = config.task.errors.dead_letters
    if letters is not None and clients.admin(letters.system).describe(letters.stream) is None:
        raise UnknownStream(letters.system, letters.stream)
    return counts


def _plan(
    config: JobConfig,
    clients: SystemClients,
    counts: Mapping[SystemStream, int],
    run: JobRun,
    task_class: type[AnyTask],
) -> tuple[JobModel, Mapping[SystemStream, InputPartitions], KeptClocks]:
    checkpoints = manager_for(config, clients)
    try:
        taken = _take_over(config, clients, counts, checkpoints, run)
        previous = checkpoints.read_changelog_partitions()
        before = from_json(checkpoints.read_record(JobRecord.INPUTS))
        inputs = follow_growth(before, counts, keeps_state=keeps_state(config))
        check_copartitioned(config, inputs, task_class)
        model = plan(config, counts, previous, inputs)
        clocks = read_clocks(checkpoints, model)
        check_checkpoints(config, load_engines(config), (checkpoints.read(task.name) for task in model.tasks))
        partitions = changelog_partition_count(model)
        changelogs = [(store, store.changelog.system) for store in config.stores.values() if store.changelog]
        for store, system in changelogs:
            find_changelog(clients.admin(system), store, partitions)
        checkpoints.start()
        if not taken:
            checkpoints.write_owner(run)
        for store, system in changelogs:
            ensure_changelog(clients.admin(system), store, partitions)
            ensure_access_log(clients.admin(system), store, partitions)
        for stream in filter(None, (reporter.stream for reporter in config.metrics_reporters)):
            clients.admin(stream.system).create(StreamSpec(stream.stream, 1))
        owned = {task.name: task.changelog_partition for task in model.tasks}
        if {**previous, **owned} != previous:
            checkpoints.write_changelog_partitions({**previous, **owned})
        if inputs != before:
            checkpoints.write_record(JobRecord.INPUTS, to_json(inputs))
        return model, inputs, clocks
    finally:
        checkpoints.close()


def _take_over(
    config: JobConfig,
    clients: SystemClients,
    counts: Mapping[SystemStream, int],
    checkpoints: CheckpointManager,
    run: JobRun,
) -> bool:
    """Own the job, then abort what tasks of an earlier run left open in a transaction: readers of committed records, the
    reader of the checkpoint topic among them, would wait at it until the broker times it out.

    In this order, so that whoever is fenced finds the new owner. False, and nothing is done, without transactions or
    before the first run.
    """
    system = transaction_system(config)
    if system is None or clients.admin(system).describe(checkpoint_topic(config.name, config.id)) is None:
        return False
    checkpoints.write_owner(run)
    Delivery(config, clients, Registry()).take_over(task.name for task in plan(config, counts).tasks)
    return True


def _ends(
    config: JobConfig, clients: SystemClients, model: JobModel, until_end: bool
) -> dict[SystemStreamPartition, int] | None:
    read = {ssp for task in model.tasks for ssp in task.ssps}
    bounded = {ssp for ssp in read if until_end or config.stream(ssp.system_stream).bounded}
    ends: dict[SystemStreamPartition, int] = {}
    for system in sorted({ssp.system for ssp in bounded}):
        ranges = clients.admin(system).offsets([ssp for ssp in bounded if ssp.system == system])
        ends.update({ssp: found.upcoming for ssp, found in ranges.items()})
    return ends or None


def _parted(config: JobConfig, inputs: Mapping[SystemStream, InputPartitions]) -> Iterable[str]:
    # With a task for each partition nobody expects that they meet.
    if config.grouper != "ssp" and (apart := parted(config, inputs)):
        yield f"task.inputs: {apart}"


def _idle_keys(config: JobConfig, task_class: type[AnyTask]) -> Iterable[str]:
    if issubclass(task_class, StreamTask) and config.task.asynchronous != AsyncConfig():
        given = [key.name for key in asynchronous.KEYS if key.name in config.resolved]
        yield f"{', '.join(given)}: without effect on a StreamTask, whose messages are processed one by one"
