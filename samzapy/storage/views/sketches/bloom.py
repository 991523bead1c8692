"""`stores.NAME.factory = bloom`: was it added? By `rbloom`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from samzapy.api.engine import EngineSettings
from samzapy.api.kv import KeyValueStore
from samzapy.config.stores import engines
from samzapy.errors import StoreRefused
from samzapy.storage.views.properties import value_of
from samzapy.storage.views.sketches.library import SketchesFactory, SketchSerde, library


class BloomFilters:
    """A Bloom filter of str and bytes items for each key.

    What was added is always found; what was not is found by mistake with about the error rate, once as many items as
    the capacity are in. A filter has its full size from its first item on.
    """

    __slots__ = ("_capacity", "_error_rate", "_name", "_new", "_store")

    def __init__(self, store: KeyValueStore[Any, Any], name: str, capacity: int, error_rate: float) -> None:
        self._store = store
        self._name = name
        self._capacity = capacity
        self._error_rate = error_rate
        self._new: Any = library("rbloom").Bloom

    def add(self, key: Any, item: str | bytes) -> bool:
        """Add the item; returns whether it was certainly new. One that seems to be there changes nothing."""
        data = self._bytes(item)
        found = self._store.get(key)
        if found is None:
            found = self._new(self._capacity, self._error_rate, _hash)
        elif data in found:
            return False
        found.add(data)
        self._store.put(key, found)
        return True

    def add_all(self, key: Any, items: Iterable[str | bytes]) -> int:
        """Add many; returns how many were certainly new."""
        return sum([self.add(key, item) for item in items])

    def might_contain(self, key: Any, item: str | bytes) -> bool:
        """False: it was never added. True: it was, or this is one of the mistakes."""
        data = self._bytes(item)
        found = self._store.get(key)
        return found is not None and data in found

    def approximate_count(self, key: Any) -> float:
        """About how many different items were added."""
        found = self._store.get(key)
        return 0.0 if found is None else float(found.approx_items)

    def delete(self, key: Any) -> None:
        """Forget the key's filter."""
        self._store.delete(key)

    def _bytes(self, item: str | bytes) -> bytes:
        if isinstance(item, str):
            return b"s" + item.encode("utf-8", "surrogatepass")
        if isinstance(item, bytes):
            return b"b" + item
        raise StoreRefused(f"store '{self._name}': a Bloom filter takes str and bytes, got {item!r:.100}")


def _hash(data: bytes) -> int:
    """128 bits that are the same in every process, as a signed number, which is what rbloom takes."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=16).digest(), "big", signed=True)


class BloomSerde(SketchSerde):
    """A filter as rbloom writes it: the number of hashes, then the bits."""

    def to_bytes(self, value: Any) -> bytes:
        """The filter's bytes."""
        return bytes(value.save_bytes())

    def from_bytes(self, data: bytes) -> Any:
        """Raises ValueError for bytes that are no filter."""
        return library("rbloom").Bloom.load_bytes(data, _hash)


class BloomFiltersFactory(SketchesFactory):
    """Gives BloomFilters. Capacity and error rate are those of new filters; others stay as they are."""

    engine = "bloom"
    package = "rbloom"
    keys = (engines.BLOOM_CAPACITY, engines.BLOOM_ERROR_RATE)
    serde = BloomSerde

    def view(self, store: KeyValueStore[Any, Any], settings: EngineSettings) -> BloomFilters:
        """See `StoreViewFactory.view`."""
        capacity, error_rate = value_of(settings, engines.BLOOM_CAPACITY), value_of(settings, engines.BLOOM_ERROR_RATE)
        return BloomFilters(store, settings.store, capacity, error_rate)
