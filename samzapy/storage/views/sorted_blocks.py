"""The items of one group of a heap in the order of their scores: in blocks of a store, or in memory for a batch of
pushes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from samzapy.api.kv import KeyValueStore
from samzapy.storage.views.entries import key

#: A score and the item's bytes; the bytes decide between equal scores.
Ranked = list[Any]

_EMPTY: list[Any] = [1, [0], []]


class SortedBlocks:
    """The items of one group."""

    __slots__ = ("_block_size", "_blocks", "_directory", "_store", "scores", "size")

    def __init__(self, store: KeyValueStore[bytes, Any], group: str, block_size: int) -> None:
        self._store = store
        self._block_size = block_size
        self._directory, self._blocks = key(b"d", group), key(b"b", group)
        #: The key of the size, and the prefix of the scores' keys.
        self.size, self.scores = key(b"s", group), key(b"i", group)

    def insert(self, ranked: Ranked) -> None:
        """Put in an item that is not there."""
        upcoming, numbers, separators = self._store.get(self._directory) or _EMPTY
        at = bisect_right(separators, ranked)
        block = self._block(numbers[at])
        place = bisect_left(block, ranked)
        block = [*block[:place], ranked, *block[place:]]
        if len(block) > self._block_size:
            half = len(block) // 2
            self._store.put(self._key(upcoming), block[half:])
            numbers = [*numbers[: at + 1], upcoming, *numbers[at + 1 :]]
            separators = [*separators[:at], _between(block[half - 1], block[half]), *separators[at:]]
            self._store.put(self._directory, [upcoming + 1, numbers, separators])
            block = block[:half]
        self._store.put(self._key(numbers[at]), block)

    def remove(self, ranked: Ranked) -> None:
        """Take out an item that is there."""
        _, numbers, separators = self._store.get(self._directory) or _EMPTY
        at = bisect_right(separators, ranked)
        block = self._block(numbers[at])
        place = bisect_left(block, ranked)
        self._replace(at, [*block[:place], *block[place + 1 :]])

    def edge(self, *, last: bool) -> list[Ranked]:
        """The first or the last block, in order; empty if there is no item."""
        _, numbers, _ = self._store.get(self._directory) or _EMPTY
        return self._block(numbers[-1 if last else 0])

    def cut_edge(self, remaining: list[Ranked], *, last: bool) -> None:
        """Leave only `remaining` of the first or the last block."""
        _, numbers, _ = self._store.get(self._directory) or _EMPTY
        self._replace(len(numbers) - 1 if last else 0, remaining)

    def items(self, *, backwards: bool) -> Iterator[Ranked]:
        """Every item, from either end; read while nothing is changed."""
        _, numbers, _ = self._store.get(self._directory) or _EMPTY
        for number in reversed(numbers) if backwards else numbers:
            block = self._block(number)
            yield from reversed(block) if backwards else block

    def _replace(self, at: int, block: list[Ranked]) -> None:
        upcoming, numbers, separators = self._store.get(self._directory) or _EMPTY
        if block:
            self._store.put(self._key(numbers[at]), block)
            return
        self._store.delete(self._key(numbers[at]))
        if len(numbers) > 1:
            dropped = max(at - 1, 0)
            numbers = [*numbers[:at], *numbers[at + 1 :]]
            separators = [*separators[:dropped], *separators[dropped + 1 :]]
            self._store.put(self._directory, [upcoming, numbers, separators])
        elif upcoming > 1:
            self._store.delete(self._directory)

    def _block(self, number: int) -> list[Ranked]:
        found: list[Ranked] | None = self._store.get(self._key(number))
        return found or []

    def _key(self, number: int) -> bytes:
        return self._blocks + b"%d\0" % number


def _between(left: Ranked, right: Ranked) -> Ranked:
    """A short separator: greater than `left`, and not greater than `right`, which is greater than `left`."""
    if left[0] != right[0]:
        return [right[0], b""]
    before, after = left[1], right[1]
    same = next((n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(before))
    return [right[0], after[: same + 1]]


Score = int | float


class Changes(NamedTuple):
    """Items as (score, bytes): `gone` from the group, or from their old score, and newly `come`."""

    gone: list[Ranked]
    come: list[Ranked]


class HeapGroup:
    """The items of one group in order. `push` works as in a HeapStore."""

    __slots__ = ("_before", "_highest", "_ranked", "_scores", "_size")

    def __init__(self, ranked: Iterable[Ranked], size: int, *, highest: bool) -> None:
        """`ranked`: the items in the order of their scores. `size`: as of the heap, above 0."""
        self._ranked = list(ranked)
        self._scores: dict[bytes, Score] = {packed: score for score, packed in self._ranked}
        self._before = dict(self._scores)
        self._size = size
        self._highest = highest

    def push(self, packed: bytes, score: Score) -> bool:
        """Put an item in, or change its score; returns whether it is in the group now."""
        held, scores = self._ranked, self._scores
        known = scores.get(packed)
        if known is None:
            if len(held) == self._size:
                worst = held[0][0] if self._highest else held[-1][0]
                # Most pushes to a full heap end here.
                if score < worst if self._highest else score > worst:
                    return False
        elif known == score:
            return True
        else:
            del held[bisect_left(held, [known, packed])]
        insort(held, [score, packed])
        scores[packed] = score
        while len(held) > self._size:
            _, worst_item = held.pop(0 if self._highest else -1)
            del scores[worst_item]
        return packed in scores

    def changes(self) -> Changes:
        """The changes of the pushes."""
        before, now = self._before, self._scores
        gone = [[score, packed] for packed, score in before.items() if now.get(packed) != score]
        come = [[score, packed] for packed, score in now.items() if before.get(packed) != score]
        return Changes(gone, come)
