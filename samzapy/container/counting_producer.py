"""A producer whose records are counted, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from samzapy.api.envelope import Headers
from samzapy.api.metrics import Counter
from samzapy.api.system import OutgoingRecord, SystemProducer


class CountingProducer(SystemProducer):
    """Passes outputs on and counts them. It carries no transaction: it is for what is outside of one."""

    __slots__ = ("_counter", "_producer")

    def __init__(self, producer: SystemProducer, counter: Counter) -> None:
        self._producer = producer
        self._counter = counter

    def send(self, records: Sequence[OutgoingRecord]) -> None:
        self._producer.send(records)
        self._counter.count += len(records)

    def send_changes(
        self, stream: str, partition: int, changes: Iterable[tuple[bytes, bytes | None]], headers: Headers | None = None
    ) -> None:
        self._producer.send_changes(stream, partition, changes, headers)

    def flush(self, timeout_s: float = 60.0) -> None:
        self._producer.flush(timeout_s)

    def last_offset(self, stream: str, partition: int) -> int | None:
        return self._producer.last_offset(stream, partition)

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
