"""Messages as columns, and the rows of a table as messages: a RecordBatch or Table, a frame of pandas or of polars.

A column has the type of its annotation, or else of its values. A value that its column would change is refused: pyarrow
changes some values without an error.
"""

from __future__ import annotations

import types
import typing
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from enum import Enum
from functools import partial
from itertools import chain
from numbers import Number
from operator import attrgetter, methodcaller
from typing import Any
from uuid import UUID

from samzapy.arrow import library, pyarrow
from samzapy.arrow.annotations import arrow_type, fields_of, plain_annotation

_KEY, _MESSAGE, _OFFSET, _TIMESTAMP = "key", "message", "offset", "timestamp"


def record_batch(
    keys: Sequence[Any], messages: Sequence[Any], offsets: Sequence[int], timestamps: Sequence[int], kind: Any = None
) -> Any:
    """The columns of `MessageBatch.to_arrow`; `kind` is the class of the messages if they do not name it."""
    pa = pyarrow()
    columns = _message_columns(pa, messages, _kinds(messages, kind))
    times = [None if item == -1 else item for item in timestamps]
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
        return [plain_annotation(item) for item in typing.get_args(kind) if item is not types.NoneType]
    if kind is not None:
        return [kind]
    return list(dict.fromkeys(type(message) for message in messages if message is not None)) or [None]


def _message_columns(pa: Any, messages: Sequence[Any], kinds: Sequence[Any]) -> dict[str, Any]:
    kind, fields = kinds[0], list(map(fields_of, kinds))
    if None not in fields:
        hints: dict[str, list[Any]] = {}
        for item in fields:
            for name, hint in (item or {}).items():
                hints.setdefault(name, []).append(hint)
        return {
            name: _field(pa, messages, name, result[0] if result.count(result[0]) == len(result) else None, kinds)
            for name, result in hints.items()
        }
    if kind is dict and any(item is not None for item in messages):
        try:
            structs = pa.array(messages)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as cause:
            raise TypeError(f"messages cannot be columns: {cause}") from cause
        for field in structs.type:
            if check := check_of(field.type, typed=False):
                with _named(field.name):
                    check([None if item is None else item.get(field.name) for item in messages])
        return dict(zip((field.name for field in structs.type), structs.flatten(), strict=True))
    return {_MESSAGE: _array(pa, _MESSAGE, messages, arrow_type(pa, kind) if len(kinds) == 1 else None)}


def _field(pa: Any, objects: Sequence[Any], name: str, hint: Any, kinds: Sequence[Any]) -> Any:
    """The column of one field; null for an object of a class without it."""
    if len(kinds) > 1:
        return _array(pa, name, [getattr(item, name, None) for item in objects], arrow_type(pa, hint))
    get = methodcaller("get", name) if issubclass(typing.get_origin(kinds[0]) or kinds[0], dict) else attrgetter(name)
    try:
        values = [None if item is None else get(item) for item in objects]
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
        if check := check_of(column.type, typed=wanted is not None):
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
        return {_as_plain(name): _as_plain(item) for name, item in value.items()}
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
    return values if convert is None else [None if item is None else convert(item) for item in values]


def _converter(wanted: Any) -> Callable[[Any], Any] | None:
    types_of = pyarrow().types
    if types_of.is_struct(wanted):
        inner = {field.name: _converter(field.type) for field in wanted}
        return lambda value: _as_dict(value, inner)
    if types_of.is_list(wanted):
        of_items = _converter(wanted.value_type)
        if of_items is not None:
            return lambda items: [None if item is None else of_items(item) for item in items]
    return None


def _as_dict(value: Any, inner: dict[str, Callable[[Any], Any] | None]) -> dict[str, Any]:
    result = {}
    for name, convert in inner.items():
        item = value.get(name) if isinstance(value, dict) else getattr(value, name)
        result[name] = item if convert is None or item is None else convert(item)
    return result


#: Raises TypeError for a value that pyarrow has changed without an error.
Check = Callable[[Sequence[Any]], None]


#: pyarrow takes numbers, and what becomes one by `int`, for times and durations.
_NUMBERS = (Number, UUID)


def check_of(kind: Any, *, typed: bool) -> Check | None:
    """The check of the values of a column of that type; None if pyarrow changes none of them. `typed`: an annotation
    gives the type, so the values may have others; else pyarrow has inferred it from them."""
    types_of = pyarrow().types
    if types_of.is_struct(kind):
        inner = {field.name: check for field in kind if (check := check_of(field.type, typed=typed)) is not None}
        return partial(_check_fields, inner) if inner else None
    if types_of.is_list(kind):
        of_items = check_of(kind.value_type, typed=typed)
        return None if of_items is None else partial(_check_items, of_items)
    if typed and types_of.is_int64(kind):
        return partial(_refuse, "int", int, lambda value: int(value) != value)
    if not typed and types_of.is_timestamp(kind):
        return _refuse_some_zones
    for fits, kept, expected, changed in (
        (types_of.is_date, date, "a date without a time", (datetime, *_NUMBERS)),
        (types_of.is_time, None, "a time without a zone", lambda value: getattr(value, "tzinfo", value) is not None),
        (types_of.is_timestamp, datetime, "datetime", _NUMBERS),
        (types_of.is_duration, timedelta, "timedelta", _NUMBERS),
        (types_of.is_binary, bytes, "bytes", (str,)),
        (types_of.is_string, str, "str", (bytes, bytearray)),
        (types_of.is_floating, float, "a number", (bool, UUID)),
        (types_of.is_integer, int, "int", (bool, UUID)),
    ):
        if fits(kind):
            return partial(_refuse, expected, kept, changed)
    return None


def _check_fields(inner: dict[str, Check], values: Sequence[Any]) -> None:
    for name, check in inner.items():
        check([item.get(name) for item in values if item is not None])


def _check_items(check: Check, values: Sequence[Any]) -> None:
    check(list(chain.from_iterable(item for item in values if item is not None)))


def _refuse(expected: str, kept: type | None, changes: Any, values: Sequence[Any]) -> None:
    """Refuse the values that the column `changes`, a function or classes. It changes no value of the class `kept`, so
    these cost next to nothing."""
    if set(map(type, values)) <= {kept, types.NoneType}:
        return
    for value in values:
        if value is not None and (changes(value) if callable(changes) else isinstance(value, changes)):
            raise TypeError(f"expected {expected}, got {value}")


def _refuse_some_zones(values: Sequence[Any]) -> None:
    _refuse("datetime", datetime, _NUMBERS, values)
    if len({getattr(item, "tzinfo", None) is None for item in values if item is not None}) > 1:
        raise TypeError("expected times that all have a zone, or none, got both")


class Rows(typing.NamedTuple):
    """The rows of a table as columns of Python objects; None for a column that was not requested."""

    keys: list[Any] | None
    messages: list[Any]
    timestamps: list[int] | None
    inputs: list[int] | None


def rows_of(table: Any, *, key: str | None, message: str | None, timestamp: str | None, inputs: str | None) -> Rows:
    """The rows of a Table or RecordBatch, or of a frame of pandas or polars. Each other argument names a column.

    Without `message` a message is the dict of its row, without the columns `timestamp` and `inputs`. Raises TypeError
    for a value that is not a table, KeyError for a column that it does not have, and ValueError, without `message`, for
    two columns of one name.
    """
    wanted = [name for name in (key, message, timestamp, inputs) if name is not None]
    table = _in_microseconds(_table_of(table))
    missing = [name for name in wanted if name not in table.column_names]
    if missing:
        raise KeyError(f"column {missing[0]!r}: the table has {', '.join(table.column_names)}")

    def column(name: str | None) -> list[Any] | None:
        return None if name is None else table[name].to_pylist()

    times = None if timestamp is None else _milliseconds(timestamp, table[timestamp])
    messages = column(message)
    if messages is None:
        for name, count in Counter(table.column_names).most_common(1):
            if count > 1:
                raise ValueError(f"column {name!r}: expected one of this name, the table has {count}")
        about = [name for name in (timestamp, inputs) if name is not None]
        messages = table.drop_columns(about).to_pylist() if about else table.to_pylist()
    return Rows(column(key), messages, None if times is None else times.to_pylist(), column(inputs))


def _milliseconds(name: str, column: Any) -> Any:
    """The times of a column in whole milliseconds: finer parts are cut off. Whole numbers stay."""
    pa = pyarrow()
    expected = f"column {name!r}: expected times or whole milliseconds, got {column.type}"
    if pa.types.is_duration(column.type) or pa.types.is_time(column.type):
        raise TypeError(expected)  # pyarrow would cast it to the number of its units
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    try:
        return column.cast("int64")
    except pa.ArrowException as cause:
        raise TypeError(f"{expected} ({cause})") from cause


def _in_microseconds(table: Any) -> Any:
    """The table with the times that Python has: parts finer than microseconds are cut off, as from frames of
    pandas."""
    pa = pyarrow()
    for place, field in enumerate(table.schema):
        kind, wanted = field.type, None
        if pa.types.is_timestamp(kind) and kind.unit == "ns":
            wanted = pa.timestamp("us", kind.tz)
        elif pa.types.is_duration(kind) and kind.unit == "ns":
            wanted = pa.duration("us")
        elif kind == pa.time64("ns"):
            wanted = pa.time64("us")
        if wanted is not None:
            table = table.set_column(place, field.name, table.column(place).cast(wanted, safe=False))
    return table


def _table_of(table: Any) -> Any:
    """The table of pyarrow. The named levels of the index of a frame of pandas are columns: `groupby` and `pivot` make
    an index of columns. A level without a name only numbers the rows."""
    pa = pyarrow()
    if isinstance(table, pa.Table):
        return table
    if isinstance(table, pa.RecordBatch):
        return pa.Table.from_batches([table])
    if hasattr(table, "to_arrow"):  # polars
        return _table_of(table.to_arrow())
    if type(table).__module__.partition(".")[0] == "pandas":
        result = pa.Table.from_pandas(table, preserve_index=True)
        return result.drop_columns([name for name in result.column_names if name.startswith("__index_level_")])
    raise TypeError(
        f"expected a pyarrow Table or RecordBatch, or a DataFrame of pandas or polars, got {type(table).__name__}"
    )
