"""Values as objects over a store that holds them as bytes: `object.cache.mode=copy`, and the limits of large values
(`disallow.large.messages`, `drop.large.messages`)."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from samzapy.api.kv import KeyValueIterator, KeyValueSnapshot
from samzapy.api.serde import HintedSerde
from samzapy.errors import StoreRefused
from samzapy.storage.kv.codec import EntryCodec, entry_list
from samzapy.storage.kv.forwarding import ForwardingStore, StoreLayer

K = TypeVar("K")
V = TypeVar("V")


class SerializedValues(HintedSerde):
    """The value serde below a CopyingStore, where values are bytes already."""

    allocates_exactly = True
    keeps_bytes = True

    def to_bytes(self, value: Any) -> bytes:
        return value  # type: ignore[no-any-return]

    def from_bytes(self, data: bytes) -> Any:
        return data


class CopyingStore(ForwardingStore[K, V]):
    """Values as objects over a store that holds them as bytes.

    A `put` serializes at once, so it raises for a value that does not serialize; a `get` deserializes each time. One
    conversion a call is several times cheaper than a copy of an object, and gives exactly the value of a restored
    store.
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
        pairs = entry_list(self._codec.store, entries)
        encode = self._codec.encode_value
        self._inner.put_all([(key, encode(key, value)) for key, value in pairs])

    def flush(self) -> None:
        """Serialize the dirty values below, and have some of the next values read back."""
        self._inner.flush()
        self._codec.sample(int(self._inner.metrics()["puts"]))

    def range(self, from_key: K, to_key: K) -> KeyValueIterator[K, V]:
        return _DecodingIterator(self._inner.range(from_key, to_key), self._codec)

    def prefix(self, prefix: K) -> KeyValueIterator[K, V]:
        return _DecodingIterator(self._inner.prefix(prefix), self._codec)

    def all(self) -> KeyValueIterator[K, V]:
        return _DecodingIterator(self._inner.all(), self._codec)

    def snapshot(self, from_key: K, to_key: K) -> KeyValueSnapshot[K, V]:
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


#: The length of a short key, and the most bytes that it has in any serde (6 a character, as JSON escapes them, and
#: quotes).
_SHORT_KEY = 10_000
_SHORT_KEY_BYTES = 65_536
#: The bytes that a system may count beside key and value of a record, its batch included.
ENVELOPE_BYTES = 128


@dataclass(frozen=True)
class ValueLimit:
    """Bytes of a value (`overhead` bytes of ours on top), and of a whole record of the changelog, None for any."""

    value_bytes: int
    record_bytes: int | None
    drop: bool
    overhead: int = 0


class LargeMessageSafeStore(CopyingStore[K, V]):
    """Values as objects over a store of bytes. A put of a large value raises an error, or is dropped and counted.

    A value is large when its bytes are more than the limit, or when the changelog would not take the record. The put
    serializes the value, so it knows the outcome. The key of a dropped put keeps the value that it had.
    """

    __slots__ = ("_limit", "_surely", "ignored")

    def __init__(self, inner: StoreLayer[K, bytes], codec: EntryCodec, limit: ValueLimit) -> None:
        super().__init__(inner, codec)
        self._limit = limit
        room = limit.value_bytes if limit.record_bytes is None else limit.record_bytes - _SHORT_KEY_BYTES
        self._surely = min(limit.value_bytes, room)
        self.ignored = 0

    def put(self, key: K, value: V) -> None:
        """Set `key` to a copy of `value`. Raises StoreRefused for a large value, unless large values are dropped."""
        data = self._codec.encode_value(key, value)
        if self._fits(key, data):
            self._inner.put(key, data)

    def put_all(self, entries: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Set many, without large values if these are dropped; or none if one of them is refused."""
        pairs = entry_list(self._codec.store, entries)
        encoded = [(key, self._codec.encode_value(key, value)) for key, value in pairs]
        self._inner.put_all([(key, data) for key, data in encoded if self._fits(key, data)])

    @property
    def undone(self) -> StoreLayer[K, Any]:
        """The layer below: a value from before a change comes back, also if it is large by now."""
        return self._inner.undone

    def metrics(self) -> dict[str, float]:
        """The metrics of the layers below, and `ignored-large-messages`: dropped puts."""
        return {**self._inner.metrics(), "ignored-large-messages": self.ignored}

    def _fits(self, key: K, data: bytes) -> bool:
        limit, size = self._limit, len(data) - self._limit.overhead
        if size <= self._surely and isinstance(key, (str, bytes)) and len(key) <= _SHORT_KEY:
            return True
        allowed = limit.value_bytes
        if limit.record_bytes is not None:
            allowed = min(allowed, limit.record_bytes - len(self._codec.encode_key(key)))
        if size <= allowed:
            return True
        if limit.drop:
            self.ignored += 1
            return False
        raise StoreRefused(
            f"store '{self._codec.store}': value of key {reprlib.repr(key)} has {size:,} B, more than {allowed:,} B "
            f"(stores.{self._codec.store}.changelog.max.message.size.bytes, or the limit of the changelog)"
        )
