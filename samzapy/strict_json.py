"""Reads back the JSON that samzapy has written to topics and files; whatever else the bytes hold is a ValueError.

The parser refuses NaN and the infinities, lone surrogates, bytes that are not UTF-8 and nesting beyond 1024 levels. The
functions for fields refuse a bool where a number belongs, a float for an int, and numbers beyond 64 bits.
"""

from __future__ import annotations

import reprlib
from typing import Any

import orjson

_LIMIT = 2**63


def parsed(data: bytes) -> dict[str, Any]:
    """The object that the bytes hold. Raises ValueError."""
    return mapping(orjson.loads(data))


def mapping(value: object) -> dict[str, Any]:
    """`value`, which must be an object. Raises ValueError."""
    if type(value) is not dict:
        raise ValueError(f"expected an object, got {reprlib.repr(value)}")
    return value


def listed(value: object) -> list[Any]:
    """`value`, which must be a list. Raises ValueError."""
    if type(value) is not list:
        raise ValueError(f"expected a list, got {reprlib.repr(value)}")
    return value


def whole(value: object, least: int = 0) -> int:
    """`value`, which must be an integer of at least `least`, within 64 bits. Raises ValueError."""
    if type(value) is not int or not least <= value < _LIMIT:
        raise ValueError(f"expected an integer of at least {least}, got {reprlib.repr(value)}")
    return value


def text(value: object) -> str:
    """`value`, which must be a string. Raises ValueError."""
    if type(value) is not str:
        raise ValueError(f"expected a string, got {reprlib.repr(value)}")
    return value


def flag(value: object) -> bool:
    """`value`, which must be true or false. Raises ValueError."""
    if type(value) is not bool:
        raise ValueError(f"expected true or false, got {reprlib.repr(value)}")
    return value


def check_format(record: dict[str, Any], known: int) -> None:
    """Raise ValueError unless the record's `format` is the one that this version reads."""
    found = record.get("format")
    if type(found) is not int or found != known:
        raise ValueError(f"format {reprlib.repr(found)}, this version reads {known}")
