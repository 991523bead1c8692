"""The container's transactional producer, which opens a transaction with its first record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from samzapy.api.envelope import Headers
from samzapy.api.system import OutgoingColumns, OutgoingRecord, SystemProducer


class ForwardingProducer(SystemProducer):
    """Passes every call on; the base of producers that add something to some of them."""

    __slots__ = ("_producer", "marker_offsets")

    def __init__(self, producer: SystemProducer) -> None:
        self._producer = producer
        self.marker_offsets = producer.marker_offsets

    def send(self, records: Sequence[OutgoingRecord]) -> None:
        self._producer.send(records)

    def send_columns(self, columns: OutgoingColumns) -> None:
        self._producer.send_columns(columns)

    def send_changes(
        self, stream: str, partition: int, changes: Iterable[tuple[bytes, bytes | None]], headers: Headers | None = None
    ) -> None:
        self._producer.send_changes(stream, partition, changes, headers)

    def flush(self, timeout_s: float = 60.0) -> None:
        self._producer.flush(timeout_s)

    def last_offset(self, stream: str, partition: int) -> int | None:
        return self._producer.last_offset(stream, partition)

    def report_offsets(self) -> None:
        self._producer.report_offsets()

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


class TransactionOnDemand(ForwardingProducer):
    """Begins with the first record after a commit or an abort, so an idle task holds no transaction open.

    A producer may have to take over from itself to begin. If a successor was started in between, that fences the
    successor. So `must_own` is called after the take-over: an attempt that is not the owner ends, and the successor
    restarts in place.
    """

    __slots__ = ("_must_own", "_open")

    def __init__(self, producer: SystemProducer, must_own: Callable[[], object]) -> None:
        """`producer` was made with a transactional id. `must_own` raises when another attempt owns the tasks by now."""
        super().__init__(producer)
        self._must_own = must_own
        self._open = False

    def send(self, records: Sequence[OutgoingRecord]) -> None:
        self._begin()
        self._producer.send(records)

    def send_columns(self, columns: OutgoingColumns) -> None:
        self._begin()
        self._producer.send_columns(columns)

    def send_changes(
        self, stream: str, partition: int, changes: Iterable[tuple[bytes, bytes | None]], headers: Headers | None = None
    ) -> None:
        self._begin()
        self._producer.send_changes(stream, partition, changes, headers)

    def flush(self, timeout_s: float = 60.0) -> None:
        if self._open:
            self._producer.flush(timeout_s)

    def begin(self) -> None:
        self._begin()

    def commit(self) -> None:
        if self._open:
            self._producer.commit()
            self._open = False

    def abort(self) -> None:
        if self._open:
            self._producer.abort()
            self._open = False

    def _begin(self) -> None:
        if not self._open:
            self._producer.begin()
            if self._producer.took_over:
                self._must_own()
            self._open = True
