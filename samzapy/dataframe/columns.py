"""Converts between the values of serdes and the columns of a frame, without guessing types or truncating values."""

from __future__ import annotations

import struct
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timezone
from decimal import Context, Decimal, InvalidOperation
from math import inf
from typing import Any, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import types as sql
from pyspark.sql.functions import udf

from samzapy.api.serde import Serde
from samzapy.errors import ConfigError, SerdeError
from samzapy.serializers import (
    BytesSerde,
    DoubleSerde,
    IntegerSerde,
    LongSerde,
    StringSerde,
    UUIDSerde,
    as_json,
    from_json,
)

#: From an object to the Spark value; None stays None and is not converted.
Conversion = Callable[[Any], Any]

_ALLOWED = (
    "string, boolean, binary, tinyint, smallint, int, bigint, float, double, decimal, date, timestamp, timestamp_ntz, "
    "array, map, struct"
)


def conversion(requested: sql.DataType) -> Conversion:
    """The conversion to that type: of dicts to structs and maps, of lists to arrays, of ISO 8601 text to dates and
    times.

    A struct takes the fields that it names; other entries of a dict are left out, and missing ones are null. The
    conversion raises SerdeError, which names the place in the value and its content. Raises ConfigError for a type
    without a conversion.
    """
    make = _MAKERS.get(type(requested))
    if make is not None:
        return make(requested)
    raise ConfigError.of("schema", requested.simpleString(), f"expected a type made of {_ALLOWED}")


def _refused(requested: sql.DataType, value: object) -> SerdeError:
    return SerdeError(f": expected {requested.simpleString()}, got {type(value).__name__} {value!r:.100}")


def _unchanged(fits: Callable[[Any], bool]) -> Callable[[sql.DataType], Conversion]:
    """Accepts the values that fit, as they are."""

    def make(requested: sql.DataType) -> Conversion:
        def convert(value: Any) -> Any:
            if fits(value):
                return value
            raise _refused(requested, value)

        return convert

    return make


def _instances(*kinds: type) -> Callable[[sql.DataType], Conversion]:
    return _unchanged(lambda value: isinstance(value, kinds))


def _whole(bits: int) -> Callable[[sql.DataType], Conversion]:
    limit = 1 << bits - 1
    return _unchanged(lambda value: type(value) is int and -limit <= value < limit)


#: Of 32 bits.
_LARGEST_FLOAT = (2 - 2**-23) * 2.0**127


def _fraction(requested: sql.DataType) -> Conversion:
    short = isinstance(requested, sql.FloatType)
    largest = _LARGEST_FLOAT if short else sys.float_info.max
    stored = struct.Struct("f" if short else "d")

    def convert(value: Any) -> Any:
        if type(value) is float and not largest < abs(value) < inf:
            return value
        # A type of fractions that does not hold a whole number exactly would change it.
        if type(value) is int and abs(value) <= largest and stored.unpack(stored.pack(value))[0] == value:
            return float(value)
        raise _refused(requested, value)

    return convert


#: Spark has decimals of 38 digits; the context of a thread rounds to 28.
_DIGITS = Context(prec=2 * 38)


def _decimal(requested: sql.DecimalType) -> Conversion:
    def convert(value: Any) -> Any:
        if isinstance(value, (int, float, str, Decimal)) and not isinstance(value, bool):
            try:
                exact = Decimal(str(value))
                fits = exact.quantize(Decimal(1).scaleb(-requested.scale), context=_DIGITS)
            except InvalidOperation:
                raise _refused(requested, value) from None
            if fits == exact and len(fits.as_tuple().digits) <= requested.precision:
                return fits
        raise _refused(requested, value)

    return convert


def _time(requested: sql.DataType) -> Conversion:
    def convert(value: Any) -> Any:
        result = value
        try:
            if isinstance(value, str):
                result = (date if isinstance(requested, sql.DateType) else datetime).fromisoformat(
                    value.replace("Z", "+00:00")
                )
        except ValueError:
            raise _refused(requested, value) from None
        if isinstance(requested, sql.DateType) and isinstance(result, date) and not isinstance(result, datetime):
            return result
        if isinstance(result, datetime) and not isinstance(requested, sql.DateType):
            local = isinstance(requested, sql.TimestampNTZType)
            if (result.tzinfo is None) == local:
                return result
            if not local:
                return result.replace(tzinfo=timezone.utc)
        raise _refused(requested, value)

    return convert


def _array(requested: sql.ArrayType) -> Conversion:
    element = _at(requested.elementType, nullable=requested.containsNull)

    def convert(value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            raise _refused(requested, value)
        return [element(f"[{place}]", item) for place, item in enumerate(value)]

    return convert


def _map(requested: sql.MapType) -> Conversion:
    key = _at(requested.keyType, nullable=False)
    item = _at(requested.valueType, nullable=requested.valueContainsNull)

    def convert(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _refused(requested, value)
        return {key(f"[{name!r}]", name): item(f"[{name!r}]", held) for name, held in value.items()}

    return convert


def _struct(requested: sql.StructType) -> Conversion:
    fields = [(field.name, _at(field.dataType, nullable=field.nullable)) for field in requested.fields]

    def convert(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _refused(requested, value)
        return {name: field(f".{name}", value.get(name)) for name, field in fields}

    return convert


def _at(requested: sql.DataType, *, nullable: bool) -> Callable[[str, Any], Any]:
    """The conversion of a part; its errors begin with the place of the part."""
    convert = conversion(requested)

    def part(place: str, value: Any) -> Any:
        if value is None:
            if nullable:
                return None
            raise SerdeError(f"{place}: expected {requested.simpleString()}, got none")
        try:
            return convert(value)
        except SerdeError as cause:
            raise SerdeError(f"{place}{cause}") from None

    return part


_MAKERS: dict[type[sql.DataType], Callable[[Any], Conversion]] = {
    sql.StringType: _instances(str),
    sql.BooleanType: _instances(bool),
    sql.BinaryType: _instances(bytes, bytearray),
    sql.ByteType: _whole(8),
    sql.ShortType: _whole(16),
    sql.IntegerType: _whole(32),
    sql.LongType: _whole(64),
    sql.FloatType: _fraction,
    sql.DoubleType: _fraction,
    sql.DecimalType: _decimal,
    sql.DateType: _time,
    sql.TimestampType: _time,
    sql.TimestampNTZType: _time,
    sql.ArrayType: _array,
    sql.MapType: _map,
    sql.StructType: _struct,
}


WHOLE = (sql.ByteType, sql.ShortType, sql.IntegerType, sql.LongType)


class _Plain(NamedTuple):
    """The column of a serde with one kind of object, and the columns that it accepts."""

    serde: type[Serde]
    column: sql.DataType
    accepted: tuple[type[sql.DataType], ...]


#: All other serdes are structured.
_PLAIN = (
    _Plain(StringSerde, sql.StringType(), (sql.StringType,)),
    _Plain(LongSerde, sql.LongType(), WHOLE),
    _Plain(IntegerSerde, sql.IntegerType(), WHOLE),
    _Plain(DoubleSerde, sql.DoubleType(), (sql.FloatType, sql.DoubleType)),
    _Plain(BytesSerde, sql.BinaryType(), (sql.BinaryType,)),
    _Plain(UUIDSerde, sql.StringType(), (sql.StringType,)),
)


def _plain_of(serde: Serde) -> _Plain | None:
    return next((plain for plain in _PLAIN if isinstance(serde, plain.serde)), None)


class ReadColumn(NamedTuple):
    """A column's type, and the function from a serde's bytes to its values; raises SerdeError, ValueError or
    TypeError."""

    type: sql.DataType
    read: Callable[[bytes], Any]


def parse_schema(what: str, requested: str | sql.DataType | None) -> sql.DataType | None:
    """A type as given: DDL (`a int, b string`, `map<string,int>`), a DataType, or None. Raises ConfigError naming
    `what`."""
    if requested is None or isinstance(requested, sql.DataType):
        return requested
    try:
        # `DataType.fromDDL` is newer than Spark 3.5, and reads the text in this way.
        return udf(_plain_value, requested).returnType
    except PySparkException as cause:
        reason = " ".join(str(cause).split())[:200]
        problem = f"expected a StructType, another DataType, or DDL like 'a int, b array<string>' ({reason})"
        raise ConfigError.of(what, requested, problem) from cause


def read_column(what: str, serde: Serde, requested: sql.DataType | None) -> ReadColumn:
    """The column of a serde's objects. Structured objects get the type `requested`, or become JSON text for None.

    Raises ConfigError, naming `what`, for an impossible type.
    """
    plain = _plain_of(serde)
    if plain is None:
        if requested is None:
            return ReadColumn(sql.StringType(), _as_json_text(serde))
        return ReadColumn(requested, _converted(serde, requested))
    if requested not in {None, plain.column}:
        problem = f"the serde makes {plain.column.simpleString()}; leave the schema out"
        raise ConfigError.of(what, requested.simpleString(), problem)
    if isinstance(serde, UUIDSerde):
        return ReadColumn(plain.column, lambda data: str(serde.from_bytes(data)))
    return ReadColumn(plain.column, serde.from_bytes)


def _as_json_text(serde: Serde) -> Callable[[bytes], str]:
    def of_json(data: bytes) -> str:
        serde.from_bytes(data)
        return data.decode()

    return of_json if serde.from_bytes is from_json else lambda data: as_json(serde.from_bytes(data))


def _converted(serde: Serde, requested: sql.DataType) -> Callable[[bytes], Any]:
    convert, from_bytes = conversion(requested), serde.from_bytes

    def read(data: bytes) -> Any:
        value = from_bytes(data)
        if value is None:
            return None
        try:
            return convert(value)
        except SerdeError as cause:
            raise SerdeError(f"at {cause}".replace("at : ", "", 1)) from None

    return read


def written(what: str, serde: Serde, kind: sql.DataType) -> Callable[[Any], Any]:
    """The function from a column's values to the serde's objects. Structured objects come from a structured column, or
    from a string column as JSON text. Raises ConfigError, naming `what`, for a column that the serde does not take."""
    plain = _plain_of(serde)
    if plain is None:
        return _from_json_text if isinstance(kind, sql.StringType) else _object_of(kind)
    if not isinstance(kind, plain.accepted):
        allowed = " or ".join(kind().simpleString() for kind in plain.accepted)
        raise ConfigError.of(what, kind.simpleString(), f"must be {allowed} for its serde")
    return uuid.UUID if plain.serde is UUIDSerde else _plain_value


def _object_of(kind: sql.DataType) -> Conversion:
    """The function from the values of a column to plain objects: dicts, lists and bytes. Spark gives the instants of
    `timestamp` as times of this machine, without a zone: they become times of UTC, so that a reader elsewhere finds the
    same instants."""
    if isinstance(kind, sql.ArrayType):
        item = _object_of(kind.elementType)
        return lambda value: None if value is None else list(map(item, value))
    if isinstance(kind, sql.MapType):
        key, held = _object_of(kind.keyType), _object_of(kind.valueType)
        return lambda value: None if value is None else {key(name): held(part) for name, part in value.items()}
    if isinstance(kind, sql.StructType):
        return _fields_of([(field.name, _object_of(field.dataType)) for field in kind.fields])
    return _in_utc if isinstance(kind, sql.TimestampType) else _plain_value


def _fields_of(fields: Sequence[tuple[str, Conversion]]) -> Conversion:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        return {name: to_object(held) for (name, to_object), held in zip(fields, value, strict=True)}

    return convert


def _in_utc(value: Any) -> Any:
    return value.astimezone(timezone.utc) if isinstance(value, datetime) else value


def _plain_value(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value


def _from_json_text(text: str) -> Any:
    try:
        return from_json(text)
    except (ValueError, RecursionError) as cause:
        raise SerdeError(f"a string column is read as JSON text, got {text!r:.100} ({cause})") from None
