"""Which column a serde's objects make, and how they get into it and out of it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import orjson
from pyspark.errors import PySparkException
from pyspark.sql import Row
from pyspark.sql import types as sql

from samzapy.api.serde import Serde
from samzapy.errors import ConfigError, ConfigProblem, SerdeError
from samzapy.serializers import (
    BytesSerde,
    DoubleSerde,
    IntegerSerde,
    JsonSerde,
    LongSerde,
    StringSerde,
    UUIDSerde,
    as_json,
)
from samzapy.spark.conversion import conversion

#: What a serde of one kind of object makes; whatever is not here is structured.
_PLAIN: tuple[tuple[type[Serde], sql.DataType], ...] = (
    (StringSerde, sql.StringType()),
    (LongSerde, sql.LongType()),
    (IntegerSerde, sql.IntegerType()),
    (DoubleSerde, sql.DoubleType()),
    (BytesSerde, sql.BinaryType()),
    (UUIDSerde, sql.StringType()),
)
_WHOLE = (sql.ByteType, sql.ShortType, sql.IntegerType, sql.LongType)
#: What a column may be for such a serde to take it.
_TAKEN: dict[type[Serde], tuple[type[sql.DataType], ...]] = {
    StringSerde: (sql.StringType,),
    LongSerde: _WHOLE,
    IntegerSerde: _WHOLE,
    DoubleSerde: (sql.FloatType, sql.DoubleType),
    BytesSerde: (sql.BinaryType,),
    UUIDSerde: (sql.StringType,),
}


class ReadColumn(NamedTuple):
    """A column's type, and what makes its values of a serde's bytes; it raises SerdeError, ValueError or TypeError."""

    type: sql.DataType
    read: Callable[[bytes], Any]


def parse_schema(what: str, wanted: str | sql.DataType | None) -> sql.DataType | None:
    """A type as given: DDL (`a int, b string`, `map<string,int>`), a DataType, or None. Raises ConfigError naming `what`."""
    if wanted is None or isinstance(wanted, sql.DataType):
        return wanted
    try:
        return sql.DataType.fromDDL(wanted)
    except PySparkException as cause:
        reason = " ".join(str(cause).split())[:200]
        problem = f"expected a StructType, another DataType, or DDL like 'a int, b array<string>' ({reason})"
        raise ConfigError([ConfigProblem(what, wanted, problem)]) from cause


def read_column(what: str, serde: Serde, wanted: sql.DataType | None) -> ReadColumn:
    """The column of a serde's objects: of structured ones in the type that is wanted, or, for None, their JSON as text.

    Raises ConfigError for a type that cannot be had, naming `what`.
    """
    plain = next((made for kind, made in _PLAIN if isinstance(serde, kind)), None)
    if plain is not None:
        if wanted not in {None, plain}:
            problem = f"the serde makes {plain.simpleString()}; leave the schema out"
            raise ConfigError([ConfigProblem(what, wanted.simpleString(), problem)])
        if isinstance(serde, UUIDSerde):
            return ReadColumn(plain, lambda data: str(serde.from_bytes(data)))
        return ReadColumn(plain, serde.from_bytes)
    if wanted is None:
        return ReadColumn(sql.StringType(), _as_json_text(serde))
    return ReadColumn(wanted, _converted(serde, wanted))


def _as_json_text(serde: Serde) -> Callable[[bytes], str]:
    def of_json(data: bytes) -> str:
        serde.from_bytes(data)
        return data.decode()

    return of_json if isinstance(serde, JsonSerde) else lambda data: as_json(serde.from_bytes(data))


def _converted(serde: Serde, wanted: sql.DataType) -> Callable[[bytes], Any]:
    convert, from_bytes = conversion(wanted), serde.from_bytes

    def read(data: bytes) -> Any:
        value = from_bytes(data)
        if value is None:
            return None
        try:
            return convert(value)
        except SerdeError as cause:
            raise SerdeError(f"at {cause}".replace("at : ", "", 1)) from None

    return read


def written(what: str, serde: Serde, given: sql.DataType) -> Callable[[Any], Any]:
    """What makes the serde's objects of a column's values. Structured ones come from a structured column, or from a string
    column as JSON text. Raises ConfigError, naming `what`, for a column that the serde does not take."""
    kind = next((kind for kind, _ in _PLAIN if isinstance(serde, kind)), None)
    if kind is None:
        return _from_json_text if isinstance(given, sql.StringType) else plain_object
    if not isinstance(given, _TAKEN[kind]):
        allowed = " or ".join(taken().simpleString() for taken in _TAKEN[kind])
        raise ConfigError([ConfigProblem(what, given.simpleString(), f"must be {allowed} for its serde")])
    if kind is UUIDSerde:
        return uuid.UUID
    return plain_object


def plain_object(value: Any) -> Any:
    """A column's value as dicts, lists and bytes."""
    if isinstance(value, Row):
        return {name: plain_object(held) for name, held in zip(value.__fields__, value, strict=True)}
    if isinstance(value, dict):
        return {name: plain_object(held) for name, held in value.items()}
    if isinstance(value, list):
        return list(map(plain_object, value))
    return bytes(value) if isinstance(value, bytearray) else value


def _from_json_text(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as cause:
        raise SerdeError(f"a string column is taken for JSON text, which {text!r:.100} is not ({cause})") from None
