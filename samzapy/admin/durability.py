"""Checks how well the foundations of a guarantee are kept.

1. The copies of changelogs, of checkpoints and of Kafka's log of transactions.
2. The order of rows in the tables of a database that the job reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from samzapy.api.stream import SystemStream
from samzapy.api.system import StreamDescription, SystemAdmin
from samzapy.config.guarantee_warnings import GuaranteeWarning, late_rows, weak_copies
from samzapy.config.job import JobConfig
from samzapy.config.own_streams import checkpoint_stream, state_checkpoint_stream
from samzapy.config.stores import changelogs
from samzapy.config.tasks import checkpoint, state_checkpoint
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.system.factories import load_factory

#: Kafka's own topic, in which it keeps the outcome of transactions.
_TRANSACTIONS = "__transaction_state"


def weakly_kept(
    config: JobConfig, describe: Callable[[SystemStream], StreamDescription | None]
) -> tuple[GuaranteeWarning, ...]:
    """The warnings about topics and tables as they are now; those that do not exist yet are left out."""
    found: list[GuaranteeWarning] = []
    for key, stream in _foundations(config):
        description = describe(stream)
        if description is not None:
            found += weak_copies(key, description)
    for stream in config.task.inputs:
        system = config.systems[stream.system]
        if load_factory(system).orders_by_time and (description := describe(stream)) is not None:
            found += late_rows(system.streams[stream.stream].prefix, description, config.task.guarantee)
    return tuple(found)


def check_copies(config: JobConfig, admin_of: Callable[[str], SystemAdmin]) -> None:
    """Raise ConfigError for every stream that is still to be made with more copies than its system has brokers."""
    most: dict[str, int | None] = {}
    problems = []
    for key, stream, factor in _asked_for(config):
        if stream.system not in most:
            most[stream.system] = admin_of(stream.system).most_replicas()
        limit = most[stream.system]
        if limit is None or factor <= limit or admin_of(stream.system).describe(stream.stream) is not None:
            continue
        message = f"must be at most {limit}, the number of brokers of system '{stream.system}'"
        problems.append(ConfigProblem(key, str(factor), message))
    if problems:
        raise ConfigError(problems)


def _asked_for(config: JobConfig) -> Iterable[tuple[str, SystemStream, int]]:
    """The numbers of copies that the job file asks for, each with its key and stream."""
    for store in config.stores.values():
        factor = store.changelog_replication_factor
        if store.changelog is not None and factor is not None:
            places = changelogs.REPLICATION_FACTOR.places(store=store.name)
            yield next((key for key in places if key in config.resolved), places[0]), store.changelog, factor
    checkpoints, kept = checkpoint_stream(config), config.task.checkpoint
    if checkpoints is not None and kept is not None and kept.replication_factor is not None:
        yield checkpoint.REPLICATION_FACTOR.name, checkpoints, kept.replication_factor
    states, factor = state_checkpoint_stream(config), config.state_checkpoint.replication_factor
    if states is not None and factor is not None:
        yield state_checkpoint.REPLICATION_FACTOR.name, states, factor


def _foundations(config: JobConfig) -> Iterator[tuple[str, SystemStream]]:
    for store in config.stores.values():
        if store.changelog is not None:
            yield changelogs.REPLICATION_FACTOR.at(store=store.name), store.changelog
    checkpoints = checkpoint_stream(config)
    if checkpoints is None:
        return
    yield checkpoint.REPLICATION_FACTOR.name, checkpoints
    if config.task.guarantee.transactional:
        yield f"systems.{checkpoints.system}", SystemStream(checkpoints.system, _TRANSACTIONS)
