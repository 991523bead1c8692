"""Checks the lengths of a job's changelogs, so that people see them.

A check asks for the oldest offset and the next one of each partition, some at a time. It happens once a minute, and less often for
a job with many changelog partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.config.job import JobConfig
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.status import ChangelogSize
from samzapy.job.model import JobModel
from samzapy.job.planner import changelog_partition_count
from samzapy.runner.checks import Checks, Row
from samzapy.system.clients import SystemClients

#: Seconds before the first check, and the least between two; partitions that are checked in a second, over all checks.
_FIRST_S, _PACE_S, _A_SECOND = 5.0, 60.0, 200
#: Partitions of one request: twice as many would keep Python's lock for too long, since reports have to be answered.
_AT_ONCE = 1_000


def watch_changelogs(config: JobConfig, model: JobModel, coordinator: Coordinator, checks: Checks) -> None:
    """Report the sizes of the job's changelogs to the coordinator from now on."""
    partitions = range(changelog_partition_count(model))

    def all_of(stream: SystemStream) -> Sequence[SystemStreamPartition]:
        return [SystemStreamPartition(*stream, number) for number in partitions]

    logged = {store.name: all_of(store.changelog) for store in config.stores.values() if store.changelog is not None}
    watch_sizes(logged, coordinator, checks)


def watch_sizes(
    changelogs: Mapping[str, Sequence[SystemStreamPartition]], coordinator: Coordinator, checks: Checks
) -> None:
    """Like `watch_changelogs`, for these partitions of each store."""
    pace_s = max(_PACE_S, sum(map(len, changelogs.values())) / _A_SECOND)

    def check() -> bool:
        clients = checks.records.clients
        coordinator.note_changelogs({store: _size(clients, of) for store, of in changelogs.items()}, pace_s)
        return True

    if changelogs:
        checks.add(Row("changelogs", pace_s, check), _FIRST_S)


def _size(clients: SystemClients, ssps: Sequence[SystemStreamPartition]) -> ChangelogSize:
    offsets = sum(log.upcoming - log.oldest for some in _some(ssps) for log in clients.offsets(some).values())
    return ChangelogSize(len(ssps), offsets)


def _some(ssps: Sequence[SystemStreamPartition]) -> Iterator[Sequence[SystemStreamPartition]]:
    for start in range(0, len(ssps), _AT_ONCE):
        yield ssps[start : start + _AT_ONCE]
