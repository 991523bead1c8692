"""Finds the values that pyarrow has changed without an error."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from functools import partial
from itertools import chain
from numbers import Number
from typing import Any

from samzapy.arrow.libraries import pyarrow

#: Raises TypeError for a value that pyarrow has changed without an error.
Check = Callable[[Sequence[Any]], None]


def check_of(kind: Any, check_of_leaf: Callable[[Any], Check | None]) -> Check | None:
    """The check of the values of a column of that type; None if pyarrow changes none of them."""
    types_of = pyarrow().types
    if types_of.is_struct(kind):
        inner = {field.name: check for field in kind if (check := check_of(field.type, check_of_leaf)) is not None}
        return partial(_check_fields, inner) if inner else None
    if types_of.is_list(kind):
        of_items = check_of(kind.value_type, check_of_leaf)
        return None if of_items is None else partial(_check_items, of_items)
    return check_of_leaf(kind)


def _check_fields(inner: dict[str, Check], values: Sequence[Any]) -> None:
    for name, check in inner.items():
        check([each.get(name) for each in values if each is not None])


def _check_items(check: Check, values: Sequence[Any]) -> None:
    check(list(chain.from_iterable(each for each in values if each is not None)))


def check_of_typed(kind: Any) -> Check | None:
    """The check for a type that an annotation gives: the values may have other types."""
    types_of = pyarrow().types
    if types_of.is_int64(kind):
        return partial(_refuse, "int", int, lambda value: int(value) != value)
    if types_of.is_timestamp(kind):
        return partial(_refuse, "datetime", datetime, lambda value: isinstance(value, Number))
    if types_of.is_duration(kind):
        return partial(_refuse, "timedelta", timedelta, lambda value: isinstance(value, Number))
    return _check_of_day_or_clock(kind)


def check_of_found(kind: Any) -> Check | None:
    """The check for a type that pyarrow has inferred from the values."""
    return _refuse_some_zones if pyarrow().types.is_timestamp(kind) else _check_of_day_or_clock(kind)


def _check_of_day_or_clock(kind: Any) -> Check | None:
    types_of = pyarrow().types
    if types_of.is_date(kind):
        return partial(_refuse, "a date without a time", date, lambda value: isinstance(value, (datetime, Number)))
    if types_of.is_time(kind):
        return partial(_refuse, "a time without a zone", None, _has_zone)
    return None


def _has_zone(value: Any) -> bool:
    return getattr(value, "tzinfo", value) is not None


def _refuse(expected: str, kept: type | None, changes: Callable[[Any], bool], values: Sequence[Any]) -> None:
    """Refuse the values that the column `changes`. It changes no value of the class `kept`, so these cost next to
    nothing."""
    if set(map(type, values)) <= {kept, types.NoneType}:
        return
    for value in values:
        if value is not None and changes(value):
            raise TypeError(f"expected {expected}, got {value}")


def _refuse_some_zones(values: Sequence[Any]) -> None:
    if len({getattr(each, "tzinfo", None) is None for each in values if each is not None}) > 1:
        raise TypeError("expected times that all have a zone, or none, got both")
