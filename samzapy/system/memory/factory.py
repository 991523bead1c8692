"""`systems.NAME.samza.factory=samzapy.system.memory.factory:MemorySystemFactory`."""

from __future__ import annotations

from collections.abc import Iterable

from samzapy.api.system import SystemConsumer, SystemFactory, SystemProducer, SystemSettings
from samzapy.system.embedded.consumer import LogConsumer
from samzapy.system.embedded.producer import LogProducer
from samzapy.system.memory.clients import MemoryAdmin, MemoryReader, MemoryWriter
from samzapy.system.memory.cluster import MemoryCluster


class MemorySystemFactory(SystemFactory):
    """Clients of the cluster that `systems.NAME.cluster` names (default: the system's name); ends with the process.

    Other keys of the system mean nothing here and are ignored, so that a job file for Kafka runs unchanged.
    """

    transactional = True
    marker_offsets = 1

    def durability(self, settings: SystemSettings) -> Iterable[tuple[str, str]]:
        yield "samza.factory", "memory: its streams are gone when this process ends, changelogs and checkpoints too"

    def kept_on_this_machine(self, settings: SystemSettings) -> str:
        return "the memory of one process"

    def consumer(self, settings: SystemSettings, client_id: str) -> SystemConsumer:
        cluster = _cluster(settings)
        return LogConsumer(settings.name, lambda: MemoryReader(cluster))

    def producer(
        self, settings: SystemSettings, client_id: str, transactional_id: str | None = None, timeout_ms: int = 60_000
    ) -> SystemProducer:
        cluster = _cluster(settings)
        writer = MemoryWriter(cluster, settings.name)
        return LogProducer(settings.name, writer, cluster.clock, transactional_id, timeout_ms)

    def admin(self, settings: SystemSettings, client_id: str) -> MemoryAdmin:
        return MemoryAdmin(_cluster(settings), settings.name)


def _cluster(settings: SystemSettings) -> MemoryCluster:
    return MemoryCluster.named(settings.properties.get("cluster", settings.name))
