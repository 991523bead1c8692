"""The producer of an embedded log: what was sent waits in memory until it is flushed, in one write."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from samzapy.api.envelope import Headers
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, SystemProducer
from samzapy.clock import Clock
from samzapy.system.embedded.pending import Batches, PendingRecords
from samzapy.system.embedded.topic import Topic
from samzapy.system.producer_calls import ProducerCalls

#: What a producer holds before it writes on its own account, so that its memory is bounded.
MOST_PENDING_RECORDS = 10_000
MOST_PENDING_BYTES = 16_777_216

LastOffsets = dict[SystemStreamPartition, int]


class ProducerIdentity(NamedTuple):
    """Who writes in transactions: the id is stable, the epoch grows with every take-over."""

    transactional_id: str
    epoch: int
    timeout_ms: int


class LogWriter(ABC):
    """Where a producer writes to. Every call is atomic: after an error nothing of it has happened.

    Calls with an owner raise ProducerFenced when a newer producer has taken its id over, or its transaction timed out.
    """

    #: As the producer's.
    marker_offsets = 0

    @abstractmethod
    def topic(self, stream: str) -> Topic:
        """The stream. Raises UnknownStream."""

    @abstractmethod
    def append(self, batches: Batches, owner: ProducerIdentity | None) -> LastOffsets:
        """Write; with an owner inside its open transaction, invisible until `commit`. Durable when it returns."""

    @abstractmethod
    def take_over(self, transactional_id: str, timeout_ms: int) -> ProducerIdentity:
        """Abort what is open under the id and start a new epoch."""

    @abstractmethod
    def commit(self, batches: Batches, owner: ProducerIdentity) -> LastOffsets:
        """Write `batches`, then make everything in the owner's transaction visible, all at once."""

    @abstractmethod
    def abort(self, owner: ProducerIdentity) -> None:
        """Remove everything in the owner's transaction."""

    @abstractmethod
    def close(self, written: frozenset[str]) -> None:
        """Release the client; `written` names the streams that may have become worth cleaning."""


class LogProducer(SystemProducer):
    """Keeps the rules of `SystemProducer` over a `LogWriter`.

    An error poisons it; in a transaction `abort` heals it, unless it was fenced or the outcome is unknown. Records
    beyond `MOST_PENDING_RECORDS` are written at once; in a transaction that makes them part of what an abort removes.
    A transaction's time-out counts from its first write, and `flush` waits as long as the writer waits for its lock.
    """

    def __init__(
        self, system: str, writer: LogWriter, clock: Clock, transactional_id: str | None, timeout_ms: int
    ) -> None:
        self.marker_offsets = writer.marker_offsets
        self._system = system
        self._writer = writer
        self._pending = PendingRecords(system, writer.topic, clock)
        self._transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._calls = ProducerCalls(system, transactional_id)
        self._owner: ProducerIdentity | None = None
        self._last: LastOffsets = {}

    def send(self, records: Sequence[OutgoingRecord]) -> None:
        with self._calls.guarded():
            self._calls.must_take_records()
            self._pending.add(records)
            self._bound_memory()

    def send_changes(
        self, stream: str, partition: int, changes: Iterable[tuple[bytes, bytes | None]], headers: Headers | None = None
    ) -> None:
        with self._calls.guarded():
            self._calls.must_take_records()
            self._pending.add_changes(stream, partition, changes, headers)
            self._bound_memory()

    def flush(self, timeout_s: float = 60.0) -> None:
        with self._calls.guarded():
            self._write(self._writer.append)

    def last_offset(self, stream: str, partition: int) -> int | None:
        return self._last.get(SystemStreamPartition(self._system, stream, partition))

    def close(self) -> None:
        if not self._calls.closed:
            self._calls.closed = True
            self._writer.close(frozenset(ssp.stream for ssp in self._last))

    def init_transactions(self) -> None:
        with self._calls.guarded():
            self._calls.must_be_new()
            self._owner = self._writer.take_over(str(self._transactional_id), self._timeout_ms)
            self._calls.initialised = True

    def begin(self) -> None:
        with self._calls.guarded():
            self._calls.must_be_between_transactions()
            self._calls.in_transaction = True

    def commit(self) -> None:
        with self._calls.guarded():
            owner = self._must_be_in_transaction("commit")
            self._write(lambda batches, _: self._writer.commit(batches, owner), even_if_empty=True)
            self._calls.in_transaction = False

    def abort(self) -> None:
        self._calls.heal()
        with self._calls.guarded():
            owner = self._must_be_in_transaction("abort")
            self._pending.take()
            self._writer.abort(owner)
            self._calls.in_transaction = False

    def _write(
        self, write: Callable[[Batches, ProducerIdentity | None], LastOffsets], *, even_if_empty: bool = False
    ) -> None:
        batches = self._pending.take()
        if batches or even_if_empty:
            self._last.update(write(batches, self._owner))

    def _bound_memory(self) -> None:
        if self._pending.records >= MOST_PENDING_RECORDS or self._pending.size >= MOST_PENDING_BYTES:
            self._write(self._writer.append)

    def _must_be_in_transaction(self, call: str) -> ProducerIdentity:
        self._calls.must_be_in_transaction(call)
        assert self._owner is not None
        return self._owner
