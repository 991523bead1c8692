"""What the driver does before any container runs; nothing is written before everything was checked."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.task import AnyTask, StreamTask
from samzapy.checkpoint import checkpoint_topic, manager_for
from samzapy.config import asynchronous
from samzapy.config.asynchronous import AsyncConfig
from samzapy.config.job import JobConfig
from samzapy.container.clients import SystemClients
from samzapy.container.delivery import Delivery, transaction_system
from samzapy.container.factory import load_task_class
from samzapy.errors import ConfigError, ConfigProblem, UnknownStream
from samzapy.job.model import JobModel
from samzapy.job.planner import changelog_partition_count, plan
from samzapy.runner.base import PreparedJob
from samzapy.storage.changelog import ensure_changelog, find_changelog
from samzapy.storage.manager import load_engines
from samzapy.system.factories import system_factory

logger = logging.getLogger(__name__)


def prepare(config: JobConfig, *, until_end: bool = False) -> PreparedJob:
    """Check and set up, in this order.

    1  the guarantee can be kept with these systems, the task class and the stores' engines can be imported, the
       systems and engines take their settings
    2  every input exists, and the stream of dead letters; the inputs' partitions are counted
    3  with transactions, what an earlier run left open is aborted, and its tasks are fenced
       the tasks keep the changelog partitions they had; changelogs that exist are compacted and have one for each
    4  the checkpoint topic (or folder) and missing changelogs are created
    5  with `until_end`, and for `bounded` streams, the ends as they are now

    Inputs with different partition counts are no error (Samza's rule: a task per partition number of the largest
    one), but a warning: whoever joins them by key would miss matches. Raises ConfigError, EnvironmentFailure.
    """
    transaction_system(config)
    task_class = load_task_class(config.task.task_class)
    load_engines(config)
    for settings in config.systems.values():
        system_factory(settings).check(settings)
    clients = SystemClients(config.systems, system_factory, f"{config.name}-{config.id}-driver")
    try:
        counts = _partition_counts(config, clients)
        model = _plan(config, clients, counts)
        ends = _ends(config, clients, model, until_end)
    finally:
        clients.close()
    warnings = (*config.warnings, *_uneven(config, counts), *_idle_keys(config, task_class))
    return PreparedJob(config, model, ends, warnings)


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
    letters = config.task.errors.dead_letters
    if letters is not None and clients.admin(letters.system).describe(letters.stream) is None:
        raise UnknownStream(letters.system, letters.stream)
    return counts


def _plan(config: JobConfig, clients: SystemClients, counts: Mapping[SystemStream, int]) -> JobModel:
    checkpoints = manager_for(config, clients)
    try:
        _end_predecessors(config, clients, counts)
        previous = checkpoints.read_changelog_partitions()
        model = plan(config, counts, previous)
        partitions = changelog_partition_count(model)
        changelogs = [(store, store.changelog.system) for store in config.stores.values() if store.changelog]
        for store, system in changelogs:
            find_changelog(clients.admin(system), store, partitions)
        checkpoints.start()
        for store, system in changelogs:
            ensure_changelog(clients.admin(system), store, partitions)
        owned = {task.name: task.changelog_partition for task in model.tasks}
        if {**previous, **owned} != previous:
            checkpoints.write_changelog_partitions({**previous, **owned})
        return model
    finally:
        checkpoints.close()


def _end_predecessors(config: JobConfig, clients: SystemClients, counts: Mapping[SystemStream, int]) -> None:
    """Abort what tasks of an earlier run left open in a transaction: readers of committed records, the reader of the
    checkpoint topic among them, would wait at it until the broker times it out."""
    system = transaction_system(config)
    if system is None:
        return
    topic = clients.admin(system).describe(checkpoint_topic(config.name, config.id))
    if topic is not None:
        Delivery(config, clients).take_over(task.name for task in plan(config, counts).tasks)


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


def _uneven(config: JobConfig, counts: Mapping[SystemStream, int]) -> Iterable[str]:
    if config.grouper == "partition" and len(set(counts.values())) > 1:
        shown = " ".join(f"{stream}={count}" for stream, count in counts.items())
        yield f"task.inputs: partition counts differ: {shown}; messages of equal keys do not meet in one task"


def _idle_keys(config: JobConfig, task_class: type[AnyTask]) -> Iterable[str]:
    if issubclass(task_class, StreamTask) and config.task.asynchronous != AsyncConfig():
        given = [key.name for key in asynchronous.KEYS if key.name in config.resolved]
        yield f"{', '.join(given)}: without effect on a StreamTask, whose messages are processed one by one"
