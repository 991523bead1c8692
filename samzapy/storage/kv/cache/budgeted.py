"""The cache of a store without `object.cache.size`: bounded by its share of the container's memory."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from itertools import islice
from typing import Any, TypeVar

from samzapy.storage.kv.cache.budget import CacheBudget
from samzapy.storage.kv.cache.cached import MOST_DIRTY, CachedStore
from samzapy.storage.kv.cache.footprint import footprint
from samzapy.storage.kv.codec import EntryCodec
from samzapy.storage.kv.uncommitted import UncommittedStore

K = TypeVar("K")
V = TypeVar("V")

#: The most new entries between two measurements. A prime, so that no pattern of a task's puts hides the large ones.
_STRIDE = 31
#: Fewer if more than this part of the budget would not be noticed.
_UNNOTICED = 256
#: At the beginning, one for this many bytes of the budget.
_FIRST_BYTES = 4_096
#: Entries of one look, and of the looks at many entries at once.
_FEW, _MANY = 16, 64
#: A value with more bytes counts by its own size, others count alike.
_LARGE_BYTES = 512
#: The memory of large values is compared with their bytes for the first value, and for one in this many.
_COMPARED = 16
#: The most memory of a value that counts as the others do.
_SMALL_MEMORY = 16_384
#: Bytes of an entry in the tables of a cache.
_TABLES_BYTES = 200
#: The parts of the budget that unserialized growth may take: at the first the values are serialized, at the second the
#: task commits.
_NOTICED, _COMMITTED = 16, 4
#: Changes after which the sizes of dirty values are looked at again.
_CHANGES = 4_096


class BudgetedStore(CachedStore[K, V]):
    """A cache that grows as far as the container's budget allows.

    The sizes are estimates of memory, so that a hit costs nothing:

    1. A large value counts by its bytes, known when it is read or serialized, times the measured memory of this store's
       large values per byte.
    2. Small values count by their mean, to which one new entry in `_STRIDE` contributes. It is measured again, over the whole
       cache, whenever the hand has gone round: lasting entries may be larger than passing ones.
    3. Dirty values count before they are serialized, by a sample: one in `_STRIDE` of the new ones, more if they are
       large, and some of all of them now and then, since they may grow. Growth by a sixteenth of the budget serializes
       them.

    Otherwise it is a cache with room: nothing is evicted, or serialized before the commit.
    """

    __slots__ = (
        "_account", "_budget", "_compared", "_factor", "_grown", "_large_bytes", "_large_sizes", "_looked", "_mean", "_seen_dirty", "_seen_held", "_stride",
    )  # fmt: skip

    def __init__(self, codec: EntryCodec, uncommitted: UncommittedStore, budget: CacheBudget, batch_size: int) -> None:
        super().__init__(codec, uncommitted, _STRIDE, batch_size)
        self._budget = budget
        self._account = budget.open(self)
        self._large = _LARGE_BYTES
        # The large entries with their sizes, and the sum of these; their memory per byte, and the number of measured ones.
        self._large_sizes: dict[Any, int] = {}
        self._large_bytes = 0
        self._factor = 1.0
        self._compared = 0
        # The mean of the small ones; the estimated growth of dirty values.
        self._mean = 0.0
        self._grown = 0.0
        self._looked = 0
        self._expect_more(max(1, min(_STRIDE, budget.max_bytes // _FIRST_BYTES)))

    @property
    def uses(self) -> int:
        """Reads and writes since the store was opened."""
        return self._gets + self._changed

    def give_back(self, size: int) -> None:
        """Evict about `size` bytes of clean entries, for another cache."""
        dirty = len(self._dirty)
        self._evict(min(len(self._held) - dirty, self._entries_in(size)), patience=dirty + 1)
        self._expect_more(self._stride)
        self._report()

    def free(self, size: int) -> None:
        """Evict `size` bytes, changes included."""
        target = self._size() - size
        while self._held and (over := self._size() - target) > 0:
            self._evict(min(len(self._held), self._entries_in(over)), self._batch_size)
        self._report()

    def over_budget(self) -> bool:
        """Whether dirty values have grown so much that the task should commit."""
        if self._changed - self._looked >= max(_CHANGES, 4 * len(self._dirty)):
            self._looked = self._changed
            self._look_at_dirty()
        return self._grown > self._budget.max_bytes // _COMMITTED

    def discard(self) -> None:
        """Forget every object."""
        super().discard()
        self._large_sizes.clear()
        self._large_bytes = 0
        self._grown = 0.0
        self._expect_more(1)
        self._report()

    def close(self) -> None:
        """Drop the cache, and its part in the budget."""
        super().close()
        self._budget.close(self._account)

    def metrics(self) -> dict[str, float]:
        """The metrics of a cache, `cached-bytes`, and `cache-budget-bytes`: the most that they could be now."""
        size, allowance = int(self._size()), self._budget.allowance(self._account)
        return {**super().metrics(), "cached-bytes": size, "cache-budget-bytes": allowance}

    def _size(self) -> float:
        """Bytes of memory."""
        return (len(self._held) - len(self._large_sizes)) * self._mean + self._large_bytes + self._grown

    def _entries_in(self, size: float) -> int:
        """The approximate number of entries in `size` bytes, one at least."""
        return int(size * len(self._held) / max(1.0, self._size())) + 1

    def _report(self) -> None:
        self._budget.report(self._account, int(self._size()))

    def _expect_more(self, stride: int) -> None:
        """Look again after this number of new entries, or newly dirty ones."""
        self._stride = stride
        self._seen_held, self._seen_dirty = len(self._held), len(self._dirty)
        self._cache_size = self._seen_held + stride
        self._most_dirty = self._seen_dirty + stride

    def _make_room(self) -> None:
        self._look_at_new(self._held, len(self._held) - self._seen_held)

    def _limit_dirty(self) -> None:
        self._look_at_new(self._dirty, len(self._dirty) - self._seen_dirty)

    def _look_at_new(self, entries: dict[Any, Any], new: int) -> None:
        """Look at some of the latest `entries`, and keep the budget."""
        budget = self._budget
        if new <= _STRIDE + 1:
            largest = self._look_at(next(reversed(entries)), max(1, new))
        else:
            some = list(islice(reversed(entries), 0, new, new // _FEW))
            largest = max([self._look_at(entry, new // len(some)) for entry in some])
        if len(self._dirty) >= max(self._batch_size, MOST_DIRTY) or self._grown > budget.max_bytes // _NOTICED:
            self._serialize_all()
        self._report()
        if budget.used > budget.max_bytes:
            budget.reclaim(self._account)
        room = budget.allowance(self._account) // max(1, int(self._mean))
        self._expect_more(max(1, min(_STRIDE, room, budget.max_bytes // _UNNOTICED // max(1, largest))))

    def _look_at(self, entry: Any, stands_for: int) -> int:
        """Measure an entry that stands for several; returns its memory."""
        size, known = self._memory(entry), self._large_sizes.get(entry)
        if known is None and (size <= _SMALL_MEMORY or entry not in self._dirty):
            small = len(self._held) - len(self._large_sizes)
            self._mean += (size - self._mean) * min(1.0, stands_for / max(1, small))
        elif entry in self._dirty:
            before = self._mean if known is None else known
            self._grown = max(0.0, self._grown + (size - before) * stands_for)
        return size

    def _look_at_dirty(self) -> None:
        """Estimate the growth of the dirty values again, by a sample of all of them."""
        dirty, sizes, mean = len(self._dirty), self._large_sizes, self._mean
        some = islice(self._dirty, 0, None, dirty // _FEW + 1)
        differences = [self._memory(entry) - sizes.get(entry, mean) for entry in some]
        grown = sum(differences) * dirty / max(1, len(differences))
        self._grown = grown if grown > self._budget.max_bytes // _UNNOTICED else 0.0
        self._report()
        # Nothing is evicted here, since that may serialize; the next new entry has to.
        self._cache_size = 0

    def _memory(self, entry: Any) -> int:
        return footprint(entry) + footprint(self._held[entry]) + _TABLES_BYTES

    def _serialize_all(self) -> None:
        super()._serialize_all()
        self._grown = 0.0

    def _serialize_unused(self, entry: Hashable) -> None:
        before = len(self._dirty)
        super()._serialize_unused(entry)
        self._grown *= len(self._dirty) / before

    def _evict(self, room: int, patience: int) -> list[Any]:
        evicted, sizes = super()._evict(room, patience), self._large_sizes
        if sizes:
            self._large_bytes -= sum(map(sizes.pop, filter(sizes.__contains__, evicted)))
        return evicted

    def _round(self) -> list[Any]:
        """The entries of a new round; the mean is measured again, since the entries that stayed may have another one."""
        entries = super()._round()
        sizes = [self._memory(each) for each in entries[:: len(entries) // _MANY + 1] if each not in self._large_sizes]
        if small := [size for size in sizes if size <= _SMALL_MEMORY]:
            self._mean = sum(small) / len(small)
        return entries

    def _measured(self, entries: Collection[Any], data: Sequence[bytes | None]) -> None:
        sizes = self._large_sizes
        if not sizes and max(map(len, filter(None, data)), default=0) <= _LARGE_BYTES:
            return
        for entry, each in zip(entries, data, strict=True):
            self._large_bytes -= sizes.pop(entry, 0)
            if each is not None and len(each) > _LARGE_BYTES:
                sizes[entry] = size = self._memory_of(entry, len(each))
                self._large_bytes += size
        # The next entry that is new has to look at the budget.
        self._cache_size = 0

    def _memory_of(self, entry: Any, size: int) -> int:
        """The memory of an entry with a value of this size."""
        if not self._compared % _COMPARED:
            weight = 1 / min(self._compared // _COMPARED + 1, _FEW)
            self._factor += (footprint(self._held[entry]) / size - self._factor) * weight
        self._compared += 1
        return int(size * self._factor) + _TABLES_BYTES
