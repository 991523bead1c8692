"""Checks the keys and values of a store, and converts them to bytes and back, in batches.

Errors name the store and the key. An EnvironmentFailure of a serde of values passes unchanged: the value is not at
fault.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from samzapy.api.kv import K, V
from samzapy.api.serde import HintedSerde, Serde, hinted
from samzapy.errors import EnvironmentFailure, SerdeError, StoreRefused
from samzapy.plugins import is_own
from samzapy.storage.readback import FIRST, ReadBack, read_back

#: Finds the changelog record with these bytes of a key, and of a value if the value is the part that cannot be read.
Origin = Callable[[bytes, "bytes | None"], str]

#: Keys that are tried with a serde, to learn which kinds of keys come back as they went in. A serde may refuse the
#: second one of a kind, but must not change it: then other keys would share its bytes.
_PROBES: tuple[tuple[Any, Any], ...] = ((" Ab 1\t", "e\u0301"), (b" Ab 1\t", b"\xff\0"), (1, -1))

_NONE = type(None)

_BYTES = frozenset({bytes})

_BYTES_OR_DELETED = frozenset({bytes, _NONE})

_view: Callable[[bytes], Any] = memoryview

_TUPLE, _TWO = {tuple}, {2}

#: Kinds of objects with two elements that are not meant as a key and a value: a text would fall apart into characters.
NO_PAIRS = (str, bytes, bytearray, dict, set, frozenset)


def key_list(store: str, keys: Iterable[K]) -> list[K]:
    """The keys as a list. Raises StoreRefused for an object that cannot be iterated, such as None."""
    try:
        iterator = iter(keys)
    except TypeError as cause:
        raise StoreRefused(f"store '{store}': expected an iterable of keys, got {_shown(keys)}") from cause
    return list(iterator)


def entry_list(store: str, entries: Mapping[K, V] | Iterable[tuple[K, V]]) -> list[tuple[K, V]]:
    """The entries as pairs. Raises StoreRefused for an object that is neither a mapping nor pairs."""
    if isinstance(entries, Mapping):
        return list(entries.items())
    try:
        iterator = iter(entries)
    except TypeError as cause:
        message = f"store '{store}': expected a mapping or (key, value) pairs, got {_shown(entries)}"
        raise StoreRefused(message) from cause
    pairs = list(iterator)
    if set(map(type, pairs)) <= _TUPLE and set(map(len, pairs)) <= _TWO:
        return pairs
    checked = []
    for pair in pairs:
        try:
            key, value = () if isinstance(pair, NO_PAIRS) else pair
        except (TypeError, ValueError) as cause:
            message = f"store '{store}': expected (key, value) pairs, got {_shown(pair)} among them"
            raise StoreRefused(message) from cause
        checked.append((key, value))
    return checked


def entry_columns(store: str, entries: Mapping[K, V] | Iterable[tuple[K, V]]) -> tuple[list[K], list[V]]:
    """The keys and the values of entries. Raises StoreRefused as `entry_list`."""
    if isinstance(entries, (dict, Mapping)):  # an abstract class alone takes four times as long to ask
        return list(entries), list(entries.values())
    pairs = entry_list(store, entries)
    return [key for key, _ in pairs], [value for _, value in pairs]


def entry_mapping(store: str, entries: Mapping[K, V]) -> Mapping[K, V]:
    """The entries unchanged. Raises StoreRefused for an object that is not a mapping."""
    if not isinstance(entries, Mapping):
        raise StoreRefused(f"store '{store}': expected a mapping, got {_shown(entries)}")
    return entries


def _shown(value: object) -> str:
    return "None" if value is None else f"{type(value).__name__} {reprlib.repr(value)}"


class EntryCodec:
    """The key and value serdes of one store. The single conversions are the serdes' own functions, unwrapped.

    `plain_types`: the key types with objects that are equal exactly when their bytes are, and that the serde returns
    unchanged. Keys of other types (a float, a bool, a tuple) may equal one another in Python, or a plain one, and still
    differ in bytes: 1 == 1.0 == True.
    """

    def __init__(self, store: str, key_serde: Serde, value_serde: Serde, origin: Origin | None = None) -> None:
        """`origin` is called for the text of an error: it finds the changelog record with these bytes."""
        self.store = store
        self._origin = origin
        key_hints, value_hints = hinted(key_serde), hinted(value_serde)
        self._key_serde, self._value_serde = key_hints, value_hints
        self.key_bytes: Callable[[Any], bytes] = key_serde.to_bytes
        self.key_object: Callable[[bytes], Any] = key_serde.from_bytes
        self.value_bytes: Callable[[Any], bytes] = value_serde.to_bytes
        self.value_object: Callable[[bytes], Any] = value_serde.from_bytes
        self.keeps_prefixes = key_serde.keeps_prefixes
        # A class of the user that extends one of ours has functions of its own.
        self._keys_stay = key_hints.keeps_bytes and is_own(type(key_serde))
        self._values_stay = value_hints.keeps_bytes and is_own(type(value_serde))
        self._exact = value_hints.allocates_exactly
        self._doubt = value_hints.doubt
        self._key_doubt = key_hints.doubt
        # A key that comes back as an equal one of other bytes would not find its entry.
        self._key_back = read_back(key_serde, exact=True)
        self._value_back = back = read_back(value_serde)
        #: The number of values to `prove` before a cache may leave the rest to `encode_values`.
        self.unproven = FIRST * max(1, len(getattr(back, "classes", None) or ()))
        self.plain_types: frozenset[type] = frozenset(
            type(probe) for probe, odd in _PROBES if self._round_trips(probe, False) and self._round_trips(odd, True)
        )

    def _round_trips(self, probe: Any, refused: bool) -> bool:
        try:
            back = self.key_object(self.key_bytes(probe))
        except Exception:  # noqa: BLE001 - a serde may refuse a type in any way it likes
            return refused
        return type(back) is type(probe) and bool(back == probe)

    def encode_key(self, key: Any) -> bytes:
        """The bytes of `key`. Raises StoreRefused for None and unhashable keys, SerdeError if it does not serialize."""
        self.check_key(key)
        try:
            data = self.key_bytes(key)
        except Exception as cause:
            raise self._refused("key", key, self._key_serde, key, cause) from cause
        if type(data) is not bytes:
            raise self._not_bytes("key", key, data)
        if self._key_doubt is not None and type(key) not in self.plain_types and self._key_doubt in data:
            self._check("key", key, self._key_serde, key)
        back = self._key_back
        if back is not None and back.tick() and back.due(key):
            self._read_back(back, "key", key, key, data)
        return data

    def encode_keys(self, keys: Collection[Any]) -> list[bytes]:
        """The bytes of keys that were checked before."""
        if self._keys_stay and set(map(type, keys)) <= _BYTES:
            return list(keys)
        try:
            data = list(map(self.key_bytes, keys))
        except Exception:  # noqa: BLE001 - found again, and named, one by one
            return list(map(self.encode_key, keys))
        if len(data) < len(keys) or not set(map(type, data)) <= _BYTES:
            return list(map(self.encode_key, keys))
        if self._key_doubt is None or set(map(type, keys)) <= self.plain_types or self._key_doubt not in b"".join(data):
            return data
        return list(map(self.encode_key, keys))

    def encode_value(self, key: Any, value: Any) -> bytes:
        """The bytes of the value of `key`. Raises StoreRefused for None, SerdeError if it does not serialize."""
        if value is None:
            self.check_value(key, value)
        try:
            data = self.value_bytes(value)
        except EnvironmentFailure:
            raise
        except Exception as cause:
            raise self._refused("value of key", key, self._value_serde, value, cause) from cause
        if type(data) is not bytes:
            raise self._not_bytes("value of key", key, data)
        if self._doubt is not None and data.find(self._doubt) >= 0:
            self._check("value of key", key, self._value_serde, value)
        back = self._value_back
        if back is not None and back.tick() and back.due(value):
            self._read_back(back, "value of key", key, value, data)
        return data if self._exact else bytes(memoryview(data))

    def prove(self, key: Any, value: Any) -> None:
        """Count one of the `unproven` values, serialize it, and read it back if it has a class. Raises as
        `encode_value`."""
        self.unproven -= 1
        self.encode_value(key, value)

    def encode_values(self, keys: Collection[Any], values: Collection[Any], with_deletions: bool) -> list[bytes | None]:
        """The bytes of the `values` of `keys`; None stays None, and may occur only if `with_deletions`.

        The bytes are kept, so they are copied unless the serde allocates exactly: orjson takes 4 KB for 60 B, and new
        buffers of that size cost ten times as much as the copy.
        """
        if self._values_stay and set(map(type, values)) <= _BYTES_OR_DELETED:
            return list(values)
        to_bytes = self.value_bytes
        data: list[bytes | None]
        try:
            if with_deletions:
                data = [None if value is None else bytes(memoryview(to_bytes(value))) for value in values]
            elif self._exact:
                data = list(map(to_bytes, values))
            else:
                data = list(map(bytes, map(_view, map(to_bytes, values))))
        except Exception:  # noqa: BLE001 - found again, and named, one by one
            data = []
        # A serde that extends a built-in one may make None, which would delete the key.
        if len(data) != len(values) or not set(map(type, data)) <= (_BYTES_OR_DELETED if with_deletions else _BYTES):
            pairs = zip(keys, values, strict=True)
            return [None if value is None else self.encode_value(key, value) for key, value in pairs]
        if self._doubt is not None:
            self._check_doubtful(keys, values, data)
        back = self._value_back
        if back is not None:
            self._sample(back, keys, values, data)
        return data

    def decode_key(self, data: bytes) -> Any:
        """The key of `data`. Raises SerdeError."""
        try:
            return self.key_object(data)
        except Exception as cause:
            raise self._unreadable("key", data, self._key_serde.misfit(cause), data, None) from cause

    def decode_value(self, key: Any, data: bytes) -> Any:
        """The value of `data`. Raises SerdeError naming `key`."""
        try:
            return self.value_object(data)
        except EnvironmentFailure:
            raise
        except Exception as cause:
            reason = self._value_serde.misfit(cause)
            raise self._unreadable("value of key", key, reason, self.encode_key(key), data) from cause

    def decode_values(self, keys: Collection[Any], data: Sequence[bytes | None]) -> list[Any]:
        """The values of `data`, None where there is none. Raises SerdeError naming the first of `keys` that is
        unreadable."""
        value_object = self.value_object
        try:
            return [None if encoded is None else value_object(encoded) for encoded in data]
        except Exception:  # noqa: BLE001 - decoded again, to name what failed
            pairs = zip(keys, data, strict=True)
            return [None if encoded is None else self.decode_value(key, encoded) for key, encoded in pairs]

    def check_key(self, key: Any) -> None:
        """Raise StoreRefused for a key that no store takes: None, or one that cannot be hashed."""
        if key is None:
            raise StoreRefused(f"store '{self.store}': key must not be None: has the message a key?")
        try:
            hash(key)
        except TypeError as cause:
            kind = type(key).__name__
            raise StoreRefused(f"store '{self.store}': key must be hashable, got {kind} {reprlib.repr(key)}") from cause

    def check_value(self, key: Any, value: Any) -> None:
        """Raise StoreRefused for None."""
        if value is None:
            raise StoreRefused(
                f"store '{self.store}': value of key {reprlib.repr(key)} must not be None; delete the key instead"
            )

    def check_values(self, keys: Sequence[Any], values: Sequence[Any]) -> None:
        """Raise StoreRefused if there is a None among the values of `keys`."""
        if _NONE in set(map(type, values)):
            for key, value in zip(keys, values, strict=True):
                self.check_value(key, value)

    def _check_doubtful(self, keys: Collection[Any], values: Collection[Any], data: list[bytes | None]) -> None:
        """Raise SerdeError for the first value with other bytes than its own."""
        assert self._doubt is not None
        # One search for all is a tenth of one for each.
        if b"".join(filter(None, data)).find(self._doubt) < 0:
            return
        for key, value, item in zip(keys, values, data, strict=True):
            if item is not None and item.find(self._doubt) >= 0:
                self._check("value of key", key, self._value_serde, value)

    def _check(self, part: str, key: Any, serde: HintedSerde, checked: Any) -> None:
        """Raise SerdeError for a key or a value with other bytes than its own: two such keys would share an entry."""
        try:
            serde.check(checked)
        except SerdeError as cause:
            raise self._failure(part, key, str(cause), refused=True) from cause

    def _sample(
        self, back: ReadBack, keys: Collection[Any], values: Collection[Any], data: Sequence[bytes | None]
    ) -> None:
        """Read back the values of a batch that are due."""
        places = back.places(values)
        if places:
            columns = [item if isinstance(item, list) else list(item) for item in (keys, values)]
            for place in places:
                key, value = (item[place] for item in columns)
                if value is not None:
                    self._read_back(back, "value of key", key, value, data[place])

    def _read_back(self, back: ReadBack, part: str, key: Any, value: Any, data: Any) -> None:
        fault = back.fault(value, data)
        if fault is not None:
            kind = type(value).__name__
            why = f"{kind} {fault}; a store returns what was put: change the class, or store plain values"
            raise self._failure(part, key, why, refused=True)

    def _refused(self, part: str, key: Any, serde: HintedSerde, refused: Any, cause: Exception) -> SerdeError:
        why = str(cause) if isinstance(cause, SerdeError) else serde.refusal(refused, cause)
        which = "key" if part == "key" else "msg"
        why = f"{why}; convert it, or change stores.{self.store}.{which}.serde"
        if type(refused) is bytes:
            why = f"{why}; a stream gives bytes without its samza.{which}.serde"
        return self._failure(part, key, why, refused=True)

    def _unreadable(self, part: str, key: Any, reason: str, key_data: bytes, data: bytes | None) -> SerdeError:
        origin = "" if self._origin is None else f", changelog {self._origin(key_data, data)}"
        return self._failure(part, key, reason, origin)

    def _failure(self, part: str, key: Any, why: str, origin: str = "", *, refused: bool = False) -> SerdeError:
        message = f"store '{self.store}': {part} {reprlib.repr(key)}{origin}: {why}"
        return SerdeError(message, store=self.store, refused=refused)

    def _not_bytes(self, part: str, key: Any, data: object) -> SerdeError:
        return self._failure(part, key, f"the serde made {type(data).__name__}, not bytes", refused=True)
