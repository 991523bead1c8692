"""Explains why a serde refuses a value: error messages with place, part, serde and reason.

`check_numbers` finds the numbers that JSON does not have, NaN and the infinities: JSON libraries write them as null.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from samzapy.arrow.annotations import fields_of
from samzapy.errors import SerdeError

#: In the JSON of each value with such a number.
NULL = b"null"


def decode_failure(serde_name: str, where: str, part: str, cause: Exception) -> SerdeError:
    """The error for the `part` (key or message) of a record at `where` (`system.stream[partition]@offset`) that did not
    decode."""
    if isinstance(cause, SerdeError):
        return SerdeError(f"{where}: {part}: {cause}")
    return SerdeError(f"{where}: {part}: {serde_name} serde: {_reason(cause)}")


def encode_failure(serde_name: str, where: str, part: str, value: object, cause: Exception) -> SerdeError:
    """The error for the `part` (key or message) of a record for `where` (a stream or store) that did not encode."""
    if isinstance(cause, SerdeError):
        return SerdeError(f"{where}: {part}: {cause}")
    given = f"{type(value).__name__} {value!r:.100}"
    return SerdeError(f"{where}: {part}: {serde_name} serde does not take {given} ({_reason(cause)})")


def as_refusal(takes: str, value: object, cause: Exception, *, fits: bool) -> str:
    """The text for `Serde.refusal`: the accepted type and the given one. If the type `fits`, the value itself is wrong,
    so the text has the cause as well."""
    kind = type(value).__name__
    return f"{takes}, got {kind} ({_reason(cause)})" if fits else f"{takes}, got {kind}"


def _reason(cause: Exception) -> str:
    text = " ".join(str(cause).split())
    return text or type(cause).__name__


_packed = msgspec.msgpack.Encoder().encode
#: A float of MessagePack that is NaN or infinite, or other bytes that look so.
_looks_unfit = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]").search


def check_numbers(value: Any) -> None:
    """Raise SerdeError for a value with a float that JSON does not have: it would come back as None."""
    # Almost every value passes here, in a sixth of the time that the search for the number takes. MessagePack does not
    # take every value that JSON takes.
    with suppress(Exception):
        if _looks_unfit(_packed(value)) is None:
            return
    for number in _floats(value):
        if not math.isfinite(number):
            raise SerdeError(
                f"json has no {number!r}, and would give back None: store None or a text in its place, or use the "
                "serde msgpack"
            )


def _floats(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield float(value)
    elif value is not None and not isinstance(value, (str, int, bytes, type)):
        for part in _parts(value):
            yield from _floats(part)


def _parts(value: Any) -> Collection[Any]:
    """The values in a value."""
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, (list, tuple, set, frozenset)):
        return value
    kind: Any = type(value)
    names = fields_of(kind)
    return getattr(value, "__dict__", {}).values() if names is None else [getattr(value, name, None) for name in names]
