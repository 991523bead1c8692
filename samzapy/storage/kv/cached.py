"""Caches deserialized values over the uncommitted bytes, within the container's memory for caches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, filterfalse, islice, repeat
from operator import add
from typing import Any

from samzapy.api.kv import K, V
from samzapy.errors import SerdeError
from samzapy.storage.kv.codec import EntryCodec, entry_columns, entry_mapping, key_list
from samzapy.storage.kv.entries import ENTRY_BYTES, FACTOR, CacheBudget, Entries
from samzapy.storage.kv.scanning import SCANNING_SLOTS, ScanningStore
from samzapy.storage.kv.uncommitted import UncommittedStore

#: The most dirty values, unless `write.batch.size` is more. Their bytes are unknown until they are serialized.
MOST_DIRTY = 50_000
#: New dirty values after which the bytes of the latest stand for all of them, fewer in a budget of less than so many
#: bytes for each; with more than the first part of the budget they are serialized. Changes after which some of all are
#: checked, since dirty values may grow: with more than the second part the task commits.
_STEP, _STEP_BYTES, _CHANGES = 127, 2_097_152, 4_096
_SERIALIZED, _COMMITTED = 16, 4
#: The part of a cache that is evicted at once.
_SHARE = 64
#: The number of changes of one call that enter the cache before it makes room for them.
_TOGETHER = 512
#: Keys that are read one by one: a call for all of them costs as much.
_FEW = 32


class CachedStore(Entries, ScanningStore[K, V]):
    """Deserialized values, some of them dirty, over the uncommitted bytes.

    1. A `get` or `put` of a held key touches dicts and no layer below.
    2. An entry is dirty from its `put` until it is serialized, and then clean. Only clean entries are evicted.
    3. A clock hand finds the entries to evict: an entry that was used since the hand passed it stays, any other goes
       (CLOCK, the second chance). A hit costs one assignment, and nothing as long as there is room.
    4. Dirty values are serialized in batches, and as late as possible: at `flush`, before a range is read, and when the
       hand meets an unused one while at least `batch_size` are dirty, or too few are clean to make room; then up to
       `batch_size` unused ones. So a dirty key is always held, and a key that is put repeatedly is serialized once.
       `MOST_DIRTY` bounds the unserialized values of a commit.
    5. An absent key is cached as absent.
    6. A value that does not serialize raises an error with its batch, not at its `put`; the error names its key. Only
       the first values are serialized at their `put`, and read back if they have a class: until then no type of keys is
       usual.
    7. Values are handed out by reference. A change without `put` is not saved.

    Corner cases:

    1. Python finds 1, 1.0 and True equal, serdes do not. Only keys of the codec's plain types are cache entries
       themselves; every other key is held under its bytes, or under the plain key with those bytes.
    2. `cache_size` and `batch_size` are at least 1, and `cache_size >= batch_size`; clean and dirty entries together
       are at most `cache_size`, and their bytes are at most the grant of the budget. An entry counts once its bytes are
       known: when it is read or serialized.
    """

    __slots__ = (
        *SCANNING_SLOTS,
        "__weakref__", "_absent", "_allowed", "_batch_size", "_budget", "_bytes", "_checked", "_deleted", "_deletes",
        "_dirty_limit", "_flushes", "_hand", "_misses", "_plain", "_room", "_sizes", "_step",
    )  # fmt: skip

    def __init__(
        self,
        codec: EntryCodec,
        uncommitted: UncommittedStore,
        budget: CacheBudget,
        batch_size: int,
        cache_size: int = sys.maxsize,
    ) -> None:
        Entries.__init__(self)
        ScanningStore.__init__(self, codec, uncommitted)
        # The dirty entries with keys that were known to be absent, and unchanged, when they became dirty.
        self._absent: set[Any] = set()
        self._hand: Iterator[Any] = iter(())
        self._plain = codec.plain_types
        # Comparing with one type costs half of looking it up among several.
        self._usual = None if codec.unproven else self._usual_type()
        self._cache_size = cache_size
        self._batch_size = batch_size
        self._room = max(1, cache_size // _SHARE)
        self._dirty_limit = max(batch_size, MOST_DIRTY)
        self._step = max(1, min(_STEP, budget.max_bytes // _STEP_BYTES))
        self._most_dirty = self._step
        self._checked = 0
        # Serialized bytes by entry, and their sum with ENTRY_BYTES for each; the sum at which the budget is asked.
        self._sizes: dict[Any, int] = {}
        self._bytes = self._allowed = 0
        self._budget = budget
        budget.open(self)
        self._deleted = False
        self._misses = self._deletes = self._flushes = 0

    @property
    def size(self) -> int:
        """Bytes of memory, by what was serialized."""
        return FACTOR * self._bytes

    @property
    def uses(self) -> int:
        """Reads and writes since the store was opened."""
        return self._gets + self._changed

    def give_back(self, size: int) -> None:
        """Evict about `size` bytes of clean entries, for another cache."""
        dirty = len(self._dirty)
        self._evict(min(len(self._held) - dirty, self._entries_in(size)), patience=dirty + 1)
        self._allowed = self._bytes

    def free(self, size: int) -> None:
        """Evict `size` bytes, changes included."""
        target = self.size - size
        while self._sizes and (over := self.size - target) > 0:
            self._evict(min(len(self._held), self._entries_in(over)), self._batch_size)

    def _entries_in(self, size: int) -> int:
        """The approximate number of entries in `size` bytes, one at least."""
        return size * len(self._held) // max(1, self.size) + 1

    def over_budget(self) -> bool:
        """Whether dirty values have grown so much that the task should commit."""
        dirty = self._dirty
        if self._changed - self._checked < max(_CHANGES, 4 * len(dirty)):
            return False
        self._checked = self._changed
        some = list(islice(dirty, 0, None, len(dirty) // 16 + 1))
        bytes_of_some = sum(map(self._bytes_of, some))
        return FACTOR * bytes_of_some * len(dirty) > len(some) * (self._budget.max_bytes // _COMMITTED)

    def _bytes_of(self, entry: Any) -> int:
        """The bytes of a dirty value; 0 for one that does not serialize, as the commit will say."""
        value = self._held[entry]
        try:
            return 0 if value is None else len(self._codec.value_bytes(value))
        except Exception:  # noqa: BLE001 - a serde may refuse in any way
            return 0

    def delete(self, key: K) -> None:
        entry = key if type(key) is self._usual else self._entry(key)
        self._changed += 1
        self._deletes += 1
        self._deleted = True
        self._change(entry, None)

    def get_all(self, keys: Iterable[K]) -> dict[K, V | None]:
        """The values of `keys`; one call below reads the uncached ones, unless they are few. Keys that Python finds
        equal share one entry."""
        wanted = key_list(self._codec.store, keys)
        if len(wanted) <= _FEW:
            return {key: self.get(key) for key in wanted}
        return dict(zip(wanted, self._values(wanted, self._entries(wanted)), strict=True))

    def put_all(self, entries: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        keys, values = entry_columns(self._codec.store, entries)
        held = self._entries(keys)
        self._check_values(keys, values)
        self._change_all(held, values)

    def merge_all(self, entries: Mapping[K, V], combine: Callable[[V, V], V]) -> None:
        """Combine many values with the held ones; one call below reads the uncached ones."""
        self.exchange_all(entries, combine)

    def exchange_all(
        self, entries: Mapping[K, V], combine: Callable[[V, V], V]
    ) -> tuple[Sequence[K], Sequence[V | None]]:
        """Like `merge_all`; returns the keys and their previous values."""
        keys, given = entry_columns(self._codec.store, entry_mapping(self._codec.store, entries))
        held = self._entries(keys)
        self._codec.check_values(keys, given)
        before = self._values(keys, held)
        # `map` would end silently if `combine` raised StopIteration.
        after = [new if old is None else combine(old, new) for old, new in zip(before, given, strict=True)]
        self._check_values(keys, after)
        self._change_all(held, after)
        return keys, before

    def delete_all(self, keys: Iterable[K]) -> None:
        entries = self._entries(key_list(self._codec.store, keys))
        self._deletes += len(entries)
        self._deleted = True
        self._change_all(entries, [None] * len(entries))

    @property
    def has_unserialized(self) -> bool:
        return bool(self._dirty)

    def flush(self) -> None:
        self.check_open()
        self._flushes += 1
        self._serialize_all()
        self._most_dirty = self._step
        if self._bytes > self._allowed:
            self._make_room()

    def _entry(self, key: K) -> Hashable:
        """The cache entry of a key. After `close` no type is usual, so every call comes here."""
        self.check_open()
        if type(key) in self._plain:
            return key
        data = self._codec.encode_key(key)
        if self._plain:
            meant = self._codec.decode_key(data)
            if type(meant) in self._plain:
                return meant  # type: ignore[no-any-return]
        return (data,)

    def _usual_type(self) -> type | None:
        return next((kind for kind in (str, bytes, int) if kind in self._plain), None)

    def _check_value(self, key: K, value: V) -> None:
        codec = self._codec
        codec.check_value(key, value)
        if codec.unproven:
            codec.prove(key, value)
            if not codec.unproven:
                self._usual = self._usual_type()

    def _check_values(self, keys: Sequence[K], values: Sequence[V]) -> None:
        self._codec.check_values(keys, values)
        for key, value in zip(keys, values[: self._codec.unproven], strict=False):
            self._check_value(key, value)

    def _entries(self, keys: list[K]) -> list[Any]:
        """The cache entries of keys, each one that the store takes. Plain keys are their own: no call a key."""
        if set(map(type, keys)) <= self._plain and not self._closed:
            return keys
        self.check_open()
        for key in keys:
            self._codec.check_key(key)
        return list(map(self._entry, keys))

    def _values(self, keys: list[K], entries: list[Any]) -> list[V | None]:
        """The values of `keys`, and of their `entries`, in order."""
        values, places = self._find(entries)
        if places:
            result = self._load_all({entries[place]: keys[place] for place in places})
            for place in places:
                values[place] = result[entries[place]]
        return values

    def _key_bytes(self, entry: Any) -> bytes:
        return entry[0] if type(entry) is tuple else self._codec.encode_key(entry)

    def _entry_bytes(self, entries: Collection[Any]) -> list[bytes]:
        if tuple not in set(map(type, entries)):
            return self._codec.encode_keys(entries)
        return list(map(self._key_bytes, entries))

    def _load(self, key: K, entry: Hashable) -> V | None:
        """Read and cache a missing entry; a fourth of the calls on a skewed load, so the usual way is written out."""
        self._misses += 1
        codec = self._codec
        place: Any
        try:
            place = codec.key_bytes(key)
        except Exception:  # noqa: BLE001 - done again, to name what failed
            place = None
        if type(place) is not bytes:
            place = codec.encode_key(key)
        data = self._uncommitted.get(place)
        value: V | None = None
        if data is not None:
            try:
                value = codec.value_object(data)
            except Exception:  # noqa: BLE001 - done again, to name what failed
                value = codec.decode_value(key, data)
        held = self._held
        held[entry] = value
        self._sizes[entry] = size = len(place) if data is None else len(place) + len(data)
        self._bytes += size + ENTRY_BYTES
        if self._bytes > self._allowed or len(held) > self._cache_size:
            self._make_room()
        return value

    def _load_all(self, missing: Mapping[Any, K]) -> dict[Any, V | None]:
        """Read and cache missing entries, given with their keys, in one call below."""
        self._misses += len(missing)
        places = self._entry_bytes(missing)
        data = self._uncommitted.get_all(places)
        result = dict(zip(missing, self._codec.decode_values(missing.values(), data), strict=True))
        self._held.update(result)
        self._count(missing, places, data)
        if self._bytes > self._allowed or len(self._held) > self._cache_size:
            self._make_room()
        return result

    def _count(self, entries: Collection[Any], keys: list[bytes], data: Sequence[bytes | None]) -> None:
        """Count the bytes of entries, which may have been counted before."""
        known = self._sizes
        try:
            lengths = list(map(len, data))  # type: ignore[arg-type]  # an absent value raises
        except TypeError:
            lengths = [0 if value is None else len(value) for value in data]
        sizes = list(map(add, map(len, keys), lengths))
        self._bytes += sum(sizes) - sum(map(known.get, entries, repeat(0))) - ENTRY_BYTES * len(known)
        known.update(zip(entries, sizes, strict=True))
        self._bytes += ENTRY_BYTES * len(known)

    def _change(self, entry: Hashable, value: V | None) -> None:
        held, dirty = self._held, self._dirty
        if held.get(entry, held) is None and entry not in dirty and not self._has_tombstone(entry):
            self._absent.add(entry)
        held[entry] = value
        dirty[entry] = None
        if len(held) > self._cache_size:
            self._make_room()
        elif len(dirty) >= self._most_dirty:
            self._limit_dirty()

    def _change_all(self, entries: list[Any], values: list[Any]) -> None:
        """Change many entries, some at a time, and make room in between."""
        for start in range(0, len(entries), _TOGETHER):
            self._set_some(entries[start : start + _TOGETHER], values[start : start + _TOGETHER])
            if len(self._held) > self._cache_size:
                self._make_room()
            elif len(self._dirty) >= self._most_dirty:
                self._limit_dirty()

    def _has_tombstone(self, entry: Any) -> bool:
        """Whether an entry that is held as absent has a change that says so."""
        uncommitted = self._uncommitted
        return uncommitted.deletes and self._key_bytes(entry) in uncommitted.changes

    def _limit_dirty(self) -> None:
        """Serialize the dirty values if they are as many as a commit may find, or too large."""
        dirty = len(self._dirty)
        large = self._budget.max_bytes // _SERIALIZED
        if dirty >= self._dirty_limit or FACTOR * dirty * self._bytes_of(next(reversed(self._dirty))) > large:
            self._serialize_all()
            if self._bytes > self._allowed:
                self._make_room()
        self._most_dirty = min(self._dirty_limit, len(self._dirty) + self._step)

    def _make_room(self) -> None:
        """Evict until the entries and their bytes are no more than they may be."""
        while len(self._held) > self._cache_size:
            self._evict(self._room, self._batch_size)
        if self._bytes > self._allowed:
            self._allowed = self._budget.grant(self) // FACTOR

    def _evict(self, room: int, patience: int) -> None:
        """Evict `room` entries. Dirty ones are serialized once there are `patience` of them.

        It terminates: a dirty entry is skipped only while enough clean ones are left, and the hand removes every mark
        of use.
        """
        held, dirty, sizes = self._held, self._dirty, self._sizes
        if self._used is None:
            self._used = {}
        used = self._used
        while room > 0:
            for entry in self._hand:
                if entry in used:
                    del used[entry]
                    continue
                if entry in dirty:
                    if len(dirty) < patience and len(held) - len(dirty) >= room:
                        continue
                    self._serialize_unused(entry)
                del held[entry]
                if entry in sizes:
                    self._bytes -= sizes.pop(entry) + ENTRY_BYTES
                room -= 1
                if not room:
                    return
            self._hand = iter(list(held))

    def _serialize_unused(self, entry: Hashable) -> None:
        """One batch: `entry`, and others that the hand would take, too."""
        self._forget_passing()
        if entry not in self._dirty:
            return
        unused = filterfalse((self._used or ()).__contains__, self._dirty)
        batch = dict.fromkeys(chain((entry,), islice(unused, self._batch_size)))
        self._serialize(batch)
        for unused_entry in batch:
            del self._dirty[unused_entry]
        self._absent.difference_update(batch)

    def _serialize_all(self) -> None:
        if self._dirty:
            self._forget_passing()
            self._serialize(self._dirty)
            self._dirty.clear()
            self._absent.clear()
            self._deleted = False

    def _forget_passing(self) -> None:
        """Entries that were put and deleted again, and that are absent below, have not changed."""
        if self._absent and self._deleted:
            held = self._held
            for entry in [item for item in self._absent if held[item] is None]:
                del self._dirty[entry]
                self._absent.discard(entry)

    def _serialize(self, entries: Collection[Any]) -> None:
        values = list(map(self._held.__getitem__, entries))
        try:
            keys = self._entry_bytes(entries)
            data = self._codec.encode_values(entries, values, self._deleted)
        except SerdeError as failure:
            raise SerdeError(str(failure), store=self._codec.store, late=True) from failure
        self._uncommitted.put_all(keys, data)
        self._uncommitted.deletes |= self._deleted
        self._count(entries, keys, data)

    def discard(self) -> None:
        """Forget every object."""
        self._held.clear()
        self._dirty.clear()
        self._absent.clear()
        self._sizes.clear()
        self._bytes = self._allowed = 0
        self._used = None
        self._hand = iter(())
        self._deleted = False

    def close(self) -> None:
        super().close()
        self._budget.close(self)
        self._usual = None
        self._plain = frozenset()

    def metrics(self) -> dict[str, float]:
        """`gets`, `hits`, `misses`, `puts`, `deletes`, `scans`, `flushes`, `cached-entries`, `dirty-entries` and
        `cached-bytes`."""
        return {
            "gets": self._gets,
            "hits": self._gets - self._misses,
            "misses": self._misses,
            "puts": self._changed - self._deletes,
            "deletes": self._deletes,
            "scans": self._scans,
            "flushes": self._flushes,
            "cached-entries": len(self._held),
            "dirty-entries": len(self._dirty),
            "cached-bytes": self.size,
        }
