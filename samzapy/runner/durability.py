"""How well what a job's promise rests on is kept: the copies of its changelogs, its checkpoints and the log of transactions,
and the order of the tables it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from samzapy.api.stream import SystemStream
from samzapy.api.system import StreamDescription
from samzapy.checkpoint import checkpoint_topic
from samzapy.config import changelogs, checkpoint
from samzapy.config.classes import SYSTEMS
from samzapy.config.guarantee import Guarantee
from samzapy.config.job import JobConfig
from samzapy.config.promises import Downgrade, late_rows, weak_copies

#: Kafka's own topic, in which it keeps what became of a transaction.
_TRANSACTIONS = "__transaction_state"


def weakly_kept(
    config: JobConfig, describe: Callable[[SystemStream], StreamDescription | None]
) -> tuple[Downgrade, ...]:
    """What the topics and tables as they are now do not survive, or promise; those that do not exist yet are left out."""
    found: list[Downgrade] = []
    for key, stream in _foundations(config):
        description = describe(stream)
        if description is not None:
            found += weak_copies(key, description)
    for stream in config.task.inputs:
        system = config.systems[stream.system]
        if system.factory == SYSTEMS.short["database"] and (description := describe(stream)) is not None:
            found += late_rows(system.streams[stream.stream].prefix, description, config.task.guarantee)
    return tuple(found)


def _foundations(config: JobConfig) -> Iterator[tuple[str, SystemStream]]:
    for store in config.stores.values():
        if store.changelog is not None:
            yield changelogs.REPLICATION_FACTOR.at(store=store.name), store.changelog
    settings = config.task.checkpoint
    if settings is None or settings.system is None:
        return
    topic = checkpoint_topic(config.name, config.id)
    yield checkpoint.REPLICATION_FACTOR.name, SystemStream(settings.system, topic)
    if config.task.guarantee in {Guarantee.EFFECTIVELY_ONCE, Guarantee.EXACTLY_ONCE}:
        yield f"systems.{settings.system}", SystemStream(settings.system, _TRANSACTIONS)
