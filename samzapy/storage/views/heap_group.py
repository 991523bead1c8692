"""A group of a bounded heap in memory: takes a batch of pushes, and returns its changes."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import NamedTuple

from samzapy.storage.views.sorted_blocks import Ranked

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
