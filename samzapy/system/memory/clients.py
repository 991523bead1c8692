"""The cluster as a reader and as a writer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from samzapy.api.stream import SystemStreamPartition
from samzapy.clock import SYSTEM_CLOCK
from samzapy.errors import UnknownStream
from samzapy.system.embedded.consumer import Fetch, LogReader
from samzapy.system.embedded.pending import Batches
from samzapy.system.embedded.producer import LastOffsets, LogWriter, ProducerIdentity
from samzapy.system.embedded.topic import Topic
from samzapy.system.memory.cluster import MemoryCluster


class MemoryReader(LogReader):
    """Reads, and sleeps on the cluster's condition while there is nothing."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._seen = -1

    def open(self, ssps: Iterable[SystemStreamPartition]) -> None:
        for ssp in ssps:
            self._cluster.offsets(ssp)

    def read(
        self, positions: Sequence[tuple[SystemStreamPartition, int]], max_records: int
    ) -> dict[SystemStreamPartition, Fetch]:
        self._seen = self._cluster.version()
        return self._cluster.fetch(positions, max_records)

    def wait(self, timeout_s: float) -> float:
        # Waiting takes real time, whatever clock the cluster dates its records with.
        start = SYSTEM_CLOCK.monotonic()
        changed = self._cluster.wait(self._seen, timeout_s)
        return SYSTEM_CLOCK.monotonic() - start if changed else timeout_s

    def close(self) -> None:
        return


class MemoryWriter(LogWriter):
    """Writes for the clients of one system, whose name the errors carry."""

    marker_offsets = 1

    def __init__(self, cluster: MemoryCluster, system: str) -> None:
        self._cluster = cluster
        self._system = system

    def topic(self, stream: str) -> Topic:
        found = self._cluster.find(stream)
        if found is None:
            raise UnknownStream(self._system, stream, f"cluster '{self._cluster.name}'")
        return found

    def append(self, batches: Batches, owner: ProducerIdentity | None) -> LastOffsets:
        return self._cluster.append(batches, owner)

    def take_over(self, transactional_id: str, timeout_ms: int) -> ProducerIdentity:
        return self._cluster.take_over(transactional_id, timeout_ms)

    def commit(self, batches: Batches, owner: ProducerIdentity) -> LastOffsets:
        return self._cluster.commit(batches, owner)

    def abort(self, owner: ProducerIdentity) -> None:
        self._cluster.abort(owner)

    def close(self, written: frozenset[str]) -> None:
        for stream in written:
            if self._cluster.find(stream) is not None:
                self._cluster.clean(self._system, stream, only_if_due=True)
