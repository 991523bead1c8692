"""A store without an object cache."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from samzapy.errors import StoreClosed
from samzapy.storage.kv.codec import EntryCodec
from samzapy.storage.kv.scanning import ScanningStore
from samzapy.storage.kv.uncommitted import UncommittedStore

K = TypeVar("K")
V = TypeVar("V")


class DirectStore(ScanningStore[K, V]):
    """`object.cache.size=0`: every call serializes at once, every `get` deserializes a new object."""

    __slots__ = ("_deletes", "_gets", "_puts")

    def __init__(self, codec: EntryCodec, uncommitted: UncommittedStore) -> None:
        super().__init__(codec, uncommitted)
        self._gets = self._puts = self._deletes = 0

    def get(self, key: K) -> V | None:
        """The value of `key`, None if it has none."""
        self._gets += 1
        data = self._uncommitted.get(self._encoded(key))
        return None if data is None else self._codec.decode_value(key, data)

    def get_all(self, keys: Iterable[K]) -> dict[K, V | None]:
        """The values of `keys`, read in one go."""
        wanted = self.checked_keys(keys)
        self._gets += len(wanted)
        found = self._uncommitted.get_all(self._codec.encode_keys(wanted))
        return {
            key: None if data is None else self._codec.decode_value(key, data)
            for key, data in zip(wanted, found, strict=True)
        }

    def put(self, key: K, value: V) -> None:
        """Set `key` to `value`."""
        encoded = self._encoded(key)
        self._puts += 1
        self._uncommitted.put_all([encoded], [self._codec.encode_value(key, value)])

    def put_all(self, entries: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Set many, or none if one of them is refused."""
        pairs = self.checked_entries(entries)
        self._puts += len(pairs)
        keys = self._codec.encode_keys([key for key, _ in pairs])
        values = [self._codec.encode_value(key, value) for key, value in pairs]
        self._uncommitted.put_all(keys, values)

    def delete(self, key: K) -> None:
        """Remove `key`."""
        encoded = self._encoded(key)
        self._deletes += 1
        self._uncommitted.put_all([encoded], [None])

    def delete_all(self, keys: Iterable[K]) -> None:
        """Remove many, or none if one of them is refused."""
        unwanted = self.checked_keys(keys)
        self._deletes += len(unwanted)
        self._uncommitted.put_all(self._codec.encode_keys(unwanted), [None] * len(unwanted))

    def _encoded(self, key: K) -> bytes:
        if self._closed:
            raise StoreClosed(f"store '{self._codec.store}' is closed")
        return self._codec.encode_key(key)

    def flush(self) -> None:
        """Nothing is held back here."""
        self.check_open()

    def discard(self) -> None:
        """Nothing is held here."""

    def metrics(self) -> dict[str, float]:
        """`gets`, `puts`, `deletes`, `scans`."""
        return {"gets": self._gets, "puts": self._puts, "deletes": self._deletes, "scans": self._scans}
