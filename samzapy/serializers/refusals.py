"""Explains why a serde refuses a value: error messages with place, part, serde and reason.

`check_numbers` finds the numbers that JSON does not have, NaN and the infinities: JSON libraries write them as null.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

from samzapy.errors import SerdeError

#: In the JSON of each value with such a number.
NULL = b"null"


def decode_failure(serde_name: str, where: str, part: str, cause: Exception) -> SerdeError:
    """The error for bytes at `where` (`system.stream[partition]@offset`) whose `part` (key or message) did not
    decode."""
    if isinstance(cause, SerdeError):
        return SerdeError(f"{where}: {part}: {cause}")
    return SerdeError(f"{where}: {part}: {serde_name} serde: {_reason(cause)}")


def encode_failure(serde_name: str, where: str, part: str, value: object, cause: Exception) -> SerdeError:
    """The error for an object on its way to `where` (a stream or store) whose `part` did not encode."""
    if isinstance(cause, SerdeError):
        return SerdeError(f"{where}: {part}: {cause}")
    return SerdeError(f"{where}: {part}: {serde_name} serde does not take {_shown(value)} ({_reason(cause)})")


def as_refusal(takes: str, value: object, cause: Exception, *, fits: bool) -> str:
    """The text for `Serde.refusal`: the accepted type and the given one. If the type `fits`, the value itself is wrong,
    so the text has the cause as well."""
    kind = type(value).__name__
    return f"{takes}, got {kind} ({_reason(cause)})" if fits else f"{takes}, got {kind}"


def _reason(cause: Exception) -> str:
    text = " ".join(str(cause).split())
    return text or type(cause).__name__


def _shown(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 100 else text[:97] + '...'}"


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
