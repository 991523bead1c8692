"""A producer that passes every call on, for those that add something to some of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from samzapy.api.envelope import Headers
from samzapy.api.system import OutgoingRecord, SystemProducer


class ForwardingProducer(SystemProducer):
    """Does what the producer behind it does."""

    __slots__ = ("_producer", "marker_offsets")

    def __init__(self, producer: SystemProducer) -> None:
        self._producer = producer
        self.marker_offsets = producer.marker_offsets

    def send(self, records: Sequence[OutgoingRecord]) -> None:
        self._producer.send(records)

    def send_changes(
        self, stream: str, partition: int, changes: Iterable[tuple[bytes, bytes | None]], headers: Headers | None = None
    ) -> None:
        self._producer.send_changes(stream, partition, changes, headers)

    def flush(self, timeout_s: float = 60.0) -> None:
        self._producer.flush(timeout_s)

    def last_offset(self, stream: str, partition: int) -> int | None:
        return self._producer.last_offset(stream, partition)

    def purge(self) -> None:
        self._producer.purge()

    def close(self) -> None:
        self._producer.close()

    def init_transactions(self) -> None:
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin()

    def commit(self) -> None:
        self._producer.commit()

    def abort(self) -> None:
        self._producer.abort()
