"""What serdes give, as values of Spark types, and back; without a Spark."""

import json
import math
import time
import uuid
from datetime import date, datetime, timezone
from decimal import Decimal

import pytest
from pyspark.sql import Row
from pyspark.sql import types as sql

from samzapy.dataframe.columns import conversion, read_column, written
from samzapy.errors import ConfigError, SerdeError
from samzapy.serializers import serde_registry

SERDES = serde_registry({})
DELAYS = sql.StructType(
    [
        sql.StructField("flights", sql.LongType(), nullable=False),
        sql.StructField("delay", sql.ArrayType(sql.IntegerType(), containsNull=False)),
        sql.StructField("models", sql.MapType(sql.StringType(), sql.DoubleType())),
    ]
)


@pytest.mark.parametrize(
    ("wanted", "value", "expected"),
    [
        (sql.StringType(), "ä", "ä"),
        (sql.BooleanType(), True, True),
        (sql.BinaryType(), b"\0", b"\0"),
        (sql.ByteType(), -128, -128),
        (sql.ShortType(), 32_767, 32_767),
        (sql.IntegerType(), -(2**31), -(2**31)),
        (sql.LongType(), 2**63 - 1, 2**63 - 1),
        (sql.DoubleType(), 3, 3.0),
        (sql.FloatType(), 0.5, 0.5),
        (sql.FloatType(), -(2**24), -(2.0**24)),
        (sql.FloatType(), 2**40, 2.0**40),
        (sql.DecimalType(5, 2), 1.5, Decimal("1.50")),
        (sql.DoubleType(), 2**60, 2.0**60),
        (sql.FloatType(), math.inf, math.inf),
        (sql.DecimalType(5, 2), "-999.99", Decimal("-999.99")),
        (sql.DecimalType(38, 9), f"{'8' * 29}.{'7' * 9}", Decimal(f"{'8' * 29}.{'7' * 9}")),
        (sql.DateType(), "2013-01-31", date(2013, 1, 31)),
        (sql.TimestampType(), "2013-01-31T05:00:00Z", datetime(2013, 1, 31, 5, tzinfo=timezone.utc)),
        (sql.TimestampType(), "2013-01-31T05:00:00", datetime(2013, 1, 31, 5, tzinfo=timezone.utc)),
        (sql.TimestampNTZType(), "2013-01-31T05:00:00", datetime(2013, 1, 31, 5)),  # noqa: DTZ001 - it has none
        (sql.ArrayType(sql.LongType()), [1, None], [1, None]),
        (sql.MapType(sql.StringType(), sql.LongType()), {"a": 1, "b": None}, {"a": 1, "b": None}),
        (DELAYS, {"flights": 1, "delay": [2], "more": 3}, {"flights": 1, "delay": [2], "models": None}),
    ],
)
def test_what_fits_a_type_is_converted_to_it(wanted, value, expected):
    found = conversion(wanted)(value)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("wanted", "value", "message"),
    [
        (sql.LongType(), 1.0, ": expected bigint, got float 1.0"),
        (sql.LongType(), True, ": expected bigint, got bool True"),
        (sql.IntegerType(), 2**31, ": expected int, got int 2147483648"),
        (sql.StringType(), 1, ": expected string, got int 1"),
        (sql.DoubleType(), "1", ": expected double, got str '1'"),
        (sql.DoubleType(), 2**53 + 1, ": expected double, got int 9007199254740993"),
        (sql.DoubleType(), 2**1024, f": expected double, got int {str(2**1024)[:100]}"),
        (sql.FloatType(), 1e39, ": expected float, got float 1e+39"),
        (sql.FloatType(), 2**24 + 1, ": expected float, got int 16777217"),
        (sql.DecimalType(38, 9), "8" * 30, f": expected decimal(38,9), got str '{'8' * 30}'"),
        (sql.DecimalType(3, 1), "1.25", ": expected decimal(3,1), got str '1.25'"),
        (sql.DecimalType(3, 1), "100", ": expected decimal(3,1), got str '100'"),
        (sql.DateType(), "soon", ": expected date, got str 'soon'"),
        (sql.TimestampNTZType(), "2013-01-31T05:00:00Z", ": expected timestamp_ntz, got str '2013-01-31T05:00:00Z'"),
        (DELAYS, [1], f": expected {DELAYS.simpleString()}, got list [1]"),
        (DELAYS, {}, ".flights: expected bigint, got none"),
        (DELAYS, {"flights": 1, "delay": [1, "x"]}, ".delay[1]: expected int, got str 'x'"),
        (DELAYS, {"flights": 1, "models": {"A320": "x"}}, ".models['A320']: expected double, got str 'x'"),
    ],
)
def test_what_does_not_fit_is_refused_by_place_type_and_value(wanted, value, message):
    with pytest.raises(SerdeError) as refused:
        conversion(wanted)(value)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("serde", "value", "kind", "cell"),
    [
        ("string", "ä", sql.StringType(), "ä"),
        ("long", -1, sql.LongType(), -1),
        ("integer", 7, sql.IntegerType(), 7),
        ("double", 0.5, sql.DoubleType(), 0.5),
        ("bytes", b"\xff", sql.BinaryType(), b"\xff"),
        ("uuid", uuid.UUID(int=1), sql.StringType(), "00000000-0000-0000-0000-000000000001"),
    ],
)
def test_a_plain_serde_says_the_columns_type_and_takes_its_values_back(serde, value, kind, cell):
    column = read_column("schema", SERDES[serde], None)
    data = SERDES[serde].to_bytes(value)
    assert (column.type, column.read(data)) == (kind, cell)
    assert SERDES[serde].to_bytes(written("df.value", SERDES[serde], kind)(cell)) == data
    with pytest.raises(ConfigError, match=f"schema: the serde makes {kind.simpleString()}; leave the schema out"):
        read_column("schema", SERDES[serde], DELAYS)
    with pytest.raises(ConfigError, match=r"df.value: must be .* for its serde, got 'boolean'"):
        written("df.value", SERDES[serde], sql.BooleanType())


@pytest.mark.parametrize("serde", ["json", "msgpack"])
@pytest.mark.parametrize("value", [{"a": [1, None], "b": "ä"}, "text", 5, None])
def test_without_a_schema_a_structured_value_is_its_json_and_the_json_is_the_value_again(serde, value):
    data = SERDES[serde].to_bytes(value)
    column = read_column("schema", SERDES[serde], None)
    text = column.read(data)
    assert column.type == sql.StringType()
    assert json.loads(text) == value
    assert SERDES[serde].to_bytes(written("df.value", SERDES[serde], column.type)(text)) == data


def test_a_structured_value_becomes_a_row_of_the_schema_and_a_row_becomes_a_dict():
    serde = SERDES["json"]
    column = read_column("schema", serde, DELAYS)
    assert column.read(b'{"flights":1,"delay":[2]}') == {"flights": 1, "delay": [2], "models": None}
    assert column.read(b"null") is None
    with pytest.raises(SerdeError, match=r"^at \.delay\[0\]: expected int, got str 'x'$"):
        column.read(b'{"flights":1,"delay":["x"]}')
    with pytest.raises(SerdeError, match=r"^expected struct<.*>, got list \[\]$"):
        column.read(b"[]")
    kind = sql.StructType([*DELAYS.fields, sql.StructField("raw", sql.BinaryType())])
    row = Row(flights=1, delay=[2], models={"A": 1.5}, raw=bytearray(b"r"))
    assert written("df.value", SERDES["msgpack"], kind)(row) == row.asDict() | {"raw": b"r"}


@pytest.fixture
def far_from_utc(monkeypatch):
    """Local time is that of Kolkata."""
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_from_utc")
def test_an_instant_that_is_written_is_the_same_when_it_is_read_again():
    instant = datetime(2013, 1, 31, 5, tzinfo=timezone.utc)
    # As Spark gives it to Python.
    cell = sql.TimestampType().fromInternal(int(instant.timestamp()) * 1_000_000)
    local = datetime(2013, 1, 31, 5)  # noqa: DTZ001 - it has none
    moment, plain = sql.TimestampType(), sql.TimestampNTZType()
    for kind, given, expected in (
        (moment, cell, instant),
        (plain, local, local),
        (sql.ArrayType(moment), [cell, None], [instant, None]),
        (sql.MapType(sql.StringType(), moment), {"a": cell, "b": None}, {"a": instant, "b": None}),
        (
            sql.StructType([sql.StructField("at", moment), sql.StructField("there", plain)]),
            Row(at=cell, there=local),
            {"at": instant, "there": local},
        ),
    ):
        serde = SERDES["json"]
        data = serde.to_bytes(written("df.value", serde, kind)(given))
        assert read_column("schema", serde, kind).read(data) == expected


def test_json_that_does_not_decode_is_an_error_and_so_is_text_that_is_no_json():
    with pytest.raises(ValueError, match="truncated"):
        read_column("schema", SERDES["json"], None).read(b"{")
    with pytest.raises(SerdeError, match="a string column is read as JSON text, got 'oops'"):
        written("df.value", SERDES["json"], sql.StringType())("oops")
