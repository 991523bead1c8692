"""What the clients of several systems share.

1. `LogConsumer` reads a log that answers at once: the SQLite log, and the tables of a database.
2. `ProducerCalls` checks the order of a producer's calls.
3. The partition of a key is that of Java's `DefaultPartitioner`, and librdkafka's `murmur2_random`:
   `(murmur2(key) & 0x7fffffff) % partitions`, seed 0x9747b28c. An empty key is a key (hash of no bytes); the producer
   spreads records with a null key.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import RecordBatch, SystemConsumer
from samzapy.errors import (
    EnvironmentFailure,
    OffsetOutOfRange,
    PositionVoid,
    ProducerError,
    ProducerFenced,
    SamzapyError,
    TransactionIndeterminate,
    UnknownStream,
)

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF

#: Longer keys are not cached, so that the number of entries bounds the cache's memory.
_LONGEST_CACHED_KEY = 256


@lru_cache(maxsize=256)
def _words(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}I")


def murmur2(data: bytes) -> int:
    """The 32-bit murmur2 hash of `data` as Java's Kafka client computes it, as an unsigned int."""
    length = len(data)
    words = length >> 2
    h = _SEED ^ length
    unpack = _words(words) if words < 64 else struct.Struct(f"<{words}I")
    for k in unpack.unpack_from(data):
        k = k * _M & _MASK  # noqa: PLW2901
        h = (h * _M & _MASK) ^ ((k ^ k >> 24) * _M & _MASK)
    rest = length & 3
    if rest:
        h = (h ^ int.from_bytes(data[-rest:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of `key` in a stream of `partitions` partitions; not cached."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class KeyHashes(dict[bytes, int]):
    """Positive hashes by key, computed on first use: `hashes[key] % partitions` is the key's partition.

    A hit costs a dict lookup. A full cache is emptied. Not thread-safe: one for each producer.
    """

    def __init__(self, limit: int = 131_072) -> None:
        super().__init__()
        self._limit = limit

    def __missing__(self, key: bytes) -> int:
        hashed = murmur2(key) & 0x7FFFFFFF
        if len(key) <= _LONGEST_CACHED_KEY:
            if len(self) >= self._limit:
                self.clear()
            self[key] = hashed
        return hashed


#: An abort does not heal these: another producer has taken over, or the outcome is unknown.
_FINAL = (ProducerFenced, TransactionIndeterminate)


class ProducerCalls:
    """The state of a producer between its calls, and the context of each. A call out of order is a ProducerError that
    names the producer.

    `error` has poisoned the producer: every later call raises it again, until an abort heals it.
    """

    def __init__(self, system: str, transactional_id: str | None) -> None:
        owner = "" if transactional_id is None else f" '{transactional_id}'"
        self.name = f"the producer{owner} of system '{system}'"
        self.transactional = transactional_id is not None
        self.initialised = False
        self.in_transaction = False
        self.error: SamzapyError | None = None
        self.closed = False

    def __enter__(self) -> None:
        """Begin a call: refuse it on a poisoned or closed producer."""
        self._raise_again()
        if self.closed:
            raise ProducerError(f"{self.name} is closed")

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        """A call that fails poisons the producer; after an interrupt, too: its records may no longer be in any
        queue."""
        if error is not None:
            other = f"{self.name} failed ({type(error).__name__}: {error})"
            self.error = error if isinstance(error, SamzapyError) else ProducerError(other)

    def heal(self) -> None:
        """Begin an abort. Raises the error again if an abort cannot heal it."""
        if isinstance(self.error, _FINAL):
            self._raise_again()
        self.error = None

    def _raise_again(self) -> None:
        if self.error is not None:
            raise self.error.with_traceback(None)

    def must_take_records(self) -> None:
        """A transactional producer sends inside a transaction only."""
        if self.transactional and not self.in_transaction:
            raise ProducerError(f"send: {self.name} is outside a transaction, call begin first")

    def must_be_new(self, call: str) -> None:
        """For calls that come before all transactions: these are initialised once, and only if there is an id for
        them."""
        if not self.transactional or self.initialised:
            state = "is initialised already" if self.transactional else "has no transactional id"
            raise ProducerError(f"{call}: {self.name} {state}")

    def must_be_between_transactions(self) -> None:
        """One transaction at a time."""
        if not self.initialised or self.in_transaction:
            state = "is in a transaction already" if self.in_transaction else "needs init_transactions first"
            raise ProducerError(f"begin: {self.name} {state}")

    def must_be_in_transaction(self, call: str) -> None:
        """`commit` and `abort` end an open transaction."""
        if not self.in_transaction:
            raise ProducerError(f"{call}: {self.name} is in no transaction")


#: The most bytes of keys and values in one poll; the batch that exceeds it is still returned.
MOST_BYTES_PER_POLL = 52_428_800


class Fetch(NamedTuple):
    """The result of reading one partition: the next offset to read, and the records before it, if any."""

    position: int
    batch: RecordBatch | None


class LogConsumer(SystemConsumer):
    """Keeps positions and pauses; partitions take turns at being first. Subclasses read the log."""

    def __init__(self, system: str) -> None:
        self._system = system
        self._started = False
        self._positions: dict[SystemStreamPartition, int] = {}
        #: By stream, the id of the stream that the positions are of.
        self._ids: dict[str, str] = {}
        self._order: list[SystemStreamPartition] = []
        self._paused: frozenset[SystemStreamPartition] = frozenset()

    @abstractmethod
    def _open(self, ssps: Iterable[SystemStreamPartition]) -> None:
        """Get ready to read. Raises UnknownStream."""

    @abstractmethod
    def _read(
        self, positions: Sequence[tuple[SystemStreamPartition, int]], max_records: int
    ) -> dict[SystemStreamPartition, Fetch]:
        """Committed records from the positions on, at most `max_records` in all, earlier partitions first.

        Every partition that was read has an entry; its position is moved past known holes. Does not wait. Raises
        OffsetOutOfRange, or UnknownStream if a stream was deleted.
        """

    @abstractmethod
    def _wait(self, timeout_s: float) -> float:
        """Wait for records that the last `_read` has not seen. Returns the seconds spent, `timeout_s` if none came."""

    def _stream_id(self, stream: str) -> str:
        """The current id of a stream; empty if there is none, or if the system has no ids."""
        return ""

    def start(
        self,
        offsets: Mapping[SystemStreamPartition, int],
        ids: Mapping[SystemStream, str] = MappingProxyType({}),
        epochs: Mapping[SystemStreamPartition, int] = MappingProxyType({}),
    ) -> None:
        self._positions = dict(offsets)
        self._order = list(offsets)
        self._started = True
        self._open(self._order)
        self._ids = {stream: self._stream_id(stream) for stream in {ssp.stream for ssp in self._order}}
        self._ids.update((stream.stream, stream_id) for stream, stream_id in ids.items() if stream_id)
        self._check_ids()

    def poll(self, timeout_s: float, max_records: int) -> list[RecordBatch]:
        if not self._started:
            raise EnvironmentFailure(f"the consumer of system '{self._system}' is not started, or closed")
        waited = 0.0
        while True:
            batches, passed = self._fetch(max_records)
            if batches or passed or waited >= timeout_s:
                return batches
            waited += self._wait(timeout_s - waited)

    def position(self, ssp: SystemStreamPartition) -> int:
        return self._positions[ssp]

    def pause(self, ssps: Collection[SystemStreamPartition]) -> None:
        self._paused = frozenset(ssps)

    def close(self) -> None:
        self._started = False

    def _fetch(self, max_records: int) -> tuple[list[RecordBatch], bool]:
        """The records that are there, and whether a position has passed a hole without any."""
        positions, paused = self._positions, self._paused
        # Also when all are paused: `_wait` then waits for records after this read.
        try:
            fetched = self._read([(ssp, positions[ssp]) for ssp in self._order if ssp not in paused], max_records)
        except (UnknownStream, OffsetOutOfRange):
            self._check_ids()
            raise
        batches, passed = [], False
        for ssp, (position, batch) in fetched.items():
            if batch is not None:
                batches.append(batch)
            elif position != positions[ssp]:
                passed = True
            positions[ssp] = position
        if batches:
            # The next poll begins with the first partition that got nothing because others filled this one.
            last = self._order.index(batches[-1].ssp) + 1
            self._order = self._order[last:] + self._order[:last]
        return batches, passed

    def _check_ids(self) -> None:
        """Raise PositionVoid if a stream was deleted and created again."""
        for stream, before in self._ids.items():
            now = self._stream_id(stream)
            if now and now != before:
                raise PositionVoid.made_anew(f"{self._system}.{stream}", before, now)
