"""Named clusters of one process: streams, transactions, and the lock over both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Condition, Lock
from typing import ClassVar
from uuid import uuid4

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange, RecordBatch, StreamSpec
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.errors import OffsetOutOfRange, ProducerFenced, UnknownPartition, UnknownStream
from samzapy.system.embedded.consumer import MOST_BYTES_A_POLL, Fetch, check_position
from samzapy.system.embedded.producer import Batches, LastOffsets, ProducerIdentity
from samzapy.system.embedded.topic import Topic, grown, topic
from samzapy.system.memory.log import PartitionLog


@dataclass
class _Transaction:
    """The state of a transactional id: its epoch and, while a transaction is open, its logs and deadline."""

    epoch: int = 0
    deadline: float | None = None
    logs: list[PartitionLog] = field(default_factory=list)


class MemoryCluster:
    """One broker. `MemoryCluster.named(name)` finds or makes it; `MemoryCluster.reset_all()` forgets all of them.

    Thread-safe. `clock` dates records and ends transactions that took too long; a test may replace it.
    """

    _named: ClassVar[dict[str, MemoryCluster]] = {}
    _registry: ClassVar[Lock] = Lock()

    def __init__(self, name: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self.name = name
        self.clock = clock
        self._changed = Condition()
        self._version = 0
        self._streams: dict[str, tuple[Topic, list[PartitionLog]]] = {}
        self._transactions: dict[str, _Transaction] = {}

    @classmethod
    def named(cls, name: str) -> MemoryCluster:
        """The cluster of that name, new if there is none."""
        with cls._registry:
            return cls._named.setdefault(name, cls(name))

    @classmethod
    def forget(cls, name: str) -> None:
        """Forget one cluster, if it is known; clients made before go on with it."""
        with cls._registry:
            cls._named.pop(name, None)

    @classmethod
    def reset_all(cls) -> None:
        """Forget every cluster; clients made before go on with the old ones."""
        with cls._registry:
            cls._named.clear()

    # Streams

    def create(self, spec: StreamSpec) -> bool:
        """Create a stream; False if there is one of the name."""
        made = topic(spec, str(uuid4()))
        with self._changed:
            if spec.stream in self._streams:
                return False
            self._streams[spec.stream] = made, [PartitionLog() for _ in range(made.partitions)]
            return True

    def find(self, stream: str) -> Topic | None:
        """The stream, None if there is none."""
        with self._changed:
            found = self._streams.get(stream)
            return None if found is None else found[0]

    def streams(self) -> list[str]:
        """All names, sorted."""
        with self._changed:
            return sorted(self._streams)

    def grow(self, system: str, stream: str, partitions: int) -> None:
        """Like `SystemAdmin.grow`."""
        with self._changed:
            found, logs = self._stream(system, stream)
            made = grown(found, partitions)
            self._streams[stream] = made, [*logs, *(PartitionLog() for _ in range(partitions - len(logs)))]

    def delete(self, system: str, stream: str) -> None:
        """Delete a stream. Raises UnknownStream."""
        with self._changed:
            self._stream(system, stream)
            del self._streams[stream]
            self._notify()

    def offsets(self, ssp: SystemStreamPartition) -> OffsetRange:
        """Like `SystemAdmin.offsets`."""
        with self._changed:
            log = self._log(ssp)
            return OffsetRange(log.oldest, log.upcoming)

    def end(self, ssp: SystemStreamPartition, *, committed: bool) -> int:
        """Like `SystemAdmin.ends`."""
        with self._changed:
            log = self._log(ssp)
            return log.stable if committed else log.upcoming

    def offset_at(self, ssp: SystemStreamPartition, time_ms: int) -> int:
        """Like `SystemAdmin.offsets_at`."""
        with self._changed:
            return self._log(ssp).first_not_older(time_ms)

    def truncate(self, ssp: SystemStreamPartition, before: int) -> None:
        """Drop the records below `before`. Raises OffsetOutOfRange beyond upcoming; nothing happens below oldest."""
        with self._changed:
            log = self._log(ssp)
            if before > log.upcoming:
                raise OffsetOutOfRange(ssp, before, log.oldest, log.upcoming)
            if before > log.oldest:
                log.truncate(before)
                self._notify()

    def clean(self, system: str, stream: str, *, only_if_due: bool = False) -> int:
        """Compact and expire by the stream's policy; returns the number of dropped records."""
        with self._changed:
            found, logs = self._stream(system, stream)
            now = self.clock.wall_ms()
            due = [log for log in logs if not only_if_due or found.needs_cleaning(log.dirty, len(log.offsets))]
            return sum(log.clean(found, now) for log in due)

    # Reading

    def fetch(
        self,
        positions: Sequence[tuple[SystemStreamPartition, int]],
        max_records: int,
        most_bytes: int = MOST_BYTES_A_POLL,
    ) -> dict[SystemStreamPartition, Fetch]:
        """Like `LogReader.read`."""
        fetched: dict[SystemStreamPartition, Fetch] = {}
        budget = most_bytes
        with self._changed:
            self._end_overdue()
            for ssp, position in positions:
                log = self._log(ssp)
                check_position(ssp, position, log.oldest, log.upcoming)
                found = fetched[ssp] = log.fetch(ssp, position, max_records, budget)
                if found.batch is not None:
                    max_records -= len(found.batch.offsets)
                    budget -= sum(map(len, filter(None, found.batch.values)))
                    if max_records <= 0 or budget <= 0:
                        break
        return fetched

    def everything(self, ssp: SystemStreamPartition) -> RecordBatch | None:
        """All records of a partition, as for a reader of uncommitted records; None if there are none."""
        with self._changed:
            return self._log(ssp).everything(ssp)

    def version(self) -> int:
        """A number that changes whenever a reader may see something new."""
        return self._version

    def wait(self, version: int, timeout_s: float) -> bool:
        """Wait until the version has changed; False at the time-out."""
        with self._changed:
            return self._changed.wait_for(lambda: self._version != version, timeout_s)

    # Writing

    def append(self, batches: Batches, owner: ProducerIdentity | None) -> LastOffsets:
        """Like `LogWriter.append`."""
        with self._changed:
            self._end_overdue()
            state = None if owner is None else self._owned(owner)
            logs = {ssp: self._log(ssp) for ssp in batches}
            if owner is not None and state is not None and state.deadline is None:
                state.deadline = self.clock.monotonic() + owner.timeout_ms / 1000
            if state is not None:
                state.logs.extend(log for log in logs.values() if log not in state.logs)
            name = None if owner is None else owner.transactional_id
            last = {ssp: logs[ssp].append(columns, name) for ssp, columns in batches.items()}
            self._notify()
            return last

    def take_over(self, transactional_id: str, timeout_ms: int) -> ProducerIdentity:
        """Like `LogWriter.take_over`."""
        with self._changed:
            state = self._transactions.setdefault(transactional_id, _Transaction())
            self._decide(transactional_id, state, committed=False)
            state.epoch += 1
            return ProducerIdentity(transactional_id, state.epoch, timeout_ms)

    def commit(self, batches: Batches, owner: ProducerIdentity) -> LastOffsets:
        """Like `LogWriter.commit`."""
        with self._changed:
            last = self.append(batches, owner)
            self._decide(owner.transactional_id, self._owned(owner), committed=True)
            return last

    def abort(self, owner: ProducerIdentity) -> None:
        """Like `LogWriter.abort`."""
        with self._changed:
            self._end_overdue()
            self._decide(owner.transactional_id, self._owned(owner), committed=False)

    # The lock is held below.

    def _stream(self, system: str, stream: str) -> tuple[Topic, list[PartitionLog]]:
        found = self._streams.get(stream)
        if found is None:
            raise UnknownStream(system, stream, f"cluster '{self.name}'")
        return found

    def _log(self, ssp: SystemStreamPartition) -> PartitionLog:
        found, logs = self._stream(ssp.system, ssp.stream)
        if not 0 <= ssp.partition < found.partitions:
            raise UnknownPartition(ssp.system, ssp.stream, ssp.partition, found.partitions)
        return logs[ssp.partition]

    def _owned(self, owner: ProducerIdentity) -> _Transaction:
        state = self._transactions.get(owner.transactional_id)
        if state is None or state.epoch != owner.epoch:
            now = "another" if state is None else state.epoch
            raise ProducerFenced(
                f"producer '{owner.transactional_id}' of epoch {owner.epoch} was fenced: the epoch is {now}"
            )
        return state

    def _end_overdue(self) -> None:
        for name, state in self._transactions.items():
            if state.deadline is not None and state.deadline <= self.clock.monotonic():
                self._decide(name, state, committed=False)
                state.epoch += 1

    def _decide(self, transactional_id: str, state: _Transaction, *, committed: bool) -> None:
        for log in state.logs:
            log.decide(transactional_id, committed=committed)
        state.logs, state.deadline = [], None
        self._notify()

    def _notify(self) -> None:
        self._version += 1
        self._changed.notify_all()
