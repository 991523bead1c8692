"""Estimates the memory of deserialized values."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from enum import Enum
from itertools import islice
from sys import getsizeof
from typing import Any, Final

#: The number of a container's members to look at; half as many of each member's own, and so on.
_WIDTH = 16
#: Types without parts.
_FLAT: Final = frozenset({str, bytes, bytearray, int, float, complex})
#: Types with shared objects, like classes and the members of enumerations.
_SHARED: Final = frozenset({bool, type(None)})
_UNKNOWN_BYTES = 64


def footprint(value: object, width: int = _WIDTH) -> int:
    """Bytes of memory of `value` and of the objects that it refers to. Of a container with more members than `width` only
    the first ones are measured, of a list some from all over it. Shared parts count each time."""
    kind = type(value)
    if kind in _FLAT:
        return getsizeof(value)
    if kind in _SHARED or isinstance(value, (Enum, type)):
        return 0
    try:
        size = getsizeof(value)
    except Exception:  # noqa: BLE001 - a class may have any __sizeof__
        size = _UNKNOWN_BYTES
    if not width:
        return size
    if isinstance(value, dict):
        return size + _members(value, value, width) + _members(value.values(), value, width)
    if isinstance(value, (list, tuple, set, frozenset)):
        some = value[:: len(value) // width + 1] if isinstance(value, (list, tuple)) else value
        return size + _members(some, value, width)
    return size + sum(footprint(part, width // 2) for part in islice(_attributes(value), width))


def _members(some: Iterable[Any], all_of_them: Sized, width: int) -> int:
    sizes = [footprint(each, width // 2) for each in islice(some, width)]
    return sum(sizes) * len(all_of_them) // len(sizes) if sizes else 0


def _attributes(value: object) -> list[object]:
    """The values of an object's fields: its dictionary, else its slots."""
    own = getattr(value, "__dict__", None)
    if isinstance(own, dict):
        return [own]
    slots = [name for each in type(value).__mro__ for name in _names(getattr(each, "__slots__", ()))]
    fields = slots or list(getattr(value, "__struct_fields__", ()))
    return [getattr(value, name, None) for name in fields]


def _names(slots: object) -> list[str]:
    return [slots] if isinstance(slots, str) else list(slots) if isinstance(slots, Iterable) else []
