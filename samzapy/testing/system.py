"""The system that tested jobs run on: the memory system, whichever system their file names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from samzapy.api.envelope import Headers
from samzapy.api.system import OutgoingRecord, StreamSpec, SystemProducer, SystemSettings
from samzapy.system.embedded.producer import Batches, LastOffsets, LogProducer, ProducerIdentity
from samzapy.system.embedded.topic import Topic
from samzapy.system.memory.clients import MemoryWriter
from samzapy.system.memory.cluster import MemoryCluster
from samzapy.system.memory.factory import MemorySystemFactory

#: What a tested job has for `systems.NAME.samza.factory`.
FACTORY = "samzapy.testing.system:TestedSystemFactory"


class Line:
    """The connection between the clients of one attempt and their cluster.

    A line that is cut lets nothing through, as after a SIGKILL: no abort, no last flush.
    """

    def __init__(self) -> None:
        self.is_cut = False

    def cut(self) -> None:
        """Let nothing pass from now on."""
        self.is_cut = True


class TestedSystemFactory(MemorySystemFactory):
    """As the memory system, but that writing to a stream that does not exist creates it, with as many partitions as the
    widest one of the cluster has, and that what is sent is in the log at once instead of with the next flush: so a crash
    shows the most that the job's guarantee allows to be repeated."""

    __test__ = False

    def __init__(self, line: Line | None = None) -> None:
        self._line = line or Line()

    def producer(
        self, settings: SystemSettings, client_id: str, transactional_id: str | None = None, timeout_ms: int = 60_000
    ) -> SystemProducer:
        cluster = cluster_of(settings)
        writer = _LineWriter(cluster, settings.name, self._line)
        return _PromptProducer(settings.name, writer, cluster.clock, transactional_id, timeout_ms)


def cluster_of(settings: SystemSettings) -> MemoryCluster:
    """The cluster of a tested job's system."""
    return MemoryCluster.named(settings.properties["cluster"])


class _LineWriter(MemoryWriter):
    """Writes as long as the line is not cut."""

    def __init__(self, cluster: MemoryCluster, system: str, line: Line) -> None:
        super().__init__(cluster, system)
        self._line = line

    def topic(self, stream: str) -> Topic:
        cluster = self._cluster
        if cluster.find(stream) is None:
            found = (cluster.find(known) for known in cluster.streams())
            cluster.create(StreamSpec(stream, max((topic.partitions for topic in found if topic), default=1)))
        return super().topic(stream)

    def append(self, batches: Batches, owner: ProducerIdentity | None) -> LastOffsets:
        return {} if self._line.is_cut else super().append(batches, owner)

    def commit(self, batches: Batches, owner: ProducerIdentity) -> LastOffsets:
        return {} if self._line.is_cut else super().commit(batches, owner)

    def abort(self, owner: ProducerIdentity) -> None:
        if not self._line.is_cut:
            super().abort(owner)


class _PromptProducer(LogProducer):
    """Writes what it is given before it returns."""

    def send(self, records: Sequence[OutgoingRecord]) -> None:
        super().send(records)
        self.flush()

    def send_changes(
        self, stream: str, partition: int, changes: Iterable[tuple[bytes, bytes | None]], headers: Headers | None = None
    ) -> None:
        super().send_changes(stream, partition, changes, headers)
        self.flush()
