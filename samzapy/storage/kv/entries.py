"""Iterators and snapshots over objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from samzapy.api.engine import Cursor
from samzapy.api.kv import KeyValueIterator, KeyValueSnapshot
from samzapy.errors import StoreClosed
from samzapy.storage.kv.codec import EntryCodec
from samzapy.storage.kv.merge import Pair
from samzapy.storage.kv.uncommitted import UncommittedSnapshot

K = TypeVar("K")
V = TypeVar("V")


class EntryIterator(KeyValueIterator[K, V]):
    """Decodes a cursor's pairs one by one; releases the cursor at the end, at an error, and when closed."""

    __slots__ = ("_closed", "_codec", "_cursor", "_entries")

    def __init__(self, cursor: Cursor, codec: EntryCodec) -> None:
        self._codec = codec
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
        except BaseException:
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
    """A range of objects as it was."""

    __slots__ = ("_closed", "_codec", "_snapshot")

    def __init__(self, snapshot: UncommittedSnapshot, codec: EntryCodec) -> None:
        self._snapshot = snapshot
        self._codec = codec
        self._closed = False

    def iterator(self) -> KeyValueIterator[K, V]:
        """A new iterator; it stays usable until it or the store is closed."""
        if self._closed:
            raise StoreClosed(f"store '{self._codec.store}': the snapshot is closed")
        return EntryIterator(self._snapshot.iterate(), self._codec)

    def close(self) -> None:
        """Release the snapshot; closing twice is allowed."""
        if not self._closed:
            self._closed = True
            self._snapshot.close()
