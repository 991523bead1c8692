"""Keys in order: the sorted keys of a dict, and sorted changes over sorted pairs."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

Pair = tuple[bytes, bytes]

Change = tuple[bytes, "bytes | None"]

#: The most new keys that are inserted one by one; more are appended and sorted (one run merged into another).
_FEW = 8


class KeyOrder:
    """Sorted keys of `data`, a dict that its owner changes, brought up to date only when they are read.

    A dict keeps the order of insertion, so the keys that are new since the last read are its last ones, and writers
    have no cost. They report deletions (`forget`).
    """

    __slots__ = ("_data", "_forgotten", "_sorted")

    def __init__(self, data: dict[bytes, Any]) -> None:
        self._data = data
        self._sorted: list[bytes] = []
        self._forgotten: set[bytes] = set()

    def rebind(self, data: dict[bytes, Any]) -> None:
        """Go on with a copy of the dict, made in the same order."""
        self._data = data

    def forget(self, keys: Iterable[bytes]) -> None:
        """These keys were deleted (and may have been inserted again since)."""
        self._forgotten.update(keys)

    def between(self, lower: bytes | None, upper: bytes | None) -> list[bytes]:
        """The keys with lower <= key < upper, in order, in a new list."""
        keys = self._fresh()
        start = 0 if lower is None else bisect_left(keys, lower)
        stop = len(keys) if upper is None else bisect_left(keys, upper)
        return keys[start:stop]

    def _fresh(self) -> list[bytes]:
        if self._forgotten:
            forgotten = self._forgotten
            self._sorted = [key for key in self._sorted if key not in forgotten]
            self._forgotten = set()
        keys = self._sorted
        new = len(self._data) - len(keys)
        if new > _FEW:
            keys.extend(islice(reversed(self._data), new))
            keys.sort()
        elif new:
            for key in islice(reversed(self._data), new):
                insort(keys, key)
        return keys


def merged(overlay: Sequence[Change], below: Iterator[Pair]) -> Iterator[Pair]:
    """`below` with `overlay` on top: a change replaces the pair of its key, None hides it.

    Both are sorted by key, and each holds a key at most once.
    """
    return _merged(overlay, below) if overlay else below


def _merged(overlay: Sequence[Change], below: Iterator[Pair]) -> Iterator[Pair]:
    pair = next(below, None)
    for key, value in overlay:
        while pair is not None and pair[0] < key:
            yield pair
            pair = next(below, None)
        if pair is not None and pair[0] == key:
            pair = next(below, None)
        if value is not None:
            yield key, value
    if pair is not None:
        yield pair
        yield from below
