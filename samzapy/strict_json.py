"""Reads the JSON that samzapy writes to topics, files and HTTP bodies, by type; writes it compactly.

msgspec does the work. A value that does not fit the type is a ValueError that names the field:

1. A bool is no number, and a float is no integer. The types below bound integers to 64 bits.
2. NaN, the infinities, lone surrogates and bytes that are not UTF-8 are no JSON.
3. Nesting beyond Python's recursion limit is refused, also in fields that the type does not have.
4. Other unknown fields are ignored, so that versions before and after read each other's records.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, TypeVar

import msgspec

T = TypeVar("T")

#: Integers of at most 64 bits: counts and offsets, offsets that may be -1 for none, times (also before 1970), and
#: moments, which have a date: they are before the year 10000.
Natural = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
LastOffset = Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)]
Time = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Moment = Annotated[int, msgspec.Meta(ge=0, le=253_402_300_799_999)]


def _plain(value: Any) -> Any:
    """A plain value for a subclass of a plain type (a task's gauge may be a float of numpy) and for mappings other than
    dicts."""
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"cannot write {reprlib.repr(value)} as JSON: {type(value).__name__} is no JSON value")


#: A value as the bytes of its JSON, and as the plain values of these. In JSON, NaN and the infinities are null.
encode = msgspec.json.Encoder(enc_hook=_plain).encode
plain = partial(msgspec.to_builtins, str_keys=True, enc_hook=_plain)


def sendable(text: str) -> str:
    """The text with an escape for each lone surrogate: messages of errors may quote text that has no form in UTF-8."""
    return text.encode(errors="backslashreplace").decode()


_PLACE = re.compile(r"(.*) - at `(?:key in )?\$\.?(.*)`", re.DOTALL)


class _AnyFormat(msgspec.Struct):
    format: Any = None


def decode(kind: type[T], data: bytes, known_format: int | None = None) -> T:
    """`data` as a `kind`. With `known_format`, first check that its field `format` has that number. Raises
    ValueError."""
    try:
        if known_format is not None:
            _check(msgspec.json.decode(data, type=_AnyFormat).format, known_format)
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as cause:
        raise ValueError(_field_first(cause)) from cause
    except RecursionError as cause:
        raise ValueError("nested too deeply") from cause


def convert(kind: type[T], value: object) -> T:
    """Decoded plain JSON values as a `kind`. Raises ValueError."""
    try:
        converted = msgspec.convert(value, kind, str_keys=True)
    except msgspec.ValidationError as cause:
        raise ValueError(_field_first(cause)) from cause
    encode(converted)  # raises ValueError for a lone surrogate
    return converted


def _check(found: object, known: int) -> None:
    """Raise ValueError unless this version reads the record's `format`."""
    if type(found) is not int or found != known:
        raise ValueError(f"format {reprlib.repr(found)}, this version reads {known}")


def _field_first(error: msgspec.ValidationError) -> str:
    """`epoch: expected int, got str`, of msgspec's "Expected `int`, got `str` - at `$.epoch`"."""
    text = str(error)
    match = _PLACE.fullmatch(text)
    what, place = (match[1], match[2]) if match else (text, "")
    what = (what[:1].lower() + what[1:]).replace("`", "")
    return f"{place}: {what}" if place else what
