"""`object.cache.mode=copy`: every caller gets a copy of the value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from samzapy.api.kv import KeyValueIterator, KeyValueSnapshot
from samzapy.api.serde import HintedSerde
from samzapy.storage.kv.codec import EntryCodec, entry_list
from samzapy.storage.kv.forwarding import ForwardingStore, StoreLayer

K = TypeVar("K")
V = TypeVar("V")


class SerializedValues(HintedSerde):
    """The value serde below a CopyingStore, where values are bytes already."""

    allocates_exactly = True
    keeps_bytes = True

    def to_bytes(self, value: Any) -> bytes:
        """Return the bytes unchanged."""
        return value  # type: ignore[no-any-return]

    def from_bytes(self, data: bytes) -> Any:
        """Return the bytes unchanged."""
        return data


class CopyingStore(ForwardingStore[K, V]):
    """Values as objects over a store that holds them as bytes.

    A `put` serializes at once, so it raises for a value that does not serialize; a `get` deserializes each time. One
    conversion a call is several times cheaper than a copy of an object, and gives exactly the value of a restored store.
    """

    __slots__ = ("_codec",)

    def __init__(self, inner: StoreLayer[K, bytes], codec: EntryCodec) -> None:
        super().__init__(inner)
        self._codec = codec

    def get(self, key: K) -> V | None:
        """A copy of the value of `key`."""
        data = self._inner.get(key)
        return None if data is None else self._codec.decode_value(key, data)

    def get_all(self, keys: Iterable[K]) -> dict[K, V | None]:
        """Copies of the values of `keys`."""
        decode = self._codec.decode_value
        found = self._inner.get_all(keys)
        return {key: None if data is None else decode(key, data) for key, data in found.items()}

    def put(self, key: K, value: V) -> None:
        """Set `key` to a copy of `value`."""
        self._inner.put(key, self._codec.encode_value(key, value))

    def put_all(self, entries: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Set many, or none if one of them is refused."""
        pairs = entry_list(self._codec.store, entries)
        encode = self._codec.encode_value
        self._inner.put_all([(key, encode(key, value)) for key, value in pairs])

    def flush(self) -> None:
        """Serialize the dirty values below, and have some of the next values read back."""
        self._inner.flush()
        self._codec.sample(int(self._inner.metrics()["puts"]))

    def range(self, from_key: K, to_key: K) -> KeyValueIterator[K, V]:
        """Entries with from_key <= key < to_key."""
        return _DecodingIterator(self._inner.range(from_key, to_key), self._codec)

    def prefix(self, prefix: K) -> KeyValueIterator[K, V]:
        """Entries with keys that start with the prefix, in bytes."""
        return _DecodingIterator(self._inner.prefix(prefix), self._codec)

    def all(self) -> KeyValueIterator[K, V]:
        """Every entry."""
        return _DecodingIterator(self._inner.all(), self._codec)

    def snapshot(self, from_key: K, to_key: K) -> KeyValueSnapshot[K, V]:
        """The present contents of the range."""
        return _DecodingSnapshot(self._inner.snapshot(from_key, to_key), self._codec)


class _DecodingIterator(KeyValueIterator[K, V]):
    __slots__ = ("_codec", "_inner")

    def __init__(self, inner: KeyValueIterator[K, bytes], codec: EntryCodec) -> None:
        self._inner = inner
        self._codec = codec

    def __next__(self) -> tuple[K, V]:
        key, data = next(self._inner)
        return key, self._codec.decode_value(key, data)

    def close(self) -> None:
        self._inner.close()


class _DecodingSnapshot(KeyValueSnapshot[K, V]):
    __slots__ = ("_codec", "_inner")

    def __init__(self, inner: KeyValueSnapshot[K, bytes], codec: EntryCodec) -> None:
        self._inner = inner
        self._codec = codec

    def iterator(self) -> KeyValueIterator[K, V]:
        return _DecodingIterator(self._inner.iterator(), self._codec)

    def close(self) -> None:
        self._inner.close()
