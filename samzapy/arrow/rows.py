"""The rows of a table as messages."""

from __future__ import annotations

import typing
from collections import Counter
from collections.abc import Collection
from typing import Any

from samzapy.arrow.libraries import pyarrow


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
    table = _in_microseconds(_table_of(table, None if message is None else wanted))
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


def _table_of(table: Any, levels: Collection[str] | None) -> Any:
    """The table of pyarrow. Of the index of a frame of pandas it has these levels, None: all that have names."""
    pa = pyarrow()
    if isinstance(table, pa.Table):
        return table
    if isinstance(table, pa.RecordBatch):
        return pa.Table.from_batches([table])
    if hasattr(table, "to_arrow"):  # polars
        return _table_of(table.to_arrow(), levels)
    if type(table).__module__.partition(".")[0] == "pandas":
        return pa.Table.from_pandas(_with_index(table, levels), preserve_index=False)
    raise TypeError(
        f"expected a pyarrow Table or RecordBatch, or a DataFrame of pandas or polars, got {type(table).__name__}"
    )


def _with_index(frame: Any, wanted: Collection[str] | None) -> Any:
    """The frame of pandas with the named levels of its index as columns: `groupby` and `pivot` make an index of
    columns. A level without a name only numbers the rows."""
    names = list(frame.index.names)
    # Pandas itself makes two levels of one name, as in `groupby("k").rolling(2)` of a frame with the index `k`.
    numbers = {
        name: number
        for number, name in enumerate(names)
        if name is not None and name not in frame.columns and (wanted is None or str(name) in wanted)
    }
    if not numbers:
        return frame
    # A number that is also the name of a level is taken for the name.
    return frame.rename_axis(index=range(len(names))).reset_index(list(numbers.values()), names=names)
