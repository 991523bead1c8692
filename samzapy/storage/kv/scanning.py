"""The objects of a store over its bytes: iterators and snapshots over merged bytes, the base of a store of objects, and
the store without an object cache."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from samzapy.api.engine import Cursor
from samzapy.api.kv import K, KeyValueIterator, KeyValueSnapshot, V
from samzapy.errors import StoreClosed, StoreError
from samzapy.storage.kv.codec import EntryCodec, entry_columns, key_list
from samzapy.storage.kv.forwarding import StoreLayer
from samzapy.storage.kv.uncommitted import Pair, UncommittedStore


class EntryIterator(KeyValueIterator[K, V]):
    """Decodes a cursor's pairs one by one; releases the cursor at the end, at an error, and when closed."""

    __slots__ = ("_closed", "_codec", "_cursor", "_entries", "_failed")

    def __init__(self, cursor: Cursor, codec: EntryCodec, failed: Callable[[BaseException], object]) -> None:
        """`failed` gets the error at which it ends."""
        self._codec = codec
        self._failed = failed
        self._cursor: Cursor | None = cursor
        self._entries: Iterator[tuple[K, V]] = _decoded(cursor.__enter__(), codec)
        self._closed = False

    def __next__(self) -> tuple[K, V]:
        try:
            return next(self._entries)
        except StopIteration:
            self._release()
            if self._closed:
                raise StoreClosed(f"store '{self._codec.store}': the iterator is closed") from None
            raise
        except BaseException as failure:
            self._failed(failure)
            self._release()
            raise

    def close(self) -> None:
        self._closed = True
        self._release()

    def _release(self) -> None:
        cursor, self._cursor = self._cursor, None
        self._entries = iter(())
        if cursor is not None:
            cursor.__exit__(None, None, None)


def _decoded(pairs: Iterator[Pair], codec: EntryCodec) -> Iterator[tuple[K, V]]:
    key_object, value_object = codec.key_object, codec.value_object
    for key, value in pairs:
        try:
            entry = key_object(key), value_object(value)
        except Exception:  # noqa: BLE001 - decoded again, to name what failed
            decoded = codec.decode_key(key)
            entry = decoded, codec.decode_value(decoded, value)
        yield entry


class EntrySnapshot(KeyValueSnapshot[K, V]):
    """A snapshot of a range of objects."""

    __slots__ = ("_closed", "_codec", "_cursor", "_failed", "_release")

    def __init__(
        self,
        snapshot: tuple[Callable[[], Cursor], Callable[[], None]],
        codec: EntryCodec,
        failed: Callable[[BaseException], object],
    ) -> None:
        """`failed`: as in its iterators."""
        self._cursor, self._release = snapshot
        self._codec = codec
        self._failed = failed
        self._closed = False

    def iterator(self) -> KeyValueIterator[K, V]:
        """A new iterator; it stays usable until it or the store is closed."""
        if self._closed:
            raise StoreClosed(f"store '{self._codec.store}': the snapshot is closed")
        return EntryIterator(self._cursor(), self._codec, self._failed)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._release()


#: The attributes of a `ScanningStore`.
SCANNING_SLOTS = ("_closed", "_codec", "_open", "_scans", "_uncommitted")


class ScanningStore(StoreLayer[K, V]):
    """Ranges read the merged bytes, after a `flush`; the subclass reads and writes single keys.

    A subclass has `SCANNING_SLOTS` among its slots, since Python allows only one base with slots. In a cache, which has
    a compiled base, attributes without slots make a `get` a third slower.
    """

    __slots__ = ()

    _open: weakref.WeakSet[EntryIterator[K, V] | EntrySnapshot[K, V]]

    def __init__(self, codec: EntryCodec, uncommitted: UncommittedStore) -> None:
        self._codec = codec
        self._uncommitted = uncommitted
        self._closed = False
        self._scans = 0
        self._open = weakref.WeakSet()

    def range(self, from_key: K, to_key: K) -> KeyValueIterator[K, V]:
        """Entries with from_key <= key < to_key; none if the bounds are the wrong way round."""
        self.check_open()
        return self._scan(self._codec.encode_key(from_key), self._codec.encode_key(to_key))

    def prefix(self, prefix: K) -> KeyValueIterator[K, V]:
        """Entries with keys that start with the prefix, in bytes. Raises StoreError for a serde that keeps no
        prefixes."""
        self.check_open()
        if not self._codec.keeps_prefixes:
            raise StoreError(
                f"store '{self._codec.store}': prefix needs a key serde that keeps prefixes (string, bytes)"
            )
        lower = self._codec.encode_key(prefix)
        return self._scan(lower, first_beyond(lower))

    def all(self) -> KeyValueIterator[K, V]:
        self.check_open()
        return self._scan(None, None)

    def snapshot(self, from_key: K, to_key: K) -> KeyValueSnapshot[K, V]:
        """The present contents of the range, including own uncommitted writes."""
        self.check_open()
        lower, upper = self._codec.encode_key(from_key), self._codec.encode_key(to_key)
        self.flush()
        taken, failed = self._uncommitted.snapshot(lower, upper), self._uncommitted.note_failed
        snapshot: EntrySnapshot[K, V] = EntrySnapshot(taken, self._codec, failed)
        self._open.add(snapshot)
        return snapshot

    def _scan(self, lower: bytes | None, upper: bytes | None) -> KeyValueIterator[K, V]:
        self.flush()
        self._scans += 1
        cursor, failed = self._uncommitted.iterate(lower, upper), self._uncommitted.note_failed
        entries: EntryIterator[K, V] = EntryIterator(cursor, self._codec, failed)
        self._open.add(entries)
        return entries

    def check_open(self) -> None:
        """Raise StoreClosed after `close`."""
        if self._closed:
            raise StoreClosed(f"store '{self._codec.store}' is closed")

    def close(self) -> None:
        """Drop the objects held here, and every open iterator and snapshot. The owner of the engine closes that."""
        if self._closed:
            return
        self._closed = True
        for opened in list(self._open):
            opened.close()
        self.discard()

    def checked_entries(self, entries: Mapping[K, V] | Iterable[tuple[K, V]]) -> tuple[list[K], list[V]]:
        """The keys and the values of a `put_all`, each one that the store takes."""
        self.check_open()
        keys, values = entry_columns(self._codec.store, entries)
        self._check_keys(keys)
        self._codec.check_values(keys, values)
        return keys, values

    def checked_keys(self, keys: Iterable[K]) -> list[K]:
        """The keys of a `get_all` or `delete_all`, each one that the store takes."""
        self.check_open()
        checked = key_list(self._codec.store, keys)
        self._check_keys(checked)
        return checked

    def _check_keys(self, keys: list[K]) -> None:
        # Plain keys are hashable and not None; a set of types costs a tenth of a call a key.
        if not set(map(type, keys)) <= self._codec.plain_types:
            for key in keys:
                self._codec.check_key(key)


def first_beyond(prefix: bytes) -> bytes | None:
    """The smallest bytes above everything that starts with `prefix`; None if there are none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


class DirectStore(ScanningStore[K, V]):
    """`object.cache.size=0`: every call serializes at once, every `get` deserializes a new object."""

    __slots__ = (*SCANNING_SLOTS, "_deletes", "_gets", "_plain", "_puts")

    def __init__(self, codec: EntryCodec, uncommitted: UncommittedStore) -> None:
        super().__init__(codec, uncommitted)
        self._gets = self._puts = self._deletes = 0
        self._plain: frozenset[type] = codec.plain_types

    def get(self, key: K) -> V | None:
        self._gets += 1
        data = self._uncommitted.get(self._encoded(key))
        return None if data is None else self._codec.decode_value(key, data)

    def get_all(self, keys: Iterable[K]) -> dict[K, V | None]:
        wanted = self.checked_keys(keys)
        self._gets += len(wanted)
        result = self._uncommitted.get_all(self._codec.encode_keys(wanted))
        return {
            key: None if data is None else self._codec.decode_value(key, data)
            for key, data in zip(wanted, result, strict=True)
        }

    def put(self, key: K, value: V) -> None:
        encoded = self._encoded(key)
        self._puts += 1
        self._uncommitted.put(encoded, self._codec.encode_value(key, value))

    def put_all(self, entries: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        keys, values = self.checked_entries(entries)
        self._puts += len(keys)
        encoded = self._codec.encode_keys(keys)
        self._uncommitted.put_all(encoded, self._codec.encode_values(keys, values, with_deletions=False))

    def delete(self, key: K) -> None:
        encoded = self._encoded(key)
        self._deletes += 1
        self._uncommitted.put_all([encoded], [None])

    def delete_all(self, keys: Iterable[K]) -> None:
        unwanted = self.checked_keys(keys)
        self._deletes += len(unwanted)
        self._uncommitted.put_all(self._codec.encode_keys(unwanted), [None] * len(unwanted))

    def _encoded(self, key: K) -> bytes:
        data: Any
        if type(key) in self._plain:
            try:
                data = self._codec.key_bytes(key)
            except Exception:  # noqa: BLE001 - done again, to name what failed
                data = None
            if type(data) is bytes:
                return data
        self.check_open()
        return self._codec.encode_key(key)

    def close(self) -> None:
        super().close()
        self._plain = frozenset()

    def flush(self) -> None:
        """Do nothing: no object is held here."""
        self.check_open()

    def discard(self) -> None:
        """Do nothing: no object is held here."""

    def metrics(self) -> dict[str, float]:
        """`gets`, `puts`, `deletes`, `scans`."""
        return {"gets": self._gets, "puts": self._puts, "deletes": self._deletes, "scans": self._scans}
