"""What the producers of several systems share: the partition of a key, and the order of calls.

A key's partition is that of Java's `DefaultPartitioner`, and librdkafka's `murmur2_random`:
`(murmur2(key) & 0x7fffffff) % partitions`, seed 0x9747b28c. An empty key is a key (hash of no bytes); the producer
spreads records with a null key.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from samzapy.errors import ProducerError, ProducerFenced, SamzapyError, TransactionIndeterminate

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

    __slots__ = ("_limit",)

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
    """The state of a producer between its calls. A call out of order is a ProducerError that names the producer.

    `error` has poisoned the producer: every later call raises it again, until an abort heals it.
    """

    __slots__ = ("closed", "error", "in_transaction", "initialised", "name", "transactional")

    def __init__(self, system: str, transactional_id: str | None) -> None:
        owner = "" if transactional_id is None else f" '{transactional_id}'"
        self.name = f"the producer{owner} of system '{system}'"
        self.transactional = transactional_id is not None
        self.initialised = False
        self.in_transaction = False
        self.error: SamzapyError | None = None
        self.closed = False

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """A context around every call: refuses it on a poisoned or closed producer, and poisons the producer if it
        fails."""
        self._raise_again()
        if self.closed:
            raise ProducerError(f"{self.name} is closed")
        try:
            yield
        except SamzapyError as error:
            self.error = error
            raise
        except BaseException as error:
            # After an interrupt, too: the records of the call may no longer be in any queue.
            self.error = ProducerError(f"{self.name} failed ({type(error).__name__}: {error})")
            raise

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
