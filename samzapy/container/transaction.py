"""A task's transactional producer, with the transaction opened by the first record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from samzapy.api.envelope import Headers
from samzapy.api.system import OutgoingRecord, SystemProducer
from samzapy.container.forwarding_producer import ForwardingProducer


class TransactionOnDemand(ForwardingProducer):
    """Begins with the first record after a commit or an abort, so an idle task holds no transaction open.

    A producer may have to take over from itself to begin. If a successor was started in between, that has fenced it: so
    the owner is asked for then, in this order, and whoever is not the owner lets go. The successor starts again in place.
    """

    __slots__ = ("_must_own", "_open")

    def __init__(self, producer: SystemProducer, must_own: Callable[[], object]) -> None:
        """`producer` was made with a transactional id. `must_own` raises when the task is somebody else's by now."""
        super().__init__(producer)
        self._must_own = must_own
        self._open = False

    def send(self, records: Sequence[OutgoingRecord]) -> None:
        self._begin()
        self._producer.send(records)

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
