"""The meaning of annotations behind their names (NewType, aliases, Annotated, type variables), and their Arrow types.

The annotations of the messages' class give the type of a column, so that it is the same in every batch: int, float,
bool, str and bytes, dates, times and durations, lists of these, classes with fields, and `| None` of each. An Enum or a
Literal has the type of its values, and a UUID is text. For any other annotation the values give the type.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar, get_args, get_origin
from uuid import UUID

from samzapy.arrow import pyarrow

#: `Required` and `NotRequired` are of Python 3.11, so they go by name.
_WRAPPERS = ("Annotated", "Required", "NotRequired")


def plain_annotation(hint: Any) -> Any:
    """The annotation itself, for another name of it (NewType, `type`) or one with more about it (Annotated)."""
    while True:
        origin = get_origin(hint)
        if hasattr(origin, "__value__"):  # an alias with brackets
            hint = substituted(origin.__value__, dict(zip(origin.__type_params__, get_args(hint), strict=False)))
        elif hasattr(hint, "__value__"):
            hint = hint.__value__
        elif hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        elif getattr(origin, "_name", getattr(origin, "__name__", "")) in _WRAPPERS:
            hint = get_args(hint)[0]
        else:
            return hint


def substituted(kind: Any, known: Mapping[Any, Any]) -> Any:
    """`kind` with the type variables that are known replaced, and Any for the others."""
    if isinstance(kind, TypeVar):
        return known.get(kind, Any)
    free = getattr(kind, "__parameters__", ())
    return kind[tuple(known.get(item, Any) for item in free)] if free else kind


@lru_cache(maxsize=256)
def fields_of(kind: Any) -> dict[str, Any] | None:
    """The fields of a class with their annotations, None for a class without fields."""
    names: Iterable[str]
    if hasattr(kind, "__struct_fields__"):  # msgspec
        names = kind.__struct_fields__
    elif dataclasses.is_dataclass(kind):
        names = [item.name for item in dataclasses.fields(kind)]
    elif hasattr(kind, "__attrs_attrs__"):
        names = [item.name for item in kind.__attrs_attrs__]
    elif hasattr(kind, "_fields") or hasattr(kind, "model_fields"):  # NamedTuple, pydantic
        names = kind._fields if hasattr(kind, "_fields") else kind.model_fields
    elif typing.is_typeddict(kind):
        names = kind.__annotations__
    else:
        return None
    try:
        hints = typing.get_type_hints(kind)
    except (NameError, TypeError):  # an annotation that only a type checker can read
        hints = {}
    return {name: hints.get(name) for name in names}


def arrow_type(pa: Any, hint: Any, within: tuple[Any, ...] = ()) -> Any:
    """The Arrow type of an annotation, None to leave it to the values. `within`: the classes around it."""
    hint = plain_annotation(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Union, types.UnionType}:
        others = [item for item in arguments if item is not types.NoneType]
        return arrow_type(pa, others[0], within) if len(others) == 1 else None
    is_enum = isinstance(hint, type) and issubclass(hint, Enum)
    if is_enum or origin is typing.Literal:
        return _of_values(pa, [item.value for item in hint] if is_enum else arguments)
    if origin in {list, set, frozenset, Sequence}:
        if not arguments:  # `typing.List` alone
            return None
        inner = arrow_type(pa, arguments[0], within)
        return None if inner is None else pa.list_(inner)
    return _simple_types().get(hint) or _struct(pa, hint, within)


def _of_values(pa: Any, values: Iterable[Any]) -> Any:
    """The Arrow type of one of these values, None to leave it to the values of a batch."""
    kinds = {type(value) for value in values} - {types.NoneType}
    return arrow_type(pa, kinds.pop()) if len(kinds) == 1 else None


@lru_cache(maxsize=1)
def _simple_types() -> dict[Any, Any]:
    pa = pyarrow()
    return {
        int: pa.int64(),
        float: pa.float64(),
        bool: pa.bool_(),
        str: pa.string(),
        bytes: pa.binary(),
        date: pa.date32(),
        time: pa.time64("us"),
        datetime: pa.timestamp("us", "UTC"),
        timedelta: pa.duration("us"),
        UUID: pa.string(),
    }


def _struct(pa: Any, hint: Any, within: tuple[Any, ...]) -> Any:
    if hint in within:
        return None  # a class that holds itself has no type of a known depth
    fields = fields_of(hint) if isinstance(hint, type) else None
    inner = {name: arrow_type(pa, item, (*within, hint)) for name, item in (fields or {}).items()}
    return pa.struct(list(inner.items())) if inner and None not in inner.values() else None
