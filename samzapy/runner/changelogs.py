"""Looks now and then at the changelogs of a job, so that people see their lengths.

A look asks for the oldest offset and the next one of each partition, some at a time. It happens once a minute, and less often for
a job with many changelog partitions; it has a thread and clients of its own, and its failure costs the job nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from types import TracebackType
from typing import final

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.config.job import JobConfig
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.status import ChangelogSize
from samzapy.errors import SamzapyError
from samzapy.job.model import JobModel
from samzapy.job.planner import changelog_partition_count
from samzapy.runner.driver import Periodic
from samzapy.system.clients import SystemClients, job_clients

logger = logging.getLogger(__name__)

#: Seconds before the first look, and the least between two; partitions that are looked at in a second, over all looks.
_FIRST_S, _PACE_S, _A_SECOND = 5.0, 60.0, 200
#: Partitions of one request: twice as many would keep Python's lock for too long, since reports have to be answered.
_AT_ONCE = 1_000
#: Seconds that the end of a run waits for a look; the look changes nothing, so its thread may be left behind.
_PATIENCE_S = 1.0


@final
class ChangelogWatch:
    """A context that looks at the changelogs and reports their sizes to the coordinator."""

    def __init__(
        self,
        changelogs: Mapping[str, Sequence[SystemStreamPartition]],
        clients: Callable[[], SystemClients],
        coordinator: Coordinator,
    ) -> None:
        """`changelogs`: the partitions by store. `clients` makes the clients of a look."""
        self._changelogs = changelogs
        self._clients = clients
        self._coordinator = coordinator
        self._failing = False
        self._pace_s = max(_PACE_S, sum(map(len, changelogs.values())) / _A_SECOND)
        self._looks = Periodic("changelogs", _FIRST_S, self._look)

    @classmethod
    def of(cls, config: JobConfig, model: JobModel, coordinator: Coordinator) -> ChangelogWatch:
        """The watch of a job's changelogs."""
        partitions = range(changelog_partition_count(model))

        def all_of(stream: SystemStream) -> Sequence[SystemStreamPartition]:
            return [SystemStreamPartition(*stream, number) for number in partitions]

        logged = {
            store.name: all_of(store.changelog) for store in config.stores.values() if store.changelog is not None
        }
        return cls(logged, lambda: job_clients(config, "changelogs"), coordinator)

    def __enter__(self) -> ChangelogWatch:
        if self._changelogs:
            self._looks.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._looks.end(_PATIENCE_S)

    def _look(self) -> bool:
        self._looks.pace_s = self._pace_s
        try:
            with closing(self._clients()) as clients:
                sizes = {store: _size(clients, of) for store, of in self._changelogs.items()}
                self._coordinator.note_changelogs(sizes, self._pace_s)
        except SamzapyError as cause:
            level = logging.DEBUG if self._failing else logging.INFO
            logger.log(level, "The sizes of the changelogs cannot be read now: %s", cause)
            self._failing = True
        else:
            self._failing = False
        return True


def _size(clients: SystemClients, ssps: Sequence[SystemStreamPartition]) -> ChangelogSize:
    offsets = sum(log.upcoming - log.oldest for some in _some(ssps) for log in clients.offsets(some).values())
    return ChangelogSize(len(ssps), offsets)


def _some(ssps: Sequence[SystemStreamPartition]) -> Iterator[Sequence[SystemStreamPartition]]:
    for start in range(0, len(ssps), _AT_ONCE):
        yield ssps[start : start + _AT_ONCE]
