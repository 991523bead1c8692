"""Checks the lengths of a job's changelogs, so that people see them, and warns of one that has got further partitions.

A check asks for the oldest offset and the next one of each partition, some at a time. It happens once a minute, and less often for
a job with many changelog partitions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.config.job import JobConfig
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.status import ChangelogSize
from samzapy.job.model import JobModel
from samzapy.job.planner import changelog_partition_count
from samzapy.runner.checks import Checks, Row
from samzapy.system.clients import SystemClients

logger = logging.getLogger(__name__)

#: Seconds before the first check, and the least between two; partitions that are checked in a second, over all checks.
_FIRST_S, _PACE_S, _A_SECOND = 5.0, 60.0, 200
#: Partitions of one request: twice as many would keep Python's lock for too long, since reports have to be answered.
_AT_ONCE = 1_000


def watch_changelogs(
    config: JobConfig,
    model: JobModel,
    coordinator: Coordinator,
    checks: Checks,
    on_event: Callable[[str], None] = logger.warning,
) -> None:
    """Report the sizes of the job's changelogs to the coordinator from now on. `on_event` gets a line for each that has grown."""
    partitions = range(changelog_partition_count(model))

    def all_of(stream: SystemStream) -> Sequence[SystemStreamPartition]:
        return [SystemStreamPartition(*stream, number) for number in partitions]

    logged = {store.name: all_of(store.changelog) for store in config.stores.values() if store.changelog is not None}
    watch_sizes(logged, coordinator, checks, on_event)


def watch_sizes(
    changelogs: Mapping[str, Sequence[SystemStreamPartition]],
    coordinator: Coordinator,
    checks: Checks,
    on_event: Callable[[str], None] = logger.warning,
) -> None:
    """Like `watch_changelogs`, for these partitions of each store."""
    known = {of[0].system_stream: (store, len(of)) for store, of in changelogs.items() if of}
    pace_s = max(_PACE_S, sum(map(len, changelogs.values())) / _A_SECOND)

    def check() -> bool:
        clients = checks.records.clients
        for stream, found in clients.describe(known).items():
            store, count = known[stream]
            if found is not None and found.partitions > count:
                known[stream] = store, found.partitions
                on_event(f"warning: {_grown(stream, store, count, found.partitions)}")
        coordinator.note_changelogs({store: _size(clients, of) for store, of in changelogs.items()}, pace_s)
        return True

    if changelogs:
        checks.add(Row("changelogs", pace_s, check), _FIRST_S)


def _grown(stream: SystemStream, store: str, before: int, now: int) -> str:
    return (
        f"changelog {stream} of store '{store}' has grown from {before} to {now} partitions: this run goes on with the first "
        f"{before}, but no start accepts it, and Kafka takes no partition away. Before the next start copy its entries to a "
        f"changelog of another name, stores.{store}.changelog (samzapy.dataframe.read_store, then write_store with place_by)"
    )


def _size(clients: SystemClients, ssps: Sequence[SystemStreamPartition]) -> ChangelogSize:
    offsets = sum(log.upcoming - log.oldest for some in _some(ssps) for log in clients.offsets(some).values())
    return ChangelogSize(len(ssps), offsets)


def _some(ssps: Sequence[SystemStreamPartition]) -> Iterator[Sequence[SystemStreamPartition]]:
    for start in range(0, len(ssps), _AT_ONCE):
        yield ssps[start : start + _AT_ONCE]
