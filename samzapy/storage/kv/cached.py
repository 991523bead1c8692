"""The object cache (L1) of a store."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, filterfalse, islice
from typing import Any, TypeVar

from samzapy.errors import SerdeError
from samzapy.storage.kv.codec import EntryCodec
from samzapy.storage.kv.scanning import ScanningStore
from samzapy.storage.kv.uncommitted import UncommittedStore

K = TypeVar("K")
V = TypeVar("V")


#: The most dirty values that a cache with room for more holds, unless `write.batch.size` is more. Their bytes are unknown
#: until they are serialized, so a task's budget of uncommitted bytes does not count them.
MOST_DIRTY = 50_000
#: The part of a cache that is evicted at once.
_SHARE = 64


class CachedStore(ScanningStore[K, V]):
    """Deserialized values, some of them dirty, over the uncommitted bytes.

    - A `get` or `put` of a held key touches dicts and nothing below.
    - An entry is dirty from its `put` until it is serialized, and then clean. Only clean entries are evicted.
    - A hand that goes round finds the entries to evict: an entry that was used since the hand passed it stays, another
      goes (CLOCK, the second chance). That keeps as good entries as an LRU and costs a hit one assignment instead of a
      move in the LRU's order; nothing as long as there is room.
    - Dirty values are serialized together, and as late as possible: at `flush`, before a range is read, and where the
      hand meets one that was not used while at least `batch_size` are dirty, or too few are clean to make room: then
      up to `batch_size` such. So a dirty key is always held, and a key that is put again and again is serialized once.
      `MOST_DIRTY` bounds what a commit finds unserialized.
    - Changes are numbered, and the numbers go down with a batch. So the records of a commit are in the order of each key's
      last change, whatever the sizes of cache and batch.
    - An absent key is held as absent.
    - A value that does not serialize is found when its batch is, not at its `put`; the error names its key.
    - Values are handed out by reference: a change without `put` is seen by later gets until the value is evicted, and
      is not saved (or is, if the key happened to be dirty).

    Python finds 1, 1.0 and True equal, serdes do not. Only keys of the codec's plain types are their own cache
    entries; every other key goes by its bytes, or by the plain key that those bytes stand for.
    `cache_size` and `batch_size` are at least 1, and `cache_size >= batch_size`; both kinds of entries together are at
    most `cache_size`.
    """

    __slots__ = (
        "_batch_size", "_cache_size", "_changed", "_deleted", "_deletes", "_dirty", "_flushes", "_gets", "_hand", "_held", "_misses", "_most_dirty", "_plain", "_room", "_used", "_usual",
    )  # fmt: skip

    def __init__(self, codec: EntryCodec, uncommitted: UncommittedStore, cache_size: int, batch_size: int) -> None:
        super().__init__(codec, uncommitted)
        # Every entry; the dirty ones among them, each with the number of its last change; those used again since the hand
        # was there, None until it has moved.
        self._held: dict[Any, V | None] = {}
        self._dirty: dict[Any, int] = {}
        self._used: dict[Any, None] | None = None
        self._hand: Iterator[Any] = iter(())
        self._plain = codec.plain_types
        # Comparing with one type costs half of looking it up among several.
        self._usual: type | None = next((each for each in (str, bytes, int) if each in self._plain), None)
        self._cache_size = cache_size
        self._batch_size = batch_size
        self._room = max(1, cache_size // _SHARE)
        self._most_dirty = max(batch_size, MOST_DIRTY)
        self._deleted = False
        self._gets = self._misses = self._changed = self._deletes = self._flushes = 0

    def get(self, key: K) -> V | None:
        """The value of `key`, None if it has none."""
        entry = key if type(key) is self._usual else self._entry(key)
        self._gets += 1
        held = self._held
        if entry in held:
            if self._used is not None:
                self._used[entry] = None
            return held[entry]
        return self._load(key, entry)

    def put(self, key: K, value: V) -> None:
        """Set `key` to `value`."""
        entry = key if type(key) is self._usual else self._entry(key)
        if value is None:
            self._codec.check_value(key, value)
        stamp = self._changed = self._changed + 1
        dirty = self._dirty
        if entry in dirty:
            dirty[entry] = stamp
            if self._used is not None:
                self._used[entry] = None
            self._held[entry] = value
        else:
            self._change(entry, value)

    def delete(self, key: K) -> None:
        """Remove `key`."""
        entry = key if type(key) is self._usual else self._entry(key)
        self._changed += 1
        self._deletes += 1
        self._deleted = True
        self._change(entry, None)

    def get_all(self, keys: Iterable[K]) -> dict[K, V | None]:
        """The values of `keys`; one call below reads those that are not cached. Keys that Python finds equal share one
        entry."""
        found: dict[K, V | None] = {}
        missing: dict[Any, K] = {}
        held, usual, used = self._held, self._usual, self._used
        wanted = self.checked_keys(keys)
        for key in wanted:
            entry = key if type(key) is usual else self._entry(key)
            if entry in held:
                found[key] = held[entry]
                if used is not None:
                    used[entry] = None
            else:
                found[key] = None
                missing[entry] = key
        self._gets += len(wanted)
        self._misses += len(missing)
        for (entry, key), data in zip(
            missing.items(), self._uncommitted.get_all(self._entry_bytes(missing)) if missing else (), strict=True
        ):
            value = found[key] = None if data is None else self._codec.decode_value(key, data)
            self._remember(entry, value)
        return found

    def put_all(self, entries: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Set many, or none if one of them is refused."""
        put = self.put
        for key, value in zip(*self.checked_entries(entries), strict=True):
            put(key, value)

    def delete_all(self, keys: Iterable[K]) -> None:
        """Remove many, or none if one of them is refused."""
        for key in self.checked_keys(keys):
            self.delete(key)

    def flush(self) -> None:
        """Serialize the dirty values into the uncommitted store."""
        self.check_open()
        self._flushes += 1
        self._serialize_all()

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

    def _entry_bytes(self, entries: Collection[Any]) -> list[bytes]:
        if tuple not in set(map(type, entries)):
            return self._codec.encode_keys(entries)
        encode = self._codec.encode_key
        return [entry[0] if type(entry) is tuple else encode(entry) for entry in entries]

    def _load(self, key: K, entry: Hashable) -> V | None:
        """Read and cache a missing entry; a fourth of the calls on a skewed load, so the usual way is written out."""
        self._misses += 1
        codec = self._codec
        data: Any
        try:
            data = codec.key_bytes(key)
        except Exception:  # noqa: BLE001 - done again, to name what failed
            data = None
        if type(data) is not bytes:
            data = codec.encode_key(key)
        data = self._uncommitted.get(data)
        value: V | None = None
        if data is not None:
            try:
                value = codec.value_object(data)
            except Exception:  # noqa: BLE001 - done again, to name what failed
                value = codec.decode_value(key, data)
        self._remember(entry, value)
        return value

    def _remember(self, entry: Hashable, value: V | None) -> None:
        held = self._held
        held[entry] = value
        if len(held) > self._cache_size:
            self._make_room()

    def _change(self, entry: Hashable, value: V | None) -> None:
        held, dirty = self._held, self._dirty
        held[entry] = value
        dirty[entry] = self._changed
        if len(held) > self._cache_size:
            self._make_room()
        elif len(dirty) >= self._most_dirty:
            self._serialize_all()

    def _make_room(self) -> None:
        """Evict a part of the cache. It ends: a dirty entry is passed over only while enough clean ones are left to take
        instead, and the hand takes every mark away."""
        held, dirty, room = self._held, self._dirty, self._room
        if self._used is None:
            self._used = {}
        used = self._used
        while True:
            for entry in self._hand:
                if entry in used:
                    del used[entry]
                    continue
                if entry in dirty:
                    if len(dirty) < self._batch_size and len(held) - len(dirty) >= room:
                        continue
                    self._serialize_unused(entry)
                del held[entry]
                room -= 1
                if not room:
                    return
            self._hand = iter(list(held))

    def _serialize_unused(self, entry: Hashable) -> None:
        """One batch: `entry`, and others that the hand would take, too."""
        unused = filterfalse((self._used or ()).__contains__, self._dirty)
        batch = dict.fromkeys(chain((entry,), islice(unused, self._batch_size)))
        self._serialize(batch, list(map(self._dirty.__getitem__, batch)))
        deque(map(self._dirty.__delitem__, batch), maxlen=0)

    def _serialize_all(self) -> None:
        if self._dirty:
            self._serialize(self._dirty, list(self._dirty.values()))
            self._dirty = {}
            self._deleted = False

    def _serialize(self, entries: Collection[Any], numbers: Sequence[int]) -> None:
        values = list(map(self._held.__getitem__, entries))
        try:
            keys = self._entry_bytes(entries)
            data = self._codec.encode_values(entries, values, self._deleted)
        except SerdeError as failure:
            raise SerdeError(str(failure), store=self._codec.store, late=True) from failure
        self._uncommitted.put_all(keys, data, numbers)

    def discard(self) -> None:
        """Forget every object."""
        self._held.clear()
        self._dirty.clear()
        self._used = None
        self._hand = iter(())
        self._deleted = False

    def close(self) -> None:
        """Drop the cache; every later call raises StoreClosed."""
        super().close()
        self._usual = None
        self._plain = frozenset()

    def metrics(self) -> dict[str, float]:
        """`gets`, `hits`, `misses`, `puts`, `deletes`, `scans`, `flushes`, `cached-entries`, `dirty-entries`."""
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
        }
