"""The store without an object cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from samzapy.storage.kv.codec import EntryCodec
from samzapy.storage.kv.scanning import SCANNING_SLOTS, ScanningStore
from samzapy.storage.kv.uncommitted import UncommittedStore

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")


class DirectStore(ScanningStore[K, V]):
    """`object.cache.size=0`: every call serializes at once, every `get` deserializes a new object."""

    __slots__ = (*SCANNING_SLOTS, "_deletes", "_gets", "_plain", "_puts")

    def __init__(self, codec: EntryCodec, uncommitted: UncommittedStore) -> None:
        super().__init__(codec, uncommitted)
        self._gets = self._puts = self._deletes = 0
        self._plain: frozenset[type] = codec.plain_types

    def get(self, key: K) -> V | None:
        """The value of `key`, None if it has none."""
        self._gets += 1
        data = self._uncommitted.get(self._encoded(key))
        return None if data is None else self._codec.decode_value(key, data)

    def get_all(self, keys: Iterable[K]) -> dict[K, V | None]:
        """The values of `keys`, read together."""
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
        self._uncommitted.put(encoded, self._codec.encode_value(key, value))

    def put_all(self, entries: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Set many, or none if one of them is refused."""
        keys, values = self.checked_entries(entries)
        self._puts += len(keys)
        encoded = self._codec.encode_keys(keys)
        self._uncommitted.put_all(encoded, self._codec.encode_values(keys, values, with_deletions=False))

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
        """Close the store: every later call raises StoreClosed."""
        super().close()
        self._plain = frozenset()

    def flush(self) -> None:
        """Have some of the next values read back: no object is held here."""
        self.check_open()
        self._codec.sample(self._puts)

    def discard(self) -> None:
        """Do nothing: no object is held here."""

    def uncounted(self, read: Callable[[Any], R], key: Any) -> R:
        gets = self._gets
        found = read(key)
        self._gets = gets
        return found

    def metrics(self) -> dict[str, float]:
        """`gets`, `puts`, `deletes`, `scans`."""
        return {"gets": self._gets, "puts": self._puts, "deletes": self._deletes, "scans": self._scans}
