"""The admin of a memory cluster."""

from __future__ import annotations

from collections.abc import Iterable

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange, StreamDescription, StreamSpec, SystemAdmin
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

    def offsets_at(self, ssps: Iterable[SystemStreamPartition], time_ms: int) -> dict[SystemStreamPartition, int]:
        return {ssp: self._cluster.offset_at(ssp, time_ms) for ssp in ssps}

    def delete_records(self, ssp: SystemStreamPartition, before: int) -> None:
        self._cluster.truncate(ssp, before)

    def grow(self, stream: str, partitions: int) -> None:
        self._cluster.grow(self._system, stream, partitions)

    def delete(self, stream: str) -> None:
        self._cluster.delete(self._system, stream)

    def compact(self, stream: str) -> int:
        """Clean the stream now, as its `cleanup.policy` says: keep the newest record of each key, drop tombstones that
        were first compacted `delete.retention.ms` ago, drop what `retention.ms` lets go. Returns how many records went.
        """
        return self._cluster.clean(self._system, stream)

    def close(self) -> None:
        return
