"""The heap store: items in the order of their scores, for a running top-N or a bounded sort.

size       s <group>           how many items the group holds
score      i <group> <digest>  the score of an item, by a digest of its bytes
directory  d <group>           [next block's number, numbers of the blocks in order, separators between them]
block      b <group> <number>  up to `block_size` items in order

1. A change rewrites one block. Both ends are available without a scan. The directory changes only when a block splits
   or becomes empty.
2. A separator is greater than the block before and not greater than the block after it, and as short as possible, as in
   a B-tree: the directory of a million items is about 500 KB.
3. Lists from the store are never changed in place: the undo of a failed message puts them back.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from numbers import Real
from typing import Any, NamedTuple

import msgpack

from samzapy.api.engine import EngineSettings, StoreViewFactory
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import grouped
from samzapy.config.stores.engines import HeapKeys, read_engine
from samzapy.errors import StoreRefused
from samzapy.storage.views import check_lengths, key, names

Score = int | float

_SMALLEST, _LARGEST = -(2**63), 2**64 - 1

#: Groups that have their keys at hand; then all are forgotten.
_REMEMBERED = 1_000
#: Items of one entry of the store, and so of one changelog record.
BLOCK_ITEMS = 64
#: Items of more bytes count: a block with one has about so many at most, so that it fits into a record.
_SMALL_BYTES, _BLOCK_BYTES = 4_096, 524_288

#: Items of full groups that are known by their hashes; then all are forgotten.
_MOST_HASHES = 200_000
#: The most items per push for which a batch of pushes reads a whole group.
_ITEMS_A_PUSH = 4
#: Hashes beyond twice the group's size that it may have before they are rebuilt.
_SPARE = 64

#: A score and the item's bytes; the bytes decide between equal scores.
Ranked = list[Any]

_EMPTY: list[Any] = [1, [0], []]


class SortedBlocks:
    """The items of one group."""

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
        block = [*self._block(numbers[at])]
        insort(block, ranked)
        large = len(ranked[1]) > _SMALL_BYTES and sum(len(item[1]) for item in block) > _BLOCK_BYTES
        if len(block) <= self._block_size and not (large and len(block) > 1):
            self._store.put(self._key(numbers[at]), block)
            return
        half = len(block) // 2
        between = [*separators[:at], _between(block[half - 1], block[half]), *separators[at:]]
        directory = [upcoming + 1, [*numbers[: at + 1], upcoming, *numbers[at + 1 :]], between]
        # In one call: if the store refuses one of them, nothing has changed.
        halves = {self._key(numbers[at]): block[:half], self._key(upcoming): block[half:]}
        self._store.put_all({**halves, self._directory: directory})

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
        result: list[Ranked] | None = self._store.get(self._key(number))
        return result or []

    def _key(self, number: int) -> bytes:
        return self._blocks + b"%d\0" % number


def _between(left: Ranked, right: Ranked) -> Ranked:
    """A short separator: greater than `left`, and not greater than `right`, which is greater than `left`."""
    if left[0] != right[0]:
        return [right[0], b""]
    before, after = left[1], right[1]
    same = next((n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(before))
    return [right[0], after[: same + 1]]


class HeapGroup:
    """The items of one group in order. `push` works as in a HeapStore."""

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

    def changes(self) -> tuple[list[Ranked], list[Ranked]]:
        """The changes of the pushes: items gone from the group, or from their old score, and items that have come."""
        before, now = self._before, self._scores
        gone = [[score, packed] for packed, score in before.items() if now.get(packed) != score]
        come = [[score, packed] for packed, score in now.items() if before.get(packed) != score]
        return gone, come


class PossibleItems:
    """The hashes of all items that a full group may hold, so that the store need not be asked for any other item.

    Hashes are only added, so they include items that come back with an undone message. `anchor` is the block with the
    worst item, as the last accepted push has put it: if the store has another object, the hashes are void.
    """

    def __init__(self, anchor: list[Ranked], hashes: set[int]) -> None:
        self.anchor = anchor
        self.hashes = hashes


class HeapItem(NamedTuple):
    """An item with its score."""

    item: Any
    score: Score


class HeapStore:
    """Items by score, in any number of groups (`group`, a str; the default is one of them).

    1. An item is any value that MessagePack writes (str, int, dict, ...; a tuple comes back as a list). A group has it
       once: another push gives it the new score, so a repeated push changes nothing. To keep equal events separate,
       make their position part of the item.
    2. The *best* score is the highest, or the lowest with `heap.order=lowest`. Items of equal score are in the order of
       their bytes, so the contents of a heap do not depend on the order of the pushes.
    3. A heap with a `size` drops its worst item when it has one more.

    A score is an int of 64 bits or a float, not NaN. A refused item or score raises StoreRefused and changes nothing.
    """

    def __init__(
        self,
        store: KeyValueStore[bytes, Any],
        name: str,
        *,
        size: int = 0,
        highest: bool = True,
        block_size: int = BLOCK_ITEMS,
    ) -> None:
        """`size`: items of a group, 0 for no limit. `block_size`: items of one entry of the store, at most."""
        self._store = store
        self._name = name
        self._size = size
        self._highest = highest
        self._block_size = block_size
        self._pack: Callable[[Any], bytes] = msgpack.Packer(use_bin_type=True).pack
        self._groups: dict[str, SortedBlocks] = {}
        self._possible: dict[str, PossibleItems] = {}
        #: Items that were hashed; pushes that asked the store, less the items that were hashed for them.
        self._hashes = self._credit = 0

    def push(self, item: Any, score: Score, group: str = "") -> bool:
        """Put the item in, or change its score; returns whether it is in the heap now, False if it is worse than all
        items of a full one."""
        packed = self._checked(item, score)
        blocks, get = self._groups.get(group) or self._blocks(group), self._store.get
        if self._size and self._is_surely_worse(group, blocks, packed, score):
            return False
        place = blocks.scores + blake2b(packed, digest_size=16).digest()
        known = get(place)
        if known == score:
            return True
        ranked = [score, packed]
        held = size = get(blocks.size) or 0
        if known is not None:
            blocks.remove([known, packed])
        elif size and size == self._size and self._is_worst(ranked, blocks):
            return False
        else:
            size += 1
        blocks.insert(ranked)
        self._store.put(place, score)
        while size > self._size > 0:
            self._drop_worst(blocks)
            size -= 1
        if size != held:
            self._store.put(blocks.size, size)
        if not self._size:
            return True
        self._remember(group, blocks, packed, size)
        return get(place) is not None

    def push_all(
        self, items: Sequence[Any], scores: Sequence[Score], groups: Sequence[str] | None = None
    ) -> list[bool]:
        """Like `push` of each item with its score to its group, in order; returns the results of the pushes. `groups`:
        None for the default group. A full group that gets many items is read and written once.

        Raises StoreRefused for an item, a score or a group that `push` refuses, ValueError for columns of different
        lengths; nothing has changed then.
        """
        check_lengths(items, scores, scores if groups is None else groups)
        packed = list(map(self._checked, items, scores))
        places = grouped(zip(groups or [""] * len(packed), range(len(packed)), strict=True))
        for group in places:
            self._blocks(group)
        result = [False] * len(packed)
        for group, chosen in places.items():
            if self._size and len(chosen) * _ITEMS_A_PUSH >= self.size(group):
                pushed = self._push_together(group, [(packed[place], scores[place]) for place in chosen])
            else:
                pushed = [self.push(items[place], scores[place], group) for place in chosen]
            for place, taken in zip(chosen, pushed, strict=True):
                result[place] = taken
        return result

    def peek(self, group: str = "") -> HeapItem | None:
        """The best item, None of an empty heap."""
        edge = self._blocks(group).edge(last=self._highest)
        return _opened(edge[-1 if self._highest else 0]) if edge else None

    def pop(self, group: str = "") -> HeapItem | None:
        """Take out the best item; None of an empty heap."""
        return next(iter(self._take(group, most=1)), None)

    def pop_through(self, score: Score, group: str = "") -> list[HeapItem]:
        """Take out every item that is as good as `score` or better, the best first: with `heap.order=lowest` and times
        as scores, everything up to a time, in order. Raises StoreRefused for a score that is no number."""
        if not isinstance(score, Real) or score != score:  # noqa: PLR0124
            raise self._no_score(score)
        return self._take(group, through=score)

    def top(self, n: int, group: str = "") -> list[HeapItem]:
        """The `n` best items, the best first. Raises ValueError for a negative number."""
        if n < 0:
            raise ValueError(f"store '{self._name}': top takes a number of items, 0 or more, got {n}")
        return [_opened(ranked) for ranked in islice(self._blocks(group).items(backwards=self._highest), n)]

    def score(self, item: Any, group: str = "") -> Score | None:
        """The score of an item, None if it is not in the heap."""
        result: Score | None = self._store.get(_score_key(self._blocks(group), self._checked(item, 0)))
        return result

    def remove(self, item: Any, group: str = "") -> bool:
        """Take the item out; returns whether it was there."""
        packed = self._checked(item, 0)
        blocks = self._blocks(group)
        known = self._store.get(_score_key(blocks, packed))
        if known is None:
            return False
        blocks.remove([known, packed])
        self._forget(blocks, [packed])
        return True

    def size(self, group: str = "") -> int:
        """The number of items in the group."""
        return self._store.get(self._blocks(group).size) or 0

    def groups(self) -> Iterator[str]:
        """The groups that hold items, in order."""
        with self._store.prefix(b"s") as entries:
            for data, _ in entries:
                yield names(data)[0]

    def clear(self, group: str = "") -> None:
        """Take out everything."""
        self._take(group)

    def _is_worst(self, ranked: Ranked, blocks: SortedBlocks) -> bool:
        edge = blocks.edge(last=not self._highest)
        return bool(ranked < edge[0] if self._highest else ranked > edge[-1])

    def _is_surely_worse(self, group: str, blocks: SortedBlocks, packed: bytes, score: Score) -> bool:
        """Whether an item is certainly not in a full group and worse than all its items, by the hashes at hand."""
        possible = self._possible.get(group)
        if possible is None:
            self._credit += 1
            return False
        edge = blocks.edge(last=not self._highest)
        if edge is not possible.anchor:
            del self._possible[group]
            return False
        if hash(packed) in possible.hashes or self._store.get(blocks.size) != self._size:
            return False
        return score < edge[0][0] if self._highest else score > edge[-1][0]  # type: ignore[no-any-return]

    def _remember(self, group: str, blocks: SortedBlocks, packed: bytes, size: int) -> None:
        """A group of `size` items now has taken an item."""
        possible = self._possible.get(group)
        if possible is None:
            if size < self._size or self._credit < size:
                return
            self._credit -= size
            self._hashes += size
            if self._hashes > _MOST_HASHES:
                self._hashes = size
                self._possible.clear()
            hashes = {hash(item) for _, item in blocks.items(backwards=False)}
            possible = self._possible[group] = PossibleItems([], hashes)
        else:
            possible.hashes.add(hash(packed))
            if len(possible.hashes) > 2 * size + _SPARE:
                del self._possible[group]
                return
        # Always a list of this push, so that undoing it is seen.
        possible.anchor = list(blocks.edge(last=not self._highest))
        blocks.cut_edge(possible.anchor, last=not self._highest)

    def _push_together(self, group: str, pushes: Sequence[tuple[bytes, Score]]) -> list[bool]:
        """Like `push` of each item."""
        blocks, store = self._blocks(group), self._store
        before = self.size(group)
        held = HeapGroup(blocks.items(backwards=False), self._size, highest=self._highest)
        taken = [held.push(packed, score) for packed, score in pushes]
        gone, come = held.changes()
        if not gone and not come:
            return taken
        for ranked in gone:
            blocks.remove(ranked)
        for ranked in come:
            blocks.insert(ranked)
        there = {packed for _, packed in come}
        store.delete_all([_score_key(blocks, packed) for _, packed in gone if packed not in there])
        store.put_all({_score_key(blocks, packed): score for score, packed in come})
        if size_change := len(come) - len(gone):
            store.put(blocks.size, before + size_change)
        # Its hashes are without the new items.
        self._possible.pop(group, None)
        return taken

    def _drop_worst(self, blocks: SortedBlocks) -> None:
        edge = blocks.edge(last=not self._highest)
        worst, rest = (edge[0], edge[1:]) if self._highest else (edge[-1], edge[:-1])
        blocks.cut_edge(rest, last=not self._highest)
        self._store.delete(_score_key(blocks, worst[1]))

    def _take(self, group: str, through: Score | None = None, most: int | None = None) -> list[HeapItem]:
        blocks, highest = self._blocks(group), self._highest
        taken: list[Ranked] = []
        while edge := blocks.edge(last=highest):
            in_order = edge[::-1] if highest else edge
            count = len(edge) if most is None else min(len(edge), most - len(taken))
            if through is not None:
                good = (r for r in in_order if (r[0] >= through if highest else r[0] <= through))
                count = sum(1 for _ in good)
            if not count:
                break
            taken += in_order[:count]
            blocks.cut_edge(edge[:-count] if highest else edge[count:], last=highest)
        if taken:
            self._forget(blocks, [packed for _, packed in taken])
        return [_opened(ranked) for ranked in taken]

    def _forget(self, blocks: SortedBlocks, packed: list[bytes]) -> None:
        self._store.delete_all([_score_key(blocks, item) for item in packed])
        left = (self._store.get(blocks.size) or 0) - len(packed)
        if left > 0:
            self._store.put(blocks.size, left)
        else:
            self._store.delete(blocks.size)

    def _blocks(self, group: str) -> SortedBlocks:
        known = self._groups.get(group)
        if known is None:
            if len(self._groups) >= _REMEMBERED:
                self._groups.clear()
            known = self._groups[group] = SortedBlocks(self._store, group, self._block_size)
        return known

    def _checked(self, item: Any, score: Score) -> bytes:
        """The item's bytes. Raises StoreRefused."""
        kind = type(score)
        is_number = score == score if kind is float else kind is int and _SMALLEST <= score <= _LARGEST  # noqa: PLR0124
        if not is_number:
            raise self._no_score(score)
        try:
            return self._pack(item)
        except (TypeError, ValueError, OverflowError) as cause:
            raise StoreRefused(f"store '{self._name}': item {item!r:.100} cannot be kept: {cause}") from cause

    def _no_score(self, score: object) -> StoreRefused:
        return StoreRefused(f"store '{self._name}': a score is an int of 64 bits or a float, got {score!r:.100}")


def _score_key(blocks: SortedBlocks, packed: bytes) -> bytes:
    return blocks.scores + blake2b(packed, digest_size=16).digest()


def _opened(ranked: Ranked) -> HeapItem:
    return HeapItem(msgpack.unpackb(ranked[1], strict_map_key=False), ranked[0])


class HeapStoreFactory(StoreViewFactory):
    """Makes a HeapStore. A smaller `heap.size` than before takes effect at the next push to each group."""

    def view(self, store: KeyValueStore[Any, Any], settings: EngineSettings) -> HeapStore:
        keys, _ = read_engine(HeapKeys, settings)
        return HeapStore(store, settings.store, size=keys.size, highest=keys.highest, block_size=BLOCK_ITEMS)

    def check(self, settings: EngineSettings) -> Iterable[tuple[str, str | None, str]]:
        return read_engine(HeapKeys, settings)[1]
