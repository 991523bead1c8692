"""Finds the numbers that JSON does not have: NaN and the infinities, which its libraries write as null."""

from __future__ import annotations

from math import isfinite
from typing import Any

from samzapy.errors import SerdeError

#: In the JSON of each value with such a number.
NULL = b"null"


def check_numbers(value: Any) -> None:
    """Raise SerdeError for a value with a float that JSON does not have: it would come back as None."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, float):
            if not isfinite(each):
                raise SerdeError(
                    f"json has no {each!r}, and would give back None: store None or a text in its place, or use the serde msgpack"
                )
        elif isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, (list, tuple, set, frozenset)):
            waiting += each
        elif hasattr(each, "__struct_fields__"):
            waiting += [getattr(each, name) for name in each.__struct_fields__]
        elif hasattr(each, "__attrs_attrs__"):
            waiting += [getattr(each, attribute.name) for attribute in each.__attrs_attrs__]
        elif hasattr(each, "__dict__") and not isinstance(each, type):
            waiting += vars(each).values()
