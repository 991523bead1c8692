"""How a task gets the values of a store: as copies (`object.cache.mode=copy`), within limits
(`disallow.large.messages`, `drop.large.messages`), or watched for changes without a put (`object.cache.check`)."""

from __future__ import annotations

import hashlib
import reprlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from samzapy.api.kv import K, V
from samzapy.api.serde import HintedSerde
from samzapy.errors import StoreError, StoreRefused
from samzapy.storage.kv.codec import EntryCodec, entry_list, key_list
from samzapy.storage.kv.forwarding import ForwardingStore, MappingStore, StoreLayer

#: The length of a short key, and the most bytes that it has in any serde (6 a character, as JSON escapes them, and
#: quotes).
_SHORT_KEY = 10_000
_SHORT_KEY_BYTES = 65_536
#: The bytes that a system may count next to key and value of a record, its batch included.
ENVELOPE_BYTES = 128
#: Types of values that cannot change.
_IMMUTABLE = frozenset({str, bytes, int, float, bool})


class SerializedValues(HintedSerde):
    """The value serde below a SerializingStore, where values are bytes already."""

    allocates_exactly = True
    keeps_bytes = True

    def to_bytes(self, value: Any) -> bytes:
        return value  # type: ignore[no-any-return]

    def from_bytes(self, data: bytes) -> Any:
        return data


@dataclass(frozen=True)
class ValueLimit:
    """Bytes of a value (`overhead` bytes of ours on top), and of a whole record of the changelog, None for any."""

    value_bytes: int
    record_bytes: int | None
    drop: bool
    overhead: int = 0


class SerializingStore(MappingStore[K, V]):
    """Values as objects over a store that holds them as bytes.

    1. A `put` serializes at once, so it raises for a value that does not serialize; a `get` deserializes each time. One
       conversion per call is several times cheaper than a copy of an object, and gives exactly the value of a restored
       store.
    2. With a limit, a value is large when its bytes are more, or when the changelog would not take the record. A put of
       a large value raises StoreRefused, or is dropped and counted: its key keeps the value that it had. `put_all` sets
       none if one of them is refused.
    """

    def __init__(self, inner: StoreLayer[K, bytes], codec: EntryCodec, limit: ValueLimit | None) -> None:
        super().__init__(inner)
        self._codec = codec
        self._limit = limit
        if limit is not None:
            room = limit.value_bytes if limit.record_bytes is None else limit.record_bytes - _SHORT_KEY_BYTES
            self._surely = min(limit.value_bytes, room)
        self.ignored = 0

    def _value(self, key: K, held: bytes) -> V | None:
        return self._codec.decode_value(key, held)  # type: ignore[no-any-return]

    def put(self, key: K, value: V) -> None:
        data = self._codec.encode_value(key, value)
        if self._limit is None or self._fits(self._limit, key, data):
            self._inner.put(key, data)

    def put_all(self, entries: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        pairs = entry_list(self._codec.store, entries)
        encoded = [(key, self._codec.encode_value(key, value)) for key, value in pairs]
        limit = self._limit
        self._inner.put_all([(key, data) for key, data in encoded if limit is None or self._fits(limit, key, data)])

    @property
    def undone(self) -> StoreLayer[K, Any]:
        """The layer below: a value from before a change comes back, also if it is large by now."""
        return self._inner.undone

    def metrics(self) -> dict[str, float]:
        """The metrics of the layers below, and with a limit `ignored-large-messages`: dropped puts."""
        return self._inner.metrics() | ({} if self._limit is None else {"ignored-large-messages": self.ignored})

    def _fits(self, limit: ValueLimit, key: K, data: bytes) -> bool:
        size = len(data) - limit.overhead
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


class WatchedStore(ForwardingStore[K, V]):
    """Remembers a digest of each object after `get` and `put`, and compares it at every `flush`, so at each commit.

    For debugging: it serializes every object once a call and once a commit. It ignores the objects of ranges and
    snapshots, since those are copies.
    """

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
        result = self._inner.get_all(keys)
        for key, value in result.items():
            self._remember(key, value)
        return result

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

    def forget(self) -> None:
        """Watch no object that was given out so far: the message that may have changed some is undone."""
        self._seen.clear()

    def discard(self) -> None:
        self.forget()
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
