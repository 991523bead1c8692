"""Chooses the partition of a key as Kafka's Java producers do.

Java's `DefaultPartitioner`, and librdkafka's `murmur2_random`: `(murmur2(key) & 0x7fffffff) % partitions`, seed
0x9747b28c. An empty key is a key (hash of no bytes); the producer spreads records with a null key.
"""

from __future__ import annotations

import struct
from functools import lru_cache

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
