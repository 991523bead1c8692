"""Kafka's partition of a key, worked out a second time: what checks a partitioner must not be that partitioner."""

from __future__ import annotations

_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def partition_of(key: bytes, partitions: int) -> int:
    """`toPositive(murmur2(key)) % partitions`, byte by byte as Kafka's Java client does it."""
    h = 0x9747B28C ^ len(key)
    whole = len(key) & ~3
    for i in range(0, whole, 4):
        k = (key[i] | key[i + 1] << 8 | key[i + 2] << 16 | key[i + 3] << 24) * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    rest = key[whole:]
    for i in reversed(range(len(rest))):
        h ^= rest[i] << 8 * i
    if rest:
        h = h * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return ((h ^ h >> 15) & 0x7FFFFFFF) % partitions
