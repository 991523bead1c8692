"""What the avro serde refuses because the writer would change it, and what it writes."""

import warnings
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jobs import schema_job as jobs

from samzapy.errors import SerdeError
from samzapy.serializers import serde_registry

NUMBERS = count()
AT = datetime(2024, 1, 1, 12, tzinfo=timezone.utc)
INNER = {"type": "record", "name": "Inner", "fields": [{"name": "n", "type": "long"}]}
TIMESTAMP = {"type": "long", "logicalType": "timestamp-millis"}
LOCAL = {"type": "long", "logicalType": "local-timestamp-millis"}
DATE = {"type": "int", "logicalType": "date"}
TIME = {"type": "int", "logicalType": "time-millis"}


def serde(kind, validate="true"):
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}
    keys = jobs.registry_keys("avro", f"mock://values-{next(NUMBERS)}", schema, auto_register="true", validate=validate)
    return serde_registry(keys)["avro"].at("out", "value")


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("long", 1.9, "$.a: expected long, got float 1.9"),
        ("long", True, "$.a: expected long, got bool True"),
        ("int", 2**31, "$.a: expected int, got int 2147483648"),
        ("int", 1.0, "$.a: expected int, got float 1.0"),
        ("boolean", "no", "$.a: expected boolean, got str 'no'"),
        ("boolean", None, "$.a: expected boolean, got NoneType None"),
        ("float", 1e300, "$.a: expected float, got float 1e+300"),
        ("double", "1.5", "$.a: expected double, got str '1.5'"),
        ("double", 2**53 + 1, "$.a: expected double, got int 9007199254740993"),
        ("null", 1, "$.a: expected null, got int 1"),
        (array("string"), "abc", "$.a: expected array, got str 'abc'"),
        (array("long"), b"ab", "$.a: expected array, got bytes b'ab'"),
        (array("string"), {"x": 1}, "$.a: expected array, got dict {'x': 1}"),
        (array("long"), [1, 2.5], "$.a[1]: expected long, got float 2.5"),
        ({"type": "map", "values": "boolean"}, {"x": 1}, "$.a['x']: expected boolean, got int 1"),
        (INNER, {"n": 1.5}, "$.a.n: expected long, got float 1.5"),
        (["null", "float"], -1e39, "$.a: expected float, got float -1e+39"),
        (["null", "double", "long"], 2**60 + 1, "$.a: expected double, got int 1152921504606846977"),
        (["null", array("float")], [1e39], "$.a[0]: expected float, got float 1e+39"),
        (["null", INNER], ("Inner", {"n": 1.5}), "$.a.n: expected long, got float 1.5"),
        (
            ["null", {**INNER, "fields": [{"name": "f", "type": "float"}]}],
            {"f": 1e39},
            "$.a.f: expected float, got float 1e+39",
        ),
        (
            TIMESTAMP,
            AT.replace(tzinfo=None),
            "$.a: expected a datetime with a time zone, got datetime datetime.datetime(",
        ),
        (["null", TIMESTAMP], AT.replace(tzinfo=None), "$.a: expected a datetime with a time zone, got datetime "),
        (DATE, AT.replace(tzinfo=None), "$.a: expected a date, got datetime "),
        (DATE, AT.replace(hour=0), "$.a: expected a date, got datetime "),
        (["null", DATE], AT, "$.a: expected a date, got datetime "),
        (["null", DATE, TIMESTAMP], AT, "$.a: expected a date, got datetime "),
        (
            ["null", TIME, TIMESTAMP],
            AT.replace(tzinfo=None),
            "$.a: expected a datetime with a time zone, got datetime ",
        ),
        (LOCAL, AT, "$.a: expected a datetime without a time zone, got datetime "),
        (["null", LOCAL], AT, "$.a: expected a datetime without a time zone, got datetime "),
        (TIME, AT.timetz(), "$.a: expected a time without a time zone, got time datetime.time("),
        ({"type": "long", "logicalType": "time-micros"}, AT.timetz(), "$.a: expected a time without a time zone, got "),
        (["null", TIMESTAMP, TIME], AT.timetz(), "$.a: expected a time without a time zone, got time "),
        (TIMESTAMP, 1.5, "$.a: expected long, got float 1.5"),
        (TIMESTAMP, Decimal("1.5"), "$.a: expected long, got Decimal Decimal('1.5')"),
        ("long", Decimal("5.5"), "$.a: expected long, got Decimal Decimal('5.5')"),
        ("int", Decimal(2**31), "$.a: expected int, got Decimal Decimal('2147483648')"),
        ("int", Fraction(1, 3), "$.a: expected int, got Fraction Fraction(1, 3)"),
        ("double", Decimal(2**53 + 1), "$.a: expected double, got Decimal Decimal('9007199254740993')"),
        ("double", Decimal("1e400"), "$.a: expected double, got Decimal Decimal('1E+400')"),
        ("double", 10**400, "$.a: expected double, got int 1000"),
        ("double", np.int64(2**53 + 1), "$.a: expected double, got int64 "),
        ("float", Decimal("1e39"), "$.a: expected float, got Decimal Decimal('1E+39')"),
        ("float", 10**400, "$.a: expected float, got int 1000"),
        ("boolean", np.array([True]), "$.a: expected boolean, got ndarray array([ True])"),
        ("boolean", np.int64(1), "$.a: expected boolean, got int64 "),
    ],
)
def test_a_value_that_the_writer_would_change_is_refused_with_its_path(kind, value, message):
    with pytest.raises(SerdeError) as refused:
        serde(kind).to_bytes({"a": value})
    assert str(refused.value).startswith(f"avro serde: {message}")


@pytest.mark.parametrize(
    ("kind", "value", "back"),
    [
        ("long", 2**63 - 1, 2**63 - 1),
        ("int", -(2**31), -(2**31)),
        ("double", 2**60, 2.0**60),
        ("float", float("-inf"), float("-inf")),
        ("float", 3, 3.0),
        (array("long"), (1, 2), [1, 2]),
        (["null", "float", "double"], 1e300, 1e300),
        (["null", "boolean", "long"], True, True),
        (["null", "string", array("string")], "abc", "abc"),
        (["null", TIMESTAMP], AT, AT),
        (TIMESTAMP, 0, datetime(1970, 1, 1, tzinfo=timezone.utc)),
        (TIMESTAMP, AT.astimezone(timezone(timedelta(hours=2))), AT),
        (LOCAL, AT.replace(tzinfo=None), AT.replace(tzinfo=None)),
        (DATE, AT.date(), AT.date()),
        (DATE, datetime(2024, 1, 1), AT.date()),  # noqa: DTZ001
        (["null", DATE, array("float")], AT.date(), AT.date()),
        (["null", TIME, DATE, array("float")], AT.time(), AT.time()),
        (["null", TIME, TIMESTAMP], AT, AT),
        (TIME, AT.time(), AT.time()),
        ("boolean", np.True_, True),
        ("boolean", np.array(True), True),
        ("long", np.int32(5), 5),
        ("long", Decimal(5), 5),
        ("long", Decimal("5.00"), 5),
        ("int", Fraction(6, 2), 3),
        ("double", Decimal("0.5"), 0.5),
        ("double", Decimal("0.1"), 0.1),
        ("double", np.float32(0.5), 0.5),
        ("float", Decimal("0.5"), 0.5),
        ("float", Decimal("-Infinity"), float("-inf")),
        ("float", np.float32(0.5), 0.5),
        (array("long"), np.array([1, 2]), [1, 2]),
        (TIMESTAMP, Decimal(0), datetime(1970, 1, 1, tzinfo=timezone.utc)),
    ],
)
def test_a_value_that_fits_is_written(kind, value, back):
    made = serde(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert made.from_bytes(made.to_bytes({"a": value})) == {"a": back}


@pytest.mark.parametrize("items", ["long", "string", INNER])
@pytest.mark.parametrize("around", [lambda kind: kind, lambda kind: {"type": "map", "values": kind}])
@pytest.mark.parametrize("made", [iter, lambda parts: (part for part in parts), lambda parts: map(str, parts)])
def test_an_iterator_is_no_array_as_it_would_be_empty_after_one_look(items, around, made):
    kind, value = around(array(items)), made([])
    with pytest.raises(SerdeError, match="expected array, got "):
        serde(kind).to_bytes({"a": value if kind == array(items) else {"x": value}})


def test_an_iterator_is_written_if_nothing_is_checked():
    made = serde(array("long"), validate="false")
    assert made.from_bytes(made.to_bytes({"a": map(int, ["1", "2"])})) == {"a": [1, 2]}


def test_a_missing_field_has_its_default():
    kind = {**INNER, "fields": [{"name": "ok", "type": "boolean", "default": True}]}
    made = serde(kind)
    assert made.from_bytes(made.to_bytes({"a": {}})) == {"a": {"ok": True}}


def test_a_record_that_holds_itself_is_looked_at_to_its_end():
    node = {
        "type": "record",
        "name": "Node",
        "fields": [{"name": "n", "type": "long"}, {"name": "next", "type": ["null", "Node"]}],
    }
    made = serde(node)
    fits = {"a": {"n": 1, "next": {"n": 2, "next": None}}}
    assert made.from_bytes(made.to_bytes(fits)) == fits
    with pytest.raises(SerdeError, match=r"\$\.a\.next\.n: expected long, got float 2\.5"):
        made.to_bytes({"a": {"n": 1, "next": ("Node", {"n": 2.5, "next": None})}})


def test_without_validation_a_value_is_written_as_it_can_be():
    made = serde("long", validate="false")
    assert made.from_bytes(made.to_bytes({"a": 1.9})) == {"a": 1}


@pytest.mark.parametrize(
    "kind", ["long", "int", "double", "boolean", array("long"), ["null", "double", "long", array("string")]]
)
def test_whatever_is_written_comes_back_equal(kind):
    made = serde(kind)

    @given(
        st.integers()
        | st.floats(allow_nan=False)
        | st.booleans()
        | st.text()
        | st.lists(st.integers() | st.text(), max_size=3)
    )
    def check(value):
        try:
            data = made.to_bytes({"a": value})
        except (SerdeError, ValueError, TypeError, OverflowError):
            return
        assert made.from_bytes(data) == {"a": value}

    check()
