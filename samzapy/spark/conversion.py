"""What serdes give, as values of a Spark type that somebody asked for; nothing is guessed, nothing is cut off."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, timezone
from decimal import Decimal, InvalidOperation
from typing import Any

from pyspark.sql import types as sql

from samzapy.errors import ConfigError, ConfigProblem, SerdeError

#: From an object to the Spark value; None stays None and is not given to it.
Conversion = Callable[[Any], Any]

_ALLOWED = (
    "string, boolean, binary, tinyint, smallint, int, bigint, float, double, decimal, date, timestamp, timestamp_ntz, "
    "array, map, struct"
)


def conversion(wanted: sql.DataType) -> Conversion:
    """The conversion to that type: of dicts to structs and maps, of lists to arrays, of ISO 8601 text to dates and times.

    A struct takes the fields it names; what else a dict holds is left out, and what it lacks is null. It raises SerdeError
    that says where in the value what was found. Raises ConfigError for a type there is no conversion to.
    """
    make = _MAKERS.get(type(wanted))
    if make is not None:
        return make(wanted)
    raise ConfigError([ConfigProblem("schema", wanted.simpleString(), f"expected a type made of {_ALLOWED}")])


def _refused(wanted: sql.DataType, value: object) -> SerdeError:
    return SerdeError(f": expected {wanted.simpleString()}, got {type(value).__name__} {value!r:.100}")


def _simple(*kinds: type) -> Callable[[Any], Conversion]:
    return lambda wanted: _instance(wanted, kinds)


def _instance(wanted: sql.DataType, kinds: tuple[type, ...]) -> Conversion:
    def convert(value: Any) -> Any:
        if isinstance(value, kinds):
            return value
        raise _refused(wanted, value)

    return convert


def _whole(bits: int) -> Callable[[Any], Conversion]:
    return lambda wanted: _within(wanted, 1 << bits - 1)


def _within(wanted: sql.DataType, limit: int) -> Conversion:
    def convert(value: Any) -> Any:
        if type(value) is int and -limit <= value < limit:
            return value
        raise _refused(wanted, value)

    return convert


def _fraction(wanted: sql.DataType) -> Conversion:
    def convert(value: Any) -> Any:
        if type(value) in {float, int}:
            return float(value)
        raise _refused(wanted, value)

    return convert


def _decimal(wanted: sql.DecimalType) -> Conversion:
    def convert(value: Any) -> Any:
        if isinstance(value, (int, float, str, Decimal)) and not isinstance(value, bool):
            try:
                exact = Decimal(str(value))
                fits = exact.quantize(Decimal(1).scaleb(-wanted.scale))
            except InvalidOperation:
                raise _refused(wanted, value) from None
            if fits == exact and len(fits.as_tuple().digits) <= wanted.precision:
                return fits
        raise _refused(wanted, value)

    return convert


def _time(wanted: sql.DataType) -> Conversion:
    def convert(value: Any) -> Any:
        found = value
        try:
            if isinstance(value, str):
                found = (date if isinstance(wanted, sql.DateType) else datetime).fromisoformat(
                    value.replace("Z", "+00:00")
                )
        except ValueError:
            raise _refused(wanted, value) from None
        if isinstance(wanted, sql.DateType) and isinstance(found, date) and not isinstance(found, datetime):
            return found
        if isinstance(found, datetime) and not isinstance(wanted, sql.DateType):
            local = isinstance(wanted, sql.TimestampNTZType)
            if (found.tzinfo is None) == local:
                return found
            if not local:
                return found.replace(tzinfo=timezone.utc)
        raise _refused(wanted, value)

    return convert


def _array(wanted: sql.ArrayType) -> Conversion:
    element = _at(wanted.elementType, nullable=wanted.containsNull)

    def convert(value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            raise _refused(wanted, value)
        return [element(f"[{place}]", item) for place, item in enumerate(value)]

    return convert


def _map(wanted: sql.MapType) -> Conversion:
    key = _at(wanted.keyType, nullable=False)
    item = _at(wanted.valueType, nullable=wanted.valueContainsNull)

    def convert(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _refused(wanted, value)
        return {key(f"[{name!r}]", name): item(f"[{name!r}]", held) for name, held in value.items()}

    return convert


def _struct(wanted: sql.StructType) -> Conversion:
    fields = [(field.name, _at(field.dataType, nullable=field.nullable)) for field in wanted.fields]

    def convert(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _refused(wanted, value)
        return {name: field(f".{name}", value.get(name)) for name, field in fields}

    return convert


def _at(wanted: sql.DataType, *, nullable: bool) -> Callable[[str, Any], Any]:
    """A part's conversion, whose errors begin with where the part is."""
    convert = conversion(wanted)

    def part(place: str, value: Any) -> Any:
        if value is None:
            if nullable:
                return None
            raise SerdeError(f"{place}: expected {wanted.simpleString()}, got none")
        try:
            return convert(value)
        except SerdeError as cause:
            raise SerdeError(f"{place}{cause}") from None

    return part


_MAKERS: dict[type[sql.DataType], Callable[[Any], Conversion]] = {
    sql.StringType: _simple(str),
    sql.BooleanType: _simple(bool),
    sql.BinaryType: _simple(bytes, bytearray),
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
