"""Serdes of nested values: JSON by orjson, and MessagePack. Both are plain, or of one class."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import msgpack
import msgspec
import orjson

from samzapy.api.serde import HintedSerde, Serde, SerdeFactory
from samzapy.errors import SerdeError
from samzapy.serializers.refusals import NULL, as_refusal, check_numbers
from samzapy.serializers.typed import TypedSerde, reason_of, typed_serde

#: The value of a document of JSON. Numbers without fraction or exponent are ints of any size. Raises ValueError or
#: RecursionError.
from_json: Callable[[bytes | str], Any] = msgspec.json.Decoder().decode
_dumps = orjson.dumps
#: A value of these types can only be refused because of its contents or its size.
_TYPES = (dict, list, tuple, str, int)


class DocumentSerde(HintedSerde):
    """A serde of plain values, and of the objects of a class."""

    @abstractmethod
    def of_type(self, kind: Any) -> Serde:
        """The same format for objects of the class, generic or union `kind`. Raises SerdeError if it cannot be decoded
        to."""


class JsonSerde(DocumentSerde):
    """JSON in UTF-8 without blanks, keys in the order of the dict.

    Values outside of JSON come back changed, as from every JSON library: a tuple becomes a list, and a datetime, UUID,
    Enum or dataclass becomes orjson's form of it. NaN and the infinities are null in an output, and an error in a
    store. A key that is not a str, an int beyond 64 bits, and nesting deeper than the libraries go (about 250 written,
    900 read) are errors.

    Objects of other classes (`streams.ID.samza.msg.type`, `stores.X.msg.type`) are for the serde of their class.
    """

    doubt = NULL
    to_bytes = staticmethod(orjson.dumps)  # type: ignore[assignment]
    from_bytes = staticmethod(from_json)  # type: ignore[assignment]

    def refusal(self, value: Any, cause: Exception) -> str:
        of_class = hasattr(value, "__struct_fields__") or hasattr(value, "__attrs_attrs__")
        takes = "json serde takes a value of JSON" + (", or an object of the class of msg.type" if of_class else "")
        return as_refusal(takes, value, cause, fits=isinstance(value, _TYPES))

    def check(self, value: Any) -> None:
        check_numbers(value)

    def misfit(self, cause: Exception) -> str:
        return reason_of(cause)

    def of_type(self, kind: Any) -> TypedSerde:
        return typed_serde("json", kind)


class _JsonSerdeWithOptions(JsonSerde):
    """JSON with orjson's option flags."""

    def __init__(self, option: int) -> None:
        self._option = option

    def to_bytes(self, value: Any) -> bytes:  # type: ignore[override]
        """Like `JsonSerde.to_bytes`."""
        return _dumps(value, None, self._option)

    def of_type(self, kind: Any) -> TypedSerde:
        """Keys of dicts need not be text."""
        return typed_serde("json", kind, sort_keys=bool(self._option & orjson.OPT_SORT_KEYS))


_OPTIONS = {"non.str.keys": orjson.OPT_NON_STR_KEYS, "sort.keys": orjson.OPT_SORT_KEYS}


class JsonSerdeFactory(SerdeFactory):
    """`json`, with two settings, both false by default.

    `sort.keys=true`: equal dicts become equal bytes, which a store's key must be. `non.str.keys=true`: dict keys that
    are ints, floats, bools, None, dates or UUIDs are written as text (and come back as text).
    """

    def serde(self, name: str, settings: dict[str, str]) -> Serde:
        """Raises SerdeError for a setting that is neither true nor false, or unknown."""
        option = 0
        for key, value in settings.items():
            if key not in _OPTIONS or value.lower() not in {"true", "false"}:
                raise SerdeError(f"{key}: json takes {' and '.join(_OPTIONS)}, true or false, got {value!r}")
            if value.lower() == "true":
                option |= _OPTIONS[key]
        return _JsonSerdeWithOptions(option) if option else JsonSerde()


def as_json(value: object) -> str:
    """One line of JSON; bytes in hexadecimal, other values as their text."""
    try:
        return _dumps(value, _other, orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:
        try:
            # Also ints beyond 64 bits.
            return json.dumps(value, default=_other, ensure_ascii=False, separators=(",", ":"))
        except (TypeError, ValueError) as cause:
            raise SerdeError(f"cannot be shown as JSON ({cause})") from cause


def _other(value: object) -> str:
    return value.hex() if isinstance(value, (bytes, bytearray)) else str(value)


_unpackb = msgpack.unpackb


def _key(key: Any) -> Any:
    return tuple(map(_key, key)) if type(key) is list else key


class MsgpackSerde(DocumentSerde):
    """MessagePack with its str and bytes types apart; keys of maps may be of any kind.

    A tuple comes back as a list, in a key of a map as a tuple. A datetime, a set and an int beyond 64 bits are errors,
    not guesses.
    """

    allocates_exactly = True

    def __init__(self) -> None:
        # One packer for all messages: making one costs more than packing a small message. It is usable after an error.
        if type(self) is MsgpackSerde:
            self.to_bytes = msgpack.Packer(use_bin_type=True).pack  # type: ignore[method-assign]

    def to_bytes(self, value: Any) -> bytes:
        """Raises TypeError for a type outside of MessagePack, ValueError or OverflowError for a value too deep or
        large."""
        packed: bytes = msgpack.packb(value, use_bin_type=True)
        return packed

    def from_bytes(self, data: bytes) -> Any:
        """Raises ValueError for bytes that are not one message, TypeError for a map with a map as key."""
        try:
            return _unpackb(data, strict_map_key=False)
        except TypeError:
            return _unpackb(data, strict_map_key=False, object_pairs_hook=lambda map_: {_key(k): v for k, v in map_})

    def refusal(self, value: Any, cause: Exception) -> str:
        return as_refusal("msgpack serde takes a value of MessagePack", value, cause, fits=isinstance(value, _TYPES))

    def of_type(self, kind: Any) -> TypedSerde:
        return typed_serde("msgpack", kind)
