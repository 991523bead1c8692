"""`object.cache.check`: finds objects that a task has changed without a put."""

from __future__ import annotations

import hashlib
import reprlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from samzapy.errors import StoreError
from samzapy.storage.kv.codec import EntryCodec, entry_list, key_list
from samzapy.storage.kv.forwarding import ForwardingStore, StoreLayer

K = TypeVar("K")
V = TypeVar("V")

#: Types of values that cannot change.
_IMMUTABLE = frozenset({str, bytes, int, float, bool})


class WatchedStore(ForwardingStore[K, V]):
    """Remembers a digest of each object after `get` and `put`, and compares it at every `flush`, so at each commit.

    For debugging: it serializes every object once a call and once a commit. It ignores the objects of ranges and
    snapshots, since those are copies.
    """

    __slots__ = ("_codec", "_most", "_seen")

    def __init__(self, inner: StoreLayer[K, V], codec: EntryCodec, most: int) -> None:
        """`most`: objects that are remembered, the latest."""
        super().__init__(inner)
        self._codec = codec
        self._most = most
        self._seen: OrderedDict[tuple[type, K], tuple[Any, bytes]] = OrderedDict()

    def get(self, key: K) -> V | None:
        value = self._inner.get(key)
        self._remember(key, value)
        return value

    def get_all(self, keys: Iterable[K]) -> dict[K, V | None]:
        found = self._inner.get_all(keys)
        for key, value in found.items():
            self._remember(key, value)
        return found

    def put(self, key: K, value: V) -> None:
        self._inner.put(key, value)
        self._renew(key, value)

    def put_all(self, entries: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        pairs = entry_list(self._codec.store, entries)
        self._inner.put_all(pairs)
        for key, value in pairs:
            self._renew(key, value)

    def delete(self, key: K) -> None:
        self._inner.delete(key)
        self._seen.pop((type(key), key), None)

    def delete_all(self, keys: Iterable[K]) -> None:
        unwanted = key_list(self._codec.store, keys)
        self._inner.delete_all(unwanted)
        for key in unwanted:
            self._seen.pop((type(key), key), None)

    def flush(self) -> None:
        """Raises StoreError with the first key that has a changed object."""
        for (_, key), (value, digest) in self._seen.items():
            if self._digest(key, value) != digest:
                raise StoreError(
                    f"store '{self._codec.store}': the value of key {reprlib.repr(key)} was changed without a put, so "
                    "the change is not saved; put it, or use object.cache.mode=copy"
                )
        self._inner.flush()

    def discard(self) -> None:
        self._seen.clear()
        self._inner.discard()

    def close(self) -> None:
        self._seen.clear()
        self._inner.close()

    def _remember(self, key: K, value: V | None) -> None:
        """Keep the first digest of an object: a second `get` of one that was changed must not hide the change."""
        known = self._seen.get((type(key), key))
        if known is None or known[0] is not value:
            self._renew(key, value)

    def _renew(self, key: K, value: V | None) -> None:
        seen, entry = self._seen, (type(key), key)
        if value is None or type(value) in _IMMUTABLE:
            seen.pop(entry, None)
            return
        seen[entry] = (value, self._digest(key, value))
        seen.move_to_end(entry)
        if len(seen) > self._most:
            seen.popitem(last=False)

    def _digest(self, key: K, value: V) -> bytes:
        return hashlib.blake2b(self._codec.encode_value(key, value), digest_size=16).digest()
