"""What stands around a job, looked at and not touched: its inputs and changelogs as they are now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from samzapy.api.checkpoint import CheckpointManager, JobRecord
from samzapy.api.stream import SystemStream
from samzapy.api.system import StreamDescription, SystemAdmin
from samzapy.api.task import AnyTask
from samzapy.cli.output import warn
from samzapy.config.guarantee_warnings import GuaranteeWarning
from samzapy.config.job import JobConfig
from samzapy.container.job_records import open_job
from samzapy.errors import (
    ConfigError,
    ConfigProblem,
    EnvironmentFailure,
    RestoreError,
    RetriableError,
    SamzapyError,
    UnknownStream,
)
from samzapy.job.expansion import InputPartitions, follow_growth, from_json
from samzapy.job.model import JobModel
from samzapy.job.planner import changelog_partition_count, check_copartitioned, keeps_state, plan
from samzapy.runner.adoption import refuse_foreign
from samzapy.runner.durability import check_copies, weakly_kept
from samzapy.runner.take_over import refuse_another_job
from samzapy.storage.changelog.topic import check_changelog
from samzapy.storage.engines import check_checkpoints, load_engines
from samzapy.system.clients import SystemClients
from samzapy.system.factories import system_factory

#: How long a look waits for a transaction that somebody has open.
_PATIENCE_S = 2.0


class NotReachable(SamzapyError):
    """Raised when a system does not answer, so that nothing can be said about what is on it."""

    exit_code = 3


def look_around(
    config: JobConfig, task_class: type[AnyTask] | None = None
) -> tuple[JobModel, tuple[GuaranteeWarning, ...]]:
    """The model the job would have today, were it new; and what the topics that its promise rests on do not survive.

    Raises UnknownStream for an input or a stream of dead letters that does not exist, ConfigError for a broadcast partition that does not,
    EnvironmentFailure for a changelog that could not hold the state and for inputs that a task could not join, NotReachable when a system does not answer.
    """
    with _admins(config) as admins:
        broadcast = sorted(config.task.broadcast_inputs)
        inputs = dict.fromkeys([*config.task.inputs, *(ssp.system_stream for ssp in broadcast)])
        counts = {stream: _existing(admins, stream).partitions for stream in inputs}
        for ssp in broadcast:
            if ssp.partition >= counts[ssp.system_stream]:
                message = f"{ssp.system_stream} has partitions 0 to {counts[ssp.system_stream] - 1}"
                raise ConfigError([ConfigProblem("task.broadcast.inputs", str(ssp), message)])
        _check_copies(config, admins)
        if config.task.errors.dead_letters is not None:
            _existing(admins, config.task.errors.dead_letters)
        read = {stream: counts[stream] for stream in config.task.inputs}
        partitions = follow_growth(_known(config), read, keeps_state=keeps_state(config))
        if task_class is not None:
            check_copartitioned(config, partitions, task_class)
        model = plan(config, read, known=partitions)
        _check_changelogs(config, admins, changelog_partition_count(model))
        _refuse_what_is_others(config, model)
        return model, weakly_kept(config, lambda stream: _describe(admins, stream))


def check_serdes(config: JobConfig, model: JobModel) -> None:
    """Raise ConfigError if a store was written with other serdes, as the checkpoints of the job's tasks say; NotReachable
    when a system does not answer."""
    with _checkpoints(config, "what stores were written with") as (checkpoints, _):
        check_checkpoints(config, load_engines(config), [checkpoints.read(task.name) for task in model.tasks])


def _known(config: JobConfig) -> dict[SystemStream, InputPartitions]:
    """What the job's runs have written down of its inputs."""
    with _checkpoints(config, "what earlier runs knew of the inputs") as (checkpoints, _):
        return from_json(checkpoints.read_record(JobRecord.INPUTS))
    return {}


def _refuse_what_is_others(config: JobConfig, model: JobModel) -> None:
    """Raise EnvironmentFailure for checkpoints of another job, ForeignRecords for changelogs that hold another's records."""
    with _checkpoints(config, "whose the checkpoints and changelogs are") as (checkpoints, clients):
        refuse_another_job(config, checkpoints.read_owner())
        refuse_foreign(config, model, checkpoints, clients)


@contextmanager
def _checkpoints(config: JobConfig, sought: str) -> Iterator[tuple[CheckpointManager, SystemClients]]:
    """What the job has written down, to be looked at, and clients; a warning that `sought` is left out where it cannot be
    read."""
    try:
        with open_job(config, "check") as (clients, checkpoints):
            checkpoints.patience_s = _PATIENCE_S
            yield checkpoints, clients
    except RetriableError as cause:
        raise NotReachable(str(cause)) from cause
    except RestoreError as cause:
        warn(f"left out {sought}, is a transaction open? {cause}")


@contextmanager
def _admins(config: JobConfig) -> Iterator[dict[str, SystemAdmin]]:
    made: dict[str, SystemAdmin] = {}
    try:
        for name, settings in config.systems.items():
            made[name] = system_factory(settings).admin(settings, f"{config.job_name}-check")
        yield made
    finally:
        for admin in made.values():
            admin.close()


def _existing(admins: dict[str, SystemAdmin], stream: SystemStream) -> StreamDescription:
    description = _describe(admins, stream)
    if description is None:
        raise UnknownStream(stream.system, stream.stream)
    return description


def _describe(admins: dict[str, SystemAdmin], stream: SystemStream) -> StreamDescription | None:
    try:
        return admins[stream.system].describe(stream.stream)
    except (EnvironmentFailure, RetriableError) as cause:
        raise NotReachable(str(cause)) from cause


def _check_copies(config: JobConfig, admins: dict[str, SystemAdmin]) -> None:
    try:
        check_copies(config, admins.__getitem__)
    except (EnvironmentFailure, RetriableError) as cause:
        raise NotReachable(str(cause)) from cause


def _check_changelogs(config: JobConfig, admins: dict[str, SystemAdmin], tasks: int) -> None:
    for store in config.stores.values():
        if store.changelog is None:
            continue
        description = _describe(admins, store.changelog)
        if description is None:
            continue  # the first run makes it
        check_changelog(description, store)
        # More may be right: a job that once had more tasks keeps their partitions.
        if description.partitions < tasks:
            raise EnvironmentFailure(
                f"changelog {description.stream} has {description.partitions} partitions, job has {tasks} tasks"
            )
