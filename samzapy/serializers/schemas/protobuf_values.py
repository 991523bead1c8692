"""Finds the values in dicts that protobuf's classes would change to make them fit: 1e300 as a float becomes infinite, 5 as a
bool true.

The classes refuse everything else that does not fit, but for bytes as a string: they take their text, and a look at each
string would cost a sixth of the writing. The check is made once for a class, and looks only at the fields where they
are silent; a class without such fields has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Integral, Real
from typing import Any, SupportsFloat

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from samzapy.errors import SerdeError

#: Raises _Misfit.
_Look = Callable[[Any], None]

#: Greater numbers become infinite in 32 bits.
_LARGEST_FLOAT = (2 - 2**-24) * 2.0**127
#: Their classes take dicts that have other keys than the names of fields.
_OTHER_KEYS = frozenset({"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"})


class _Misfit(Exception):
    """A value that does not fit; `path` leads to it, the last step first."""

    def __init__(self, expected: str, value: object) -> None:
        super().__init__(f"expected {expected}, got {type(value).__name__} {value!r:.100}")
        self.path: list[str] = []


def check_of(written: Descriptor) -> Callable[[Mapping[str, Any]], None] | None:
    """The function that raises SerdeError, with the path of the place, for a dict with a value that the class would change; None
    for a class that changes none."""
    look = _message(written, {})
    if look is None:
        return None

    def check(value: Mapping[str, Any]) -> None:
        try:
            look(value)
        except _Misfit as found:
            raise SerdeError(f"protobuf serde: ${''.join(reversed(found.path))}: {found}") from None

    return check


def _message(written: Descriptor, known: dict[str, _Look]) -> _Look | None:
    if written.full_name in known:
        return known[written.full_name]
    if written.full_name in _OTHER_KEYS:
        return None
    looks: list[tuple[str, type | None, _Look]] = []

    def look(value: Any) -> None:
        if type(value) is not dict and not isinstance(value, Mapping):
            return
        for name, fits, each in looks:
            held = value.get(name)
            # None leaves the field unset.
            if held is not None and type(held) is not fits:
                try:
                    each(held)
                except _Misfit as found:
                    found.path.append(f".{name}")
                    raise

    # A message may hold itself.
    known[written.full_name] = look
    for field in written.fields:
        each = _field(field, known)
        if each is not None:
            looks.append((field.name, _FITS.get(each), each))
    return look if looks else None


def _field(field: FieldDescriptor, known: dict[str, _Look]) -> _Look | None:
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        one = _field(inner.fields_by_name["value"], known)
        return None if one is None else _of_map(one)
    one = _PLAIN.get(field.type) if inner is None else _message(inner, known)
    return one if one is None or not field.is_repeated else _of_list(one)


def _of_map(one: _Look) -> _Look:
    def look(value: Any) -> None:
        if isinstance(value, Mapping):
            _look_at_all(value.items(), one)

    return look


def _of_list(one: _Look) -> _Look:
    def look(value: Any) -> None:
        # A look would use an iterator up.
        if isinstance(value, Iterable) and not isinstance(value, Iterator):
            _look_at_all(enumerate(value), one)

    return look


def _look_at_all(parts: Iterable[tuple[Any, Any]], one: _Look) -> None:
    for place, held in parts:
        try:
            one(held)
        except _Misfit as found:
            found.path.append(f"[{place!r}]")
            raise


def _look_at_float(value: Any) -> None:
    # The type first: a look for an abstract class takes as long as all else.
    if type(value) is float and -_LARGEST_FLOAT < value < _LARGEST_FLOAT:
        return
    if isinstance(value, Real) and _LARGEST_FLOAT <= abs(_as_float(value)) < math.inf:
        raise _Misfit("float", value)


def _look_at_double(value: Any) -> None:
    if type(value) is not float and isinstance(value, Integral) and not _is_exact(int(value)):
        raise _Misfit("double", value)


def _look_at_bool(value: Any) -> None:
    # A bool of numpy counts.
    if type(value) is not bool and getattr(getattr(value, "dtype", None), "kind", "") != "b":
        raise _Misfit("bool", value)


def _is_exact(value: int) -> bool:
    found = _as_float(value)
    return math.isinf(found) or int(found) == value


def _as_float(value: SupportsFloat) -> float:
    """The number in 64 bits; infinite for an int that the class refuses as too large."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


_PLAIN: Mapping[int, _Look] = {
    FieldDescriptor.TYPE_FLOAT: _look_at_float,
    FieldDescriptor.TYPE_DOUBLE: _look_at_double,
    FieldDescriptor.TYPE_BOOL: _look_at_bool,
}
#: The type whose values fit without a look.
_FITS: Mapping[_Look, type] = {_look_at_double: float, _look_at_bool: bool}
