"""The reader, the writer and the admin of a memory cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange, StreamDescription, StreamSpec, SystemAdmin
from samzapy.clock import SYSTEM_CLOCK
from samzapy.errors import UnknownStream
from samzapy.system.embedded.consumer import Fetch, LogReader
from samzapy.system.embedded.producer import Batches, LastOffsets, LogWriter, ProducerIdentity
from samzapy.system.embedded.topic import Topic
from samzapy.system.memory.cluster import MemoryCluster


class MemoryAdmin(SystemAdmin):
    """An admin that can also compact."""

    def __init__(self, cluster: MemoryCluster, system: str) -> None:
        self._cluster = cluster
        self._system = system

    def create(self, spec: StreamSpec) -> bool:
        return self._cluster.create(spec)

    def describe(self, stream: str) -> StreamDescription | None:
        found = self._cluster.find(stream)
        if found is None:
            return None
        return StreamDescription(stream, found.partitions, found.stream_id, dict(found.config))

    def list_streams(self) -> list[str]:
        return self._cluster.streams()

    def offsets(self, ssps: Iterable[SystemStreamPartition]) -> dict[SystemStreamPartition, OffsetRange]:
        return {ssp: self._cluster.offsets(ssp) for ssp in ssps}

    def ends(
        self, ssps: Iterable[SystemStreamPartition], *, committed: bool = False
    ) -> dict[SystemStreamPartition, int]:
        return {ssp: self._cluster.end(ssp, committed=committed) for ssp in ssps}

    def offsets_at(self, ssps: Iterable[SystemStreamPartition], time_ms: int) -> dict[SystemStreamPartition, int]:
        return {ssp: self._cluster.offset_at(ssp, time_ms) for ssp in ssps}

    def delete_records(self, ssp: SystemStreamPartition, before: int) -> None:
        self._cluster.truncate(ssp, before)

    def grow(self, stream: str, partitions: int) -> None:
        self._cluster.grow(self._system, stream, partitions)

    def delete(self, stream: str) -> None:
        self._cluster.delete(self._system, stream)

    def compact(self, stream: str) -> int:
        """Clean the stream now by its `cleanup.policy`: keep the newest record of each key, drop tombstones that were first
        compacted `delete.retention.ms` ago, drop records older than `retention.ms`. Returns the number of dropped records.
        """
        return self._cluster.clean(self._system, stream)

    def close(self) -> None:
        return


class MemoryReader(LogReader):
    """Reads, and sleeps on the cluster's condition while there is nothing to read."""

    reads_by_name = True

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

    def stream_id(self, stream: str) -> str:
        found = self._cluster.find(stream)
        return "" if found is None else found.stream_id

    def wait(self, timeout_s: float) -> float:
        # Waiting takes real time, even if the cluster dates its records by another clock.
        start = SYSTEM_CLOCK.monotonic()
        changed = self._cluster.wait(self._seen, timeout_s)
        return SYSTEM_CLOCK.monotonic() - start if changed else timeout_s

    def close(self) -> None:
        return


class MemoryWriter(LogWriter):
    """Writes for the clients of one system; errors carry its name."""

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
