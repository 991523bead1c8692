"""Finds the values that Avro's writer would change to make them fit: 1.9 as a long becomes 1, "no" as a boolean true.

The writer checks values in unions only, and a full check of each message costs nearly as much as writing it. This one
is made once for a schema and looks only where the writer is silent. Everything else is left to the writer, which
refuses it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from numbers import Integral, Rational, Real
from typing import Any

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

_NONE = type(None)
_BITS = {"int": 31, "long": 63}
#: The writer would take the characters, bytes or keys for items. An iterator is empty after a look at its items, and
#: when it is written a second time.
_NO_ARRAYS = (str, bytes, bytearray, Mapping, Iterator)


def check_of(schema: Any) -> Callable[[Any], None] | None:
    """The function that raises SerdeError, with the path of the place, for a value that the writer would change; None
    for a schema whose writer changes none. `schema` is parsed."""
    names = schema.get("__named_schemas", {}) if isinstance(schema, dict) else {}
    return checked("avro", _Maker(names).of(schema))


class _Maker:
    """Makes the checks of a schema; a record may hold itself."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = dict(names)
        self._records: dict[str, Check] = {}

    def of(self, schema: Any) -> Check:
        """The check of a schema, or of the one with that name."""
        if isinstance(schema, list):
            return self._union(schema)
        kind, logical = _kind(schema)
        if kind in self._names:
            return self._records.get(kind) or self.of(self._names[kind])
        if kind in {"record", "error"}:
            return self._record(schema)
        return self._made_of_others(kind, schema) or _plain(kind, logical)

    def _made_of_others(self, kind: str, schema: Any) -> Check | None:
        if kind == "array":
            return _array(self.of(schema["items"]))
        if kind == "map":
            return _map(self.of(schema["values"]))
        if isinstance(schema, dict) and isinstance(schema["type"], (dict, list)):
            return self.of(schema["type"])
        return None

    def _record(self, schema: Mapping[str, Any]) -> Check:
        fields: list[tuple[str, frozenset[type], Look]] = []

        def look(value: Any) -> None:
            # The type first: `isinstance` with an abstract class takes as long as all fields.
            if type(value) is not dict and not isinstance(value, Mapping):
                return
            for name, fits, each in fields:
                held = value.get(name)
                # A missing field has its default, or the writer refuses the record.
                if type(held) not in fits and (held is not None or name in value):
                    try:
                        each(held)
                    except Misfit as found:
                        found.path.append(f".{name}")
                        raise

        self._names.setdefault(schema["name"], schema)
        made = self._records[schema["name"]] = Check(frozenset(), look)
        for field in schema["fields"]:
            fits, each = self.of(field["type"])
            if each is not None:
                fields.append((field["name"], fits, each))
        return made if fields else UNCHECKED

    def _union(self, branches: Sequence[Any]) -> Check:
        found = [(_kind(self._named(branch)), self.of(branch)) for branch in branches]
        numbers = {kind: check for (kind, logical), check in found if kind in _NUMBERS and not logical}
        moments = [check for (kind, logical), check in found if kind in _BITS and _look_of(logical, _OF_DATETIMES)]
        times = [check for (kind, logical), check in found if kind in _BITS and _look_of(logical, _OF_TIMES)]
        arrays = [check for (kind, _), check in found if kind == "array"]
        mappings = [check for (kind, _), check in found if kind in {"record", "error", "map"}]
        named = {_name(self._named(branch)): check for branch, (_, check) in zip(branches, found, strict=True)}
        fits = {_ALONE[kind] for (kind, logical), _ in found if kind in _ALONE and not logical}
        if "double" in numbers:
            fits.add(float)
        if next(iter(numbers), None) == "long":
            fits.add(int)

        def look(value: Any) -> None:
            # The branch is chosen as the writer chooses it. The writer also checks the type.
            if type(value) is tuple and len(value) == 2:
                name, held = value
                if name in named:
                    _look(named[name], held)
            elif type(value) is dict:
                _look_at_one(mappings, value)
            elif isinstance(value, datetime):
                _look(moments[0] if moments else UNCHECKED, value)
            elif isinstance(value, time):
                _look(times[0] if times else UNCHECKED, value)
            elif isinstance(value, Real) and not isinstance(value, bool):
                _look(numbers.get(_branch(numbers, value), UNCHECKED), value)
            elif isinstance(value, Mapping):
                _look_at_one(mappings, value)
            elif isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
                _look(arrays[0] if arrays else UNCHECKED, value)

        if all(check.look is None for _, check in found):
            return UNCHECKED
        return Check(frozenset(fits), look)

    def _named(self, branch: Any) -> Any:
        return self._names.get(branch, branch) if isinstance(branch, str) else branch


#: Kinds in a union that have values of one type, which no other kind takes.
_ALONE: Mapping[str, type] = {"null": _NONE, "string": str, "boolean": bool}
_NUMBERS = ("int", "long", "float", "double")


def _kind(schema: Any) -> tuple[str, str | None]:
    """The type and the logical type of a schema that is no union."""
    if isinstance(schema, Mapping):
        return str(schema["type"]), schema.get("logicalType")
    return str(schema), None


def _name(branch: Any) -> str:
    """The name of a branch of a union in `(name, value)`."""
    return str(branch.get("name", branch["type"]) if isinstance(branch, Mapping) else branch)


def _branch(numbers: Iterable[str], value: Any) -> str:
    """The branch that the writer takes for a number."""
    for kind in numbers:
        if kind in _BITS and isinstance(value, Integral) and -(1 << _BITS[kind]) <= int(value) < 1 << _BITS[kind]:
            return kind
        if kind in {"float", "double"}:
            return "double" if "double" in numbers else kind
    return ""


def _look(check: Check, value: Any) -> None:
    if check.look is not None and type(value) not in check.fits:
        check.look(value)


def _look_at_one(checks: Iterable[Check], value: Any) -> None:
    """Raise the first Misfit unless the value fits one of them."""
    first: Misfit | None = None
    for check in checks:
        try:
            _look(check, value)
        except Misfit as found:
            first = first or found
        else:
            return
    if first is not None:
        raise first


def _array(items: Check) -> Check:
    fits, each = items

    def look(value: Any) -> None:
        if type(value) is not list and isinstance(value, _NO_ARRAYS):
            raise Misfit("array", value)
        if each is not None and value is not None:
            look_at_all(enumerate(value), fits, each)

    return Check(frozenset({list, tuple}) if each is None else frozenset(), look)


def _map(values: Check) -> Check:
    fits, each = values
    if each is None:
        return UNCHECKED

    def look(value: Any) -> None:
        if type(value) is dict or isinstance(value, Mapping):
            look_at_all(value.items(), fits, each)

    return Check(frozenset(), look)


def _plain(kind: str, logical: str | None) -> Check:
    """The check of a type that holds no other."""
    if kind in _BITS:
        # A datetime is a subclass of date, so it is looked at.
        always = {int} if kind == "long" else {date} if logical == "date" else ()
        return Check(frozenset(always), _look_at_whole(kind, logical))
    found = _PLAIN.get(kind)
    return UNCHECKED if found is None else found


def _look_at_whole(kind: str, logical: str | None) -> Look:
    low, high = -(1 << _BITS[kind]), (1 << _BITS[kind]) - 1
    look_at_time = _look_of(logical, _OF_DATETIMES) or _look_of(logical, _OF_TIMES)

    def look(value: Any) -> None:
        if type(value) is int:
            fits = low <= value <= high
        elif look_at_time is not None and isinstance(value, (datetime, time)):
            look_at_time(value)
            return
        elif isinstance(value, bool):
            fits = False
        elif isinstance(value, Integral):
            fits = low <= int(value) <= high
        elif isinstance(value, _EXACT):
            fits = _is_whole(value) and low <= value <= high
        else:
            fits = logical is not None and not isinstance(value, Real)
        if not fits:
            raise Misfit(kind, value)

    return look


def _look_of(logical: str | None, looks: Mapping[str, Look]) -> Look | None:
    """The look for a logical type; None if these looks have none for it."""
    return next((look for begin, look in looks.items() if (logical or "").startswith(begin)), None)


def _look_at_date(value: datetime | time) -> None:
    # Some libraries give a date as its midnight.
    if isinstance(value, datetime) and (value.tzinfo is not None or value.time() != time()):
        raise Misfit("a date", value)


def _look_at_zoned(value: datetime | time) -> None:
    if value.tzinfo is None:
        raise Misfit("a datetime with a time zone", value)


def _look_at_local(value: datetime | time) -> None:
    if value.tzinfo is not None:
        raise Misfit("a datetime without a time zone", value)


def _look_at_time(value: datetime | time) -> None:
    if value.tzinfo is not None:
        raise Misfit("a time without a time zone", value)


#: The looks at a datetime and at a time, by the beginning of the logical types that they are written as. The writer
#: drops the parts that the type lacks, and takes the machine's time zone for a missing one.
_OF_DATETIMES: Mapping[str, Look] = {
    "date": _look_at_date,
    "timestamp-": _look_at_zoned,
    "local-timestamp-": _look_at_local,
}
_OF_TIMES: Mapping[str, Look] = {"time-": _look_at_time}


def _look_at_float(value: Any) -> None:
    if type(value) is float and -LARGEST_FLOAT < value < LARGEST_FLOAT:
        return
    if not _is_number(value):
        raise Misfit("float", value)
    # In 64 bits: a number of numpy compares in its own bits.
    if abs(as_float(value)) >= LARGEST_FLOAT and abs(value) != math.inf:
        raise Misfit("float", value)


def _look_at_double(value: Any) -> None:
    if not _is_number(value):
        raise Misfit("double", value)
    # As an int of Python: an int of numpy compares as a float.
    number = int(value) if isinstance(value, Integral) else value
    if as_float(value) != number and _is_whole(number):
        raise Misfit("double", value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (Real, Decimal)) and not isinstance(value, bool)


#: The types of exact numbers, which may be whole.
_EXACT: tuple[Any, ...] = (Decimal, Rational)


def _is_whole(value: Any) -> bool:
    """Whether an exact number is whole; False for a float."""
    if isinstance(value, Decimal):
        return value == value.to_integral_value()
    return isinstance(value, Rational) and value.denominator == 1


def _look_at_boolean(value: Any) -> None:
    if type(value) is not bool and not is_bool_of_numpy(value):
        raise Misfit("boolean", value)


def _look_at_null(value: Any) -> None:
    if value is not None:
        raise Misfit("null", value)


_PLAIN: Mapping[str, Check] = {
    "float": Check(frozenset(), _look_at_float),
    "double": Check(frozenset({float}), _look_at_double),
    "boolean": Check(frozenset({bool}), _look_at_boolean),
    "null": Check(frozenset({_NONE}), _look_at_null),
}
