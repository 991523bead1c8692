"""The object cache (L1) of a store."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, TypeVar

from samzapy.storage.kv.codec import EntryCodec
from samzapy.storage.kv.scanning import ScanningStore
from samzapy.storage.kv.uncommitted import UncommittedStore

K = TypeVar("K")
V = TypeVar("V")


#: Dirty values that gather in a cache with room for more, unless `write.batch.size` says more: until they are
#: serialized nobody knows their bytes, and a task's budget of uncommitted bytes does not count them.
MOST_DIRTY = 50_000


class CachedStore(ScanningStore[K, V]):
    """An LRU of deserialized values, and the dirty ones beside it, over the uncommitted bytes.

    - A `get` or `put` of a held key touches two dicts and nothing below.
    - An entry is dirty from its `put` until it is serialized, and then clean; a `put` of a dirty key is one dict's
      assignment. Only clean entries are evicted, the least recently used first.
    - Dirty values are serialized together, and as late as possible: at `flush`, before a range is read, and when the
      cache is full and at least `batch_size` of them have gathered. So a dirty key is always held, and a key that is
      put again and again is serialized once. `MOST_DIRTY` bounds what a commit finds unserialized.
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
        "_batch_size", "_cache_size", "_clean", "_deleted", "_deletes", "_dirty", "_flushes", "_gets", "_misses", "_most_dirty", "_plain", "_puts",
    )  # fmt: skip

    def __init__(self, codec: EntryCodec, uncommitted: UncommittedStore, cache_size: int, batch_size: int) -> None:
        super().__init__(codec, uncommitted)
        self._clean: OrderedDict[Any, V | None] = OrderedDict()
        self._dirty: dict[Any, V | None] = {}
        self._plain = codec.plain_types
        self._cache_size = cache_size
        self._batch_size = batch_size
        self._most_dirty = max(batch_size, MOST_DIRTY)
        self._deleted = False
        self._gets = self._misses = self._puts = self._deletes = self._flushes = 0

    def get(self, key: K) -> V | None:
        """The value of `key`, None if it has none."""
        entry = key if type(key) in self._plain else self._entry(key)
        self._gets += 1
        dirty = self._dirty
        if entry in dirty:
            return dirty[entry]
        clean = self._clean
        if entry in clean:
            clean.move_to_end(entry)
            return clean[entry]
        return self._load(key, entry)

    def put(self, key: K, value: V) -> None:
        """Set `key` to `value`."""
        entry = key if type(key) in self._plain else self._entry(key)
        if value is None:
            self._codec.check_value(key, value)
        self._puts += 1
        dirty = self._dirty
        if entry in dirty:
            dirty[entry] = value
        else:
            self._add_dirty(entry, value)

    def delete(self, key: K) -> None:
        """Remove `key`."""
        entry = key if type(key) in self._plain else self._entry(key)
        self._deletes += 1
        self._deleted = True
        self._add_dirty(entry, None)

    def get_all(self, keys: Iterable[K]) -> dict[K, V | None]:
        """The values of `keys`; what is not cached is read in one go. Keys that Python finds equal share one entry."""
        found: dict[K, V | None] = {}
        missing: dict[Any, K] = {}
        dirty, clean, plain = self._dirty, self._clean, self._plain
        wanted = self.checked_keys(keys)
        for key in wanted:
            entry = key if type(key) in plain else self._entry(key)
            if entry in dirty:
                found[key] = dirty[entry]
            elif entry in clean:
                found[key] = clean[entry]
                clean.move_to_end(entry)
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
        if self._dirty:
            self._serialize()

    def _entry(self, key: K) -> Hashable:
        """The cache entry of a key that is not plain. After `close` no key is plain, so every call comes here."""
        self.check_open()
        data = self._codec.encode_key(key)
        if self._plain:
            meant = self._codec.decode_key(data)
            if type(meant) in self._plain:
                return meant  # type: ignore[no-any-return]
        return (data,)

    def _entry_bytes(self, entries: Mapping[Any, Any]) -> list[bytes]:
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
        self._clean[entry] = value
        if len(self._clean) + len(self._dirty) > self._cache_size:
            self._make_room()

    def _add_dirty(self, entry: Hashable, value: V | None) -> None:
        dirty, clean = self._dirty, self._clean
        clean.pop(entry, None)
        dirty[entry] = value
        if len(clean) + len(dirty) > self._cache_size:
            self._make_room()
        elif len(dirty) >= self._most_dirty:
            self._serialize()

    def _make_room(self) -> None:
        if len(self._dirty) >= self._batch_size:
            self._serialize()
        else:
            self._clean.popitem(last=False)

    def _serialize(self) -> None:
        dirty, clean = self._dirty, self._clean
        keys = self._entry_bytes(dirty)
        self._uncommitted.put_all(keys, self._codec.encode_values(dirty, dirty.values(), self._deleted))
        clean.update(dirty)
        self._dirty = {}
        self._deleted = False
        for _ in range(len(clean) - self._cache_size):
            clean.popitem(last=False)

    def discard(self) -> None:
        """Forget every object."""
        self._clean.clear()
        self._dirty.clear()
        self._deleted = False

    def close(self) -> None:
        """Drop the cache; every later call raises StoreClosed."""
        super().close()
        self._plain = frozenset()

    def metrics(self) -> dict[str, float]:
        """`gets`, `hits`, `misses`, `puts`, `deletes`, `scans`, `flushes`, `cached-entries`, `dirty-entries`."""
        return {
            "gets": self._gets,
            "hits": self._gets - self._misses,
            "misses": self._misses,
            "puts": self._puts,
            "deletes": self._deletes,
            "scans": self._scans,
            "flushes": self._flushes,
            "cached-entries": len(self._clean) + len(self._dirty),
            "dirty-entries": len(self._dirty),
        }
