"""The base of the stores over the uncommitted bytes: ranges, iterators, snapshots, and the check for a closed store."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from samzapy.api.engine import Cursor
from samzapy.api.kv import KeyValueIterator, KeyValueSnapshot
from samzapy.errors import StoreClosed, StoreError
from samzapy.storage.kv.codec import EntryCodec, entry_columns, key_list
from samzapy.storage.kv.forwarding import StoreLayer
from samzapy.storage.kv.ordered import Pair
from samzapy.storage.kv.uncommitted import UncommittedSnapshot, UncommittedStore

K = TypeVar("K")
V = TypeVar("V")


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
        """Release the cursor; reading on raises StoreClosed."""
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

    __slots__ = ("_closed", "_codec", "_failed", "_snapshot")

    def __init__(
        self, snapshot: UncommittedSnapshot, codec: EntryCodec, failed: Callable[[BaseException], object]
    ) -> None:
        """`failed`: as in its iterators."""
        self._snapshot = snapshot
        self._codec = codec
        self._failed = failed
        self._closed = False

    def iterator(self) -> KeyValueIterator[K, V]:
        """A new iterator; it stays usable until it or the store is closed."""
        if self._closed:
            raise StoreClosed(f"store '{self._codec.store}': the snapshot is closed")
        return EntryIterator(self._snapshot.iterate(), self._codec, self._failed)

    def close(self) -> None:
        """Release the snapshot; closing twice is allowed."""
        if not self._closed:
            self._closed = True
            self._snapshot.close()


#: The attributes of a `ScanningStore`.
SCANNING_SLOTS = ("_closed", "_codec", "_open", "_scans", "_uncommitted")


class ScanningStore(StoreLayer[K, V]):
    """Ranges read the merged bytes, after a `flush`; the subclass reads and writes single keys.

    A subclass has `SCANNING_SLOTS` among its slots: another base of it may have slots, too, and Python allows that of one base
    only.
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
        """Entries with keys that start with the prefix, in bytes. Raises StoreError for a serde that keeps no prefixes."""
        self.check_open()
        if not self._codec.keeps_prefixes:
            raise StoreError(
                f"store '{self._codec.store}': prefix needs a key serde that keeps prefixes (string, bytes)"
            )
        lower = self._codec.encode_key(prefix)
        return self._scan(lower, first_beyond(lower))

    def all(self) -> KeyValueIterator[K, V]:
        """Every entry."""
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
