"""The streams of one system: made, read whole as evidence, and deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from samzapy.api.envelope import ID_HEADER
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import RecordBatch, StreamSpec, SystemConsumer, SystemProducer, SystemSettings
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.errors import UnknownStream
from samzapy.system.factories import system_factory
from samzapy.verify.evidence import Record
from samzapy.verify.waiting import NoProgress

_CLIENT = "samzapy-verify"
_POLL_RECORDS = 20_000
#: Seconds: longer than a transaction that was left open takes to be aborted.
_LONGEST_SILENCE_S = 90.0


class Streams:
    """Everything that is asked of the system from outside the job."""

    def __init__(self, settings: SystemSettings, clock: Clock = SYSTEM_CLOCK) -> None:
        self._settings = settings
        self._factory = system_factory(settings)
        self._admin = self._factory.admin(settings, _CLIENT)
        self._clock = clock

    def create(self, stream: str, partitions: int) -> None:
        """Make a stream that is not there yet."""
        factor = self._settings.default_stream.get("replication.factor")
        self._admin.create(StreamSpec(stream, partitions, {}, int(factor) if factor else None))

    def delete(self, streams: Iterable[str]) -> None:
        """Delete those of the streams that exist."""
        for stream in streams:
            try:
                self._admin.delete(stream)
            except UnknownStream:
                continue

    def producer(self) -> SystemProducer:
        """A producer without transactions."""
        return self._factory.producer(self._settings, _CLIENT)

    def consumer(self, offsets: dict[SystemStreamPartition, int]) -> SystemConsumer:
        """A started reader of committed records, from these offsets on."""
        consumer = self._factory.consumer(self._settings, _CLIENT)
        for ssp, offset in offsets.items():
            consumer.register(ssp, offset)
        consumer.start()
        return consumer

    def partitions(self, stream: str) -> list[SystemStreamPartition]:
        """The stream's partitions. Raises UnknownStream."""
        description = self._admin.describe(stream)
        if description is None:
            raise UnknownStream(self._settings.name, stream)
        return [SystemStreamPartition(self._settings.name, stream, n) for n in range(description.partitions)]

    def ends(self, stream: str) -> dict[int, int]:
        """The next offset of each partition."""
        return {ssp.partition: found.upcoming for ssp, found in self._admin.offsets(self.partitions(stream)).items()}

    def read(self, stream: str) -> list[Record]:
        """Every committed record up to the ends of now, in the order of each partition. Raises NoProgress."""
        ranges = self._admin.offsets(self.partitions(stream))
        consumer = self.consumer({ssp: found.oldest for ssp, found in ranges.items()})
        records: list[Record] = []
        try:
            moved, before = self._clock.monotonic(), -1
            while any(consumer.position(ssp) < found.upcoming for ssp, found in ranges.items()):
                for batch in consumer.poll(0.5, _POLL_RECORDS):
                    records += records_of(batch)
                position = sum(consumer.position(ssp) for ssp in ranges)
                if position > before:
                    moved, before = self._clock.monotonic(), position
                elif self._clock.monotonic() - moved > _LONGEST_SILENCE_S:
                    raise NoProgress(f"{stream}: cannot be read to its end within {_LONGEST_SILENCE_S:g} s")
        finally:
            consumer.close()
        return records

    def close(self) -> None:
        """Release the client."""
        self._admin.close()


def records_of(batch: RecordBatch) -> Iterator[Record]:
    """The records of a batch."""
    headers = batch.headers or [None] * len(batch.offsets)
    for offset, key, value, given in zip(batch.offsets, batch.keys, batch.values, headers, strict=True):
        found = next((content for name, content in given or () if name == ID_HEADER), None)
        yield Record(batch.ssp.partition, offset, key or b"", value, found)
