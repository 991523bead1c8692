"""Finds the numbers that JSON does not have: NaN and the infinities, which its libraries write as null."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from samzapy.errors import SerdeError

#: In the JSON of each value with such a number.
NULL = b"null"


#: Types of values that hold no others.
_FLAT = frozenset({str, int, bool, float, type(None)})


def check_numbers(value: Any) -> None:
    """Raise SerdeError for a value with a float that JSON does not have: it would come back as None."""
    waiting: list[Collection[Any]] = [value.values() if type(value) is dict else (value,)]
    while waiting:
        values = waiting.pop()
        kinds = set(map(type, values))
        if float in kinds:
            for each in values:
                # So for NaN and the infinities, and quicker than a call.
                if type(each) is float and each - each != 0.0:
                    raise SerdeError(
                        f"json has no {each!r}, and would give back None: store None or a text in its place, or use the serde msgpack"
                    )
        if not kinds <= _FLAT:
            waiting += [_parts(each) for each in values if type(each) not in _FLAT]


def _parts(value: Any) -> Collection[Any]:
    """The values in a value."""
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, (list, tuple, set, frozenset)):
        return value
    if isinstance(value, float):
        return (float(value),)
    names = getattr(value, "__struct_fields__", None) or [each.name for each in getattr(value, "__attrs_attrs__", ())]
    if names:
        return [getattr(value, name) for name in names]
    return () if isinstance(value, type) else getattr(value, "__dict__", {}).values()
