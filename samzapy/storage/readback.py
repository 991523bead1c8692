"""Reads values back right after they are written, and compares: what a serde changes must not become state.

No list of the ways in which a class can lose values would be complete (masked secrets, excluded fields, keys that
become text, subclasses, custom serializers), so the serde itself is asked. The first values of each class are read
back, and later one in `EVERY`.
"""

from __future__ import annotations

import math
import reprlib
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from itertools import chain, repeat
from typing import Any
from uuid import UUID

from samzapy.api.serde import Serde, hinted
from samzapy.config.reading.properties import MASK, is_secret
from samzapy.errors import EnvironmentFailure, SerdeError

#: Values of each class that are read back before it counts as proven.
FIRST = 16
#: One in so many later values is read back.
EVERY = 1_000

#: A step between the samples of two batches, so that they are not always of the same place.
_STRIDE = 7_919

#: Types with values that hold no others, and for which `==` is exact between values of one type.
_LEAVES = frozenset({bool, bytes, date, datetime, Decimal, float, int, str, time, timedelta, type(None), UUID})

#: What a schema may round a time to.
_UNIT = timedelta(milliseconds=1)


class ReadBack:
    """Chooses the values to read back, and says what has changed in one.

    `write` and `read` are inverse, `reason` explains an exception of `read`. `classes`: the exact classes of the
    values, None if they are not known. `rounded`: floats and times may be rounded, as a schema says. `exact`: an int
    must not come back as an equal float.
    """

    def __init__(
        self,
        write: Callable[[Any], Any],
        read: Callable[[Any], Any],
        reason: Callable[[Exception], str],
        classes: frozenset[type] | None,
        *,
        rounded: bool = False,
        exact: bool = False,
    ) -> None:
        self._write, self._read, self._reason = write, read, reason
        self._rounded, self._exact = rounded, exact
        self.classes = classes
        #: Whether the next value may be `due`: False for most values, in one call of C.
        self.tick: Callable[[], bool] = repeat(True).__next__
        # Values until the next sample of a batch, or of a class that has others which are not proven.
        self._left = EVERY
        # The classes of which enough values were read back.
        self._proven: set[type] = {type(None)}
        #: Whether there may be classes of which not enough values were read back.
        self.open = True
        self._seen: dict[type, int] = {}
        self._turn = 0

    def due(self, value: Any) -> bool:
        """Whether to read one value back. Call it if there was a `tick`."""
        if type(value) not in self._proven:
            return self._note(type(value))
        if self.open:
            self._left -= 1
            if self._left > 0:
                return False
            self._left = EVERY
        else:
            self.tick = chain(repeat(False, EVERY - 1), repeat(True)).__next__
        return True

    def places(self, values: Collection[Any]) -> list[int]:
        """The places of the values of a batch to read back."""
        self._left -= len(values)
        result = []
        if self.open and not set(map(type, values)) <= self._proven:
            kinds = enumerate(map(type, values))
            result = [place for place, kind in kinds if kind not in self._proven and self._note(kind)]
        if self._left <= 0:
            self._left = EVERY
            self._turn += _STRIDE
            result += range(self._turn % min(len(values), EVERY), len(values), EVERY)
        return result

    def _note(self, kind: type) -> bool:
        self._seen[kind] = seen = self._seen.get(kind, 0) + 1
        if seen >= FIRST:
            self._proven.add(kind)
            self.open = self.classes is None or not self.classes <= self._proven
        return True

    def fault(self, value: Any, data: Any) -> str | None:
        """Why `data`, which was written for `value`, is not read as an equal value; None if it is. Raises
        EnvironmentFailure."""
        result = self._fault(value, data)
        if result is not None:
            # It may be tried again, and must fail again.
            self._left, self.tick = 0, repeat(True).__next__
        return result

    def _fault(self, value: Any, data: Any) -> str | None:
        try:
            back = self._read(data)
        except EnvironmentFailure:
            raise
        except Exception as cause:  # noqa: BLE001  # whatever a serde raises is about this value
            return f"is not read back ({self._reason(cause)})"
        result = difference(value, back, rounded=self._rounded, exact=self._exact)
        if result == OPAQUE:
            result = None if self._write(back) == data else f"$: another {type(back).__name__}"
        return None if result is None else f"does not come back as it was written: {result}"


class ChangedOutput(SerdeError):
    """Raised for an object that would not come back as it was sent."""


class Proof:
    """The encoder of the outputs of a class as long as some of them are to be read back: `left` of them."""

    def __init__(self, back: ReadBack, encode: Callable[[Any], bytes], done: Callable[[], object]) -> None:
        """`done` is called when none is left."""
        self.back, self.encode, self._done = back, encode, done
        self.left = FIRST * max(1, len(back.classes or ()))

    def __call__(self, value: Any) -> bytes:
        """The bytes of `value`. Raises ChangedOutput, and as `encode`."""
        data = self.encode(value)
        self.left -= 1
        if self.left <= 0:
            self._done()
        fault = self.back.fault(value, data) if self.back.due(value) else None
        if fault is not None:
            self.left = 1
            raise ChangedOutput(
                f"{type(value).__name__} {fault}; change the class, or send plain values to a stream without one"
            )
        return data

    def sample(self) -> None:
        """Have the next output read back."""
        self.left = 1


def read_back(serde: Serde, *, exact: bool = False) -> ReadBack | None:
    """How the values of a serde of a class are read back; None for a serde of plain values, which documents what it
    changes."""
    if serde.object_type is None:
        return None
    return ReadBack(
        serde.to_bytes,
        serde.from_bytes,
        hinted(serde).misfit,
        getattr(serde, "classes", None),
        rounded=getattr(serde, "rounds", False),
        exact=exact,
    )


#: Found for values that cannot be compared but by their bytes.
OPAQUE = "opaque"
_ABSENT = object()
#: A place in a value, and what was written and read there.
_Pair = tuple[str, Any, Any]


class _Different(Exception):
    """Carries the text."""


def difference(written: Any, read: Any, *, rounded: bool = False, exact: bool = True) -> str | None:
    """The first place where a value differs from the one that was read for it, None if there is none; OPAQUE if only
    their bytes can tell.

    Values of different types differ (1, 1.0 and True; an enum and its value; a class and its subclass), NaN is NaN, and
    an object without `__eq__` is compared by its state. Without `exact` an int may come back as an equal float: type
    checkers take it for one.
    """
    waiting: list[_Pair] = [("$", written, read)]
    opaque = False
    while waiting:
        place, one, other = waiting.pop()
        if one is other or (type(one) in _LEAVES and _same(one, other, rounded=rounded, exact=exact)):
            continue
        try:
            _expect(type(one) is type(other) and type(one) not in _LEAVES)
            parts = _parts(place, one, other)
        except _Different as result:
            return (
                f"{place}: {result}"
                if result.args
                else f"{place}: {_shown(place, one)} was written, {_shown(place, other)} is read"
            )
        except Exception as cause:  # noqa: BLE001  # whatever the methods of the user raise
            return f"{place}: two objects of {type(one).__name__} cannot be compared ({type(cause).__name__}: {cause})"
        opaque = opaque or parts is None
        waiting += parts or ()
    return OPAQUE if opaque else None


def _same(one: Any, other: Any, *, rounded: bool, exact: bool) -> bool:
    """Whether two values are the same, of which the first holds no others."""
    kind = type(one)
    if kind is not type(other):
        return not exact and kind is int and type(other) is float and bool(one == other)
    if kind is float:
        near = 2**-23 if rounded else 0.0
        return math.isclose(one, other, rel_tol=near) or (math.isnan(one) and math.isnan(other))
    if kind is Decimal:
        return bool(one.compare_total(other) == 0 or (one.is_finite() and one == other))
    if rounded and kind is datetime and (one.tzinfo is None) == (other.tzinfo is None):
        return bool(abs(one - other) < _UNIT)
    if rounded and kind is time:
        near = abs(one.microsecond - other.microsecond) < _UNIT.microseconds
        return near and bool(one.replace(microsecond=0) == other.replace(microsecond=0))
    return bool(one == other)


def _parts(place: str, one: Any, other: Any) -> list[_Pair] | None:
    """The pairs of parts to compare, of two objects of one class; None if there is no way. Raises _Different."""
    kind: Any = type(one)
    if isinstance(one, dict):
        return _entries(place, one, other)
    if isinstance(one, (set, frozenset)):
        twins = {item: item for item in other}
        _expect(
            len(one) == len(other) and all(item in twins for item in one), "other elements are read than were written"
        )
        return [(f"{place}[...]", item, twins[item]) for item in one]
    if isinstance(one, (list, tuple, deque)):
        _expect(len(one) == len(other), f"{len(one)} elements were written, {len(other)} are read")
        names = getattr(kind, "_fields", None)
        steps: Any = range(len(one)) if names is None else names
        step = "{}[{}]" if names is None else "{}.{}"
        return [(step.format(place, at), *pair) for at, *pair in zip(steps, one, other, strict=True)]
    names = _names(kind)
    if names is not None:
        return [(f"{place}.{name}", getattr(one, name, _ABSENT), getattr(other, name, _ABSENT)) for name in names]
    if _has_no_eq(kind):
        state, others = _state(one), _state(other)
        return _entries(place, state, others) if state or others else None
    same = one == other
    _expect(isinstance(same, bool), f"`==` of {kind.__name__} gives {type(same).__name__}, not a bool")
    _expect(same)
    return []


def _expect(condition: object, message: str = "") -> None:
    if not condition:
        raise _Different(message) if message else _Different


def _entries(place: str, one: dict[Any, Any], other: dict[Any, Any]) -> list[_Pair]:
    twins = {key: key for key in other}
    missing = next((key for key in one if key not in twins), _ABSENT)
    _expect(missing is _ABSENT, f"key {_named(missing)} was written and is not read")
    _expect(len(one) == len(other), f"{len(one)} keys were written, {len(other)} are read")
    keys = [(f"{place}: key", key, twins[key]) for key in one if type(key) is not str or type(twins[key]) is not str]
    return keys + [(f"{place}[{_named(key)}]", held, other[key]) for key, held in one.items()]


def _has_no_eq(kind: Any) -> bool:
    return bool(kind.__eq__ is object.__eq__)


@lru_cache(maxsize=1_024)
def _names(kind: Hashable) -> tuple[str, ...] | None:
    """The attributes that objects of a class are compared by; None for a class without fields. A field that the class
    itself does not compare, such as a cache, does not count."""
    all_count = _has_no_eq(kind)
    if hasattr(kind, "__struct_fields__"):
        return tuple(kind.__struct_fields__)
    if hasattr(kind, "__attrs_attrs__"):
        return tuple(item.name for item in kind.__attrs_attrs__ if all_count or item.eq)
    if isinstance(kind, type) and is_dataclass(kind):
        return tuple(item.name for item in fields(kind) if all_count or item.compare)
    if hasattr(kind, "__pydantic_fields__"):
        return (*kind.__pydantic_fields__, "__pydantic_private__", "__pydantic_extra__")
    return None


def _state(value: Any) -> dict[str, Any]:
    """The attributes of an object."""
    return {
        **getattr(value, "__dict__", {}),
        **{name: getattr(value, name) for name in _slots(value) if hasattr(value, name)},
    }


def _slots(value: Any) -> Iterator[str]:
    for kind in type(value).__mro__:
        names = vars(kind).get("__slots__", ())
        yield from (names,) if isinstance(names, str) else names


def _shown(place: str, value: Any) -> str:
    """The class of a value, and the value if it has no parts and is no secret."""
    if value is _ABSENT:
        return "nothing"
    name = type(value).__name__
    if hasattr(value, "get_secret_value") or is_secret(place):
        return f"{name} {MASK}"
    return f"{name} {reprlib.repr(value)}" if type(value) in _LEAVES or isinstance(value, Enum) else f"a {name}"


def _named(key: Any) -> str:
    return reprlib.repr(key) if type(key) in _LEAVES or isinstance(key, (Enum, tuple)) else type(key).__name__
