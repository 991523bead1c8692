"""Refuses changelogs with records that the job has not written, and adopts such records on demand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing

from samzapy.admin.running import refuse_if_running
from samzapy.api.checkpoint import Checkpoint, CheckpointManager, JobRecord
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import StreamDescription
from samzapy.checkpoint.records import Adopted
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.container.supervision.job_records import open_job
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.job.model import JobModel
from samzapy.storage.changelog.end import STALL_S, foreign_records
from samzapy.storage.changelog.reading import Tail, first_records
from samzapy.system.clients import SystemClients


def refuse_foreign(
    config: JobConfig,
    model: JobModel,
    committed: Mapping[str, Checkpoint | None],
    checkpoints: CheckpointManager,
    clients: SystemClients,
    describe: Callable[[SystemStream], StreamDescription | None],
) -> None:
    """Raise ForeignRecords for a changelog that holds records of a task that has never committed.

    Such a changelog was copied together with its job file. Tasks that have committed, as their checkpoints (`committed`)
    say, look for themselves when they restore. `describe` gives a stream, None if it does not exist.
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
    """With one consumer a system."""
    found: dict[SystemStreamPartition, int] = {}
    for system in dict.fromkeys(tail.ssp.system for tail in tails):
        of_system = [tail for tail in tails if tail.ssp.system == system]
        with closing(clients.consumer(system)) as consumer:
            found.update(first_records(of_system, consumer, SYSTEM_CLOCK, STALL_S, open_counts=True))
    return found


def adopt(config: JobConfig, store_names: Collection[str], *, take_over: bool = False) -> dict[str, Mapping[int, int]]:
    """Make all records that the changelogs of the stores hold now the job's own; returns the ends by store and partition.

    Raises ConfigError for a store without a changelog, EnvironmentFailure for a job that runs.
    """
    if config.task.checkpoint is None:
        raise ConfigError([ConfigProblem("task.checkpoint.factory", "none", "must keep checkpoints to adopt records")])
    stores = [
        _logged(config.stores, name) for name in store_names or [s.name for s in config.stores.values() if s.changelog]
    ]
    found: dict[str, Mapping[int, int]] = {}
    with open_job(config, "adopt") as (clients, checkpoints):
        refuse_if_running(config, checkpoints.read_owner(), take_over=take_over)
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
