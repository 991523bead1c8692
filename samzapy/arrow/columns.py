"""Messages as columns: a RecordBatch, a frame of pandas or of polars.

A column has the type of its annotation, or else of its values. A value that its column would change is refused.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from operator import attrgetter, methodcaller
from typing import Any
from uuid import UUID

from samzapy.arrow.annotations import arrow_type, fields_of, plain_annotation
from samzapy.arrow.checks import check_of, check_of_found, check_of_typed
from samzapy.arrow.libraries import library, pyarrow

_KEY, _MESSAGE, _OFFSET, _TIMESTAMP = "key", "message", "offset", "timestamp"


def record_batch(
    keys: Sequence[Any], messages: Sequence[Any], offsets: Sequence[int], timestamps: Sequence[int], kind: Any = None
) -> Any:
    """The columns of `MessageBatch.to_arrow`; `kind` is the class of the messages if they do not name it."""
    pa = pyarrow()
    columns = _message_columns(pa, messages, _kinds(messages, kind))
    times = [None if each == -1 else each for each in timestamps]
    own = {
        _KEY: _array(pa, _KEY, keys, None),
        _OFFSET: pa.array(offsets, pa.int64()),
        _TIMESTAMP: pa.array(times, pa.timestamp("ms", "UTC")),
    }
    (key, keys_column), *behind = [(_free_name(name, columns), column) for name, column in own.items()]
    return pa.RecordBatch.from_pydict({key: keys_column, **columns, **dict(behind)})


def _free_name(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name = f"_{name}"
    return name


def to_pandas(batch: Any) -> Any:
    """A RecordBatch as a `pandas.DataFrame`. Whole numbers beside nulls do not become floats, which would change large
    numbers."""
    pd = library("pandas", "pandas")
    frame = batch.to_pandas(integer_object_nulls=True)  # within lists and fields
    nullable = _nullable_integers(pd)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if column.null_count and column.type in nullable:
            frame[name] = column.to_pandas(types_mapper=nullable.get)
    return frame


def _nullable_integers(pd: Any) -> dict[Any, Any]:
    names = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
    return {pyarrow().type_for_alias(name.lower()): getattr(pd, f"{name}Dtype")() for name in names}


def to_polars(batch: Any) -> Any:
    """A RecordBatch as a `polars.DataFrame`."""
    return library("polars", "polars").from_arrow(batch)


def _kinds(messages: Sequence[Any], kind: Any) -> list[Any]:
    """The classes of the messages: the members of a union, or the types of the messages themselves."""
    kind = plain_annotation(kind)
    if typing.get_origin(kind) in {typing.Union, types.UnionType}:
        return [plain_annotation(each) for each in typing.get_args(kind) if each is not types.NoneType]
    if kind is not None:
        return [kind]
    return list(dict.fromkeys(type(message) for message in messages if message is not None)) or [None]


def _message_columns(pa: Any, messages: Sequence[Any], kinds: Sequence[Any]) -> dict[str, Any]:
    kind, fields = kinds[0], list(map(fields_of, kinds))
    if None not in fields:
        hints: dict[str, list[Any]] = {}
        for each in fields:
            for name, hint in (each or {}).items():
                hints.setdefault(name, []).append(hint)
        return {
            name: _field(pa, messages, name, found[0] if found.count(found[0]) == len(found) else None, kinds)
            for name, found in hints.items()
        }
    if kind is dict and any(each is not None for each in messages):
        try:
            structs = pa.array(messages)
        except (pa.ArrowException, TypeError, OverflowError) as cause:
            raise TypeError(f"messages cannot be columns: {cause}") from cause
        for field in structs.type:
            if check := check_of(field.type, check_of_found):
                with _named(field.name):
                    check([None if each is None else each.get(field.name) for each in messages])
        return dict(zip((field.name for field in structs.type), structs.flatten(), strict=True))
    return {_MESSAGE: _array(pa, _MESSAGE, messages, arrow_type(pa, kind) if len(kinds) == 1 else None)}


def _field(pa: Any, objects: Sequence[Any], name: str, hint: Any, kinds: Sequence[Any]) -> Any:
    """The column of one field; null for an object of a class without it."""
    if len(kinds) > 1:
        return _array(pa, name, [getattr(each, name, None) for each in objects], arrow_type(pa, hint))
    get = methodcaller("get", name) if issubclass(typing.get_origin(kinds[0]) or kinds[0], dict) else attrgetter(name)
    try:
        values = [None if each is None else get(each) for each in objects]
    except (AttributeError, TypeError) as cause:
        raise TypeError(f"column {name!r}: a message is no {kinds[0].__name__}: {cause}") from cause
    return _array(pa, name, values, arrow_type(pa, hint))


def _array(pa: Any, name: str, values: Sequence[Any], wanted: Any) -> Any:
    with _named(name):
        try:
            taken = values if wanted is None else _plain(values, wanted)
            column = pa.array(taken, wanted)
        except pa.ArrowException:
            taken = list(map(_as_plain, values))
            column = pa.array(taken, wanted)
        if check := check_of(column.type, check_of_found if wanted is None else check_of_typed):
            check(taken)
        return column


@contextmanager
def _named(column: str) -> Iterator[None]:
    """Turns the errors of values into a TypeError that names the column."""
    try:
        yield
    except (pyarrow().ArrowException, TypeError, ValueError, OverflowError, AttributeError) as cause:
        raise TypeError(f"column {column!r}: {' '.join(str(cause).split())}") from cause


def _as_plain(value: Any) -> Any:
    """The value with dicts in place of objects with fields, lists in place of sets, the values of Enums and the text of
    UUIDs, at any depth."""
    if isinstance(value, dict):
        return {_as_plain(name): _as_plain(each) for name, each in value.items()}
    if isinstance(value, (list, set, frozenset)):
        return list(map(_as_plain, value))
    if isinstance(value, Enum):
        return _as_plain(value.value)
    if isinstance(value, UUID):
        return str(value)
    kind: Any = type(value)
    names = fields_of(kind)
    return value if names is None else {name: _as_plain(getattr(value, name)) for name in names}


def _plain(values: Sequence[Any], wanted: Any) -> Sequence[Any]:
    """The values with dicts instead of objects with fields, where the type has structs."""
    convert = _converter(wanted)
    return values if convert is None else [None if each is None else convert(each) for each in values]


def _converter(wanted: Any) -> Callable[[Any], Any] | None:
    types_of = pyarrow().types
    if types_of.is_struct(wanted):
        inner = {field.name: _converter(field.type) for field in wanted}
        return lambda value: _as_dict(value, inner)
    if types_of.is_list(wanted):
        of_items = _converter(wanted.value_type)
        if of_items is not None:
            return lambda items: [None if each is None else of_items(each) for each in items]
    return None


def _as_dict(value: Any, inner: dict[str, Callable[[Any], Any] | None]) -> dict[str, Any]:
    found = {}
    for name, convert in inner.items():
        each = value.get(name) if isinstance(value, dict) else getattr(value, name)
        found[name] = each if convert is None or each is None else convert(each)
    return found
