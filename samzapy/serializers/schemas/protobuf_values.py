"""Finds the values in dicts that protobuf's classes would change to make them fit: 1e300 as a float becomes infinite, 5
as a bool true.

The classes refuse all other values that do not fit, except bytes as a string: they decode the bytes, and a look at each
string would cost a sixth of the writing. The check is made once for a class, and looks only at the fields where the
class does not refuse. A class without such fields has no check.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Integral, Real
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from samzapy.serializers.schemas.misfits import (
    LARGEST_FLOAT,
    UNCHECKED,
    Check,
    Look,
    Misfit,
    as_float,
    checked,
    is_bool_of_numpy,
    look_at_all,
)

#: The dicts for these classes have other keys than the names of fields.
_OTHER_KEYS = frozenset({"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"})


def check_of(written: Descriptor) -> Callable[[Any], None] | None:
    """The function that raises SerdeError, with the path of the place, for a dict with a value that the class would
    change; None for a class that changes none."""
    return checked("protobuf", _message(written, {}))


def _message(written: Descriptor, known: dict[str, Check]) -> Check:
    if written.full_name in known:
        return known[written.full_name]
    if written.full_name in _OTHER_KEYS:
        return UNCHECKED
    fields: list[tuple[str, frozenset[type], Look]] = []
    choices = [(each.name, [field.name for field in each.fields]) for each in written.oneofs if len(each.fields) > 1]

    def look(value: Any) -> None:
        if type(value) is not dict and not isinstance(value, Mapping):
            return
        for choice, names in choices:
            # The class would keep the last one.
            if sum(value.get(name) is not None for name in names) > 1:
                raise Misfit(f"one of {', '.join(names)} (oneof {choice})", value)
        for name, fits, each in fields:
            held = value.get(name)
            # None leaves the field unset.
            if held is not None and type(held) not in fits:
                try:
                    each(held)
                except Misfit as found:
                    found.path.append(f".{name}")
                    raise

    # Before the fields: a message may hold itself.
    made = known[written.full_name] = Check(frozenset(), look)
    for field in written.fields:
        fits, each = _field(field, known)
        if each is not None:
            fields.append((field.name, fits, each))
    return made if fields or choices else UNCHECKED


def _field(field: FieldDescriptor, known: dict[str, Check]) -> Check:
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        return _of_map(_field(inner.fields_by_name["value"], known))
    one = _PLAIN.get(field.type, UNCHECKED) if inner is None else _message(inner, known)
    return _of_list(one) if field.is_repeated else one


def _of_map(one: Check) -> Check:
    fits, each = one
    if each is None:
        return UNCHECKED

    def look(value: Any) -> None:
        if isinstance(value, Mapping):
            look_at_all(value.items(), fits, each)

    return Check(frozenset(), look)


def _of_list(one: Check) -> Check:
    fits, each = one
    if each is None:
        return UNCHECKED

    def look(value: Any) -> None:
        # A look would exhaust an iterator.
        if isinstance(value, Iterable) and not isinstance(value, Iterator):
            look_at_all(enumerate(value), fits, each)

    return Check(frozenset(), look)


def _look_at_float(value: Any) -> None:
    # The type first: `isinstance` with an abstract class takes as long as all else.
    if type(value) is float and -LARGEST_FLOAT < value < LARGEST_FLOAT:
        return
    if isinstance(value, Real) and LARGEST_FLOAT <= abs(as_float(value)) < math.inf:
        raise Misfit("float", value)


def _look_at_double(value: Any) -> None:
    if isinstance(value, Integral) and not _is_exact(int(value)):
        raise Misfit("double", value)


def _look_at_bool(value: Any) -> None:
    if not is_bool_of_numpy(value):
        raise Misfit("bool", value)


def _is_exact(value: int) -> bool:
    found = as_float(value)
    return math.isinf(found) or int(found) == value


_PLAIN: Mapping[int, Check] = {
    FieldDescriptor.TYPE_FLOAT: Check(frozenset(), _look_at_float),
    FieldDescriptor.TYPE_DOUBLE: Check(frozenset({float}), _look_at_double),
    FieldDescriptor.TYPE_BOOL: Check(frozenset({bool}), _look_at_bool),
}
