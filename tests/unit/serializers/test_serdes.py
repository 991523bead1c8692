"""What each serde writes, reads and refuses."""

import datetime as dt
import json
import math
import uuid
from contextlib import nullcontext

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from samzapy.errors import SerdeError
from samzapy.serializers import (
    BytesSerde,
    DoubleSerde,
    IntegerSerde,
    JsonSerde,
    JsonSerdeFactory,
    LongSerde,
    MsgpackSerde,
    StringSerde,
    UUIDSerde,
)
from samzapy.serializers.documents import as_json
from samzapy.serializers.refusals import check_numbers

UUID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
WRITTEN = [
    (StringSerde(), "grün", b"gr\xc3\xbcn"),
    (StringSerde(), "", b""),
    (IntegerSerde(), 1, b"\x00\x00\x00\x01"),
    (IntegerSerde(), -2, b"\xff\xff\xff\xfe"),
    (LongSerde(), 2**40, b"\x00\x00\x01\x00\x00\x00\x00\x00"),
    (DoubleSerde(), 1.5, b"\x3f\xf8\x00\x00\x00\x00\x00\x00"),
    (BytesSerde(), b"\x00\xff", b"\x00\xff"),
    (UUIDSerde(), UUID, bytes.fromhex("00112233445566778899aabbccddeeff")),
    (JsonSerde(), {"a": [1, 2.5, None, True, "ü"]}, '{"a":[1,2.5,null,true,"ü"]}'.encode()),
    (MsgpackSerde(), {"a": [1, b"b"], (1, (2,)): [3]}, b"\x82\xa1a\x92\x01\xc4\x01b\x92\x01\x91\x02\x91\x03"),
]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
KINDS = [
    (StringSerde(), st.text()),
    (IntegerSerde(), st.integers(-(2**31), 2**31 - 1)),
    (LongSerde(), st.integers(-(2**63), 2**63 - 1)),
    (DoubleSerde(), st.floats(allow_nan=False)),
    (BytesSerde(), st.binary()),
    (UUIDSerde(), st.uuids()),
    (JsonSerde(), JSON),
    (MsgpackSerde(), JSON),
    (MsgpackSerde(), st.dictionaries(st.integers(0, 2**64 - 1) | st.binary(), st.binary(), max_size=4)),
]


@pytest.mark.parametrize(("serde", "value", "data"), WRITTEN)
def test_a_serde_writes_and_reads_the_bytes_samza_does(serde, value, data):
    assert serde.to_bytes(value) == data
    assert serde.from_bytes(data) == value


@pytest.mark.parametrize(("serde", "values"), KINDS)
def test_what_was_written_is_read_back(serde, values):
    @given(values)
    def check(value):
        data = serde.to_bytes(value)
        back = serde.from_bytes(data)
        assert type(data) is bytes
        assert back == value
        assert type(back) is type(value)

    check()


@given(st.text(), st.text())
def test_serdes_that_keep_prefixes_do(left, right):
    serde = StringSerde()
    assert serde.keeps_prefixes
    assert serde.to_bytes(left + right).startswith(serde.to_bytes(left))


@pytest.mark.parametrize(
    ("serde", "value", "message"),
    [
        (IntegerSerde(), True, "integer serde takes an int, got bool True"),
        (IntegerSerde(), 1.0, "integer serde takes an int, got float 1.0"),
        (IntegerSerde(), "1", "integer serde takes an int, got str '1'"),
        (IntegerSerde(), 2**31, "integer serde takes -2147483648 to 2147483647, got 2147483648"),
        (
            LongSerde(),
            -(2**63) - 1,
            "long serde takes -9223372036854775808 to 9223372036854775807, got -9223372036854775809",
        ),
        (DoubleSerde(), 1, "double serde takes a float, got int 1"),
        (BytesSerde(), "text", "bytes serde takes bytes, got str 'text'"),
        (BytesSerde(), 5, "bytes serde takes bytes, got int 5"),
        (UUIDSerde(), str(UUID), f"uuid serde takes a UUID, got str '{UUID}'"),
    ],
)
def test_a_value_of_another_kind_is_refused_with_the_value(serde, value, message):
    with pytest.raises(SerdeError) as caught:
        serde.to_bytes(value)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("serde", "value", "message"),
    [
        (StringSerde(), {"x": 1}, "string serde takes a str, got dict"),
        (StringSerde(), b"a", "string serde takes a str, got bytes"),
        (StringSerde(), "\ud800", "string serde takes a str, got str ('utf-8' codec can't encode"),
        (JsonSerde(), {1, 2}, "json serde takes a value of JSON, got set"),
        (JsonSerde(), {"x": {1, 2}}, "json serde takes a value of JSON, got dict (Type is not JSON serializable: set)"),
        (JsonSerde(), {1: 2}, "json serde takes a value of JSON, got dict (Dict key must be str)"),
        (JsonSerde(), 2**64, "json serde takes a value of JSON, got int (Integer exceeds 64-bit range)"),
        (MsgpackSerde(), {1, 2}, "msgpack serde takes a value of MessagePack, got set"),
        (
            MsgpackSerde(),
            [{1}],
            "msgpack serde takes a value of MessagePack, got list (can not serialize 'set' object)",
        ),
    ],
)
def test_what_a_c_library_refuses_is_said_as_by_every_other_serde(serde, value, message):
    with pytest.raises((TypeError, ValueError, OverflowError)) as caught:
        serde.to_bytes(value)
    assert serde.refusal(value, caught.value).startswith(message)


@pytest.mark.parametrize(
    ("serde", "data", "message"),
    [
        (IntegerSerde(), b"abc", "integer serde needs 4 bytes, got 3"),
        (LongSerde(), b"", "long serde needs 8 bytes, got 0"),
        (DoubleSerde(), b"123456789", "double serde needs 8 bytes, got 9"),
        (UUIDSerde(), b"x", "uuid serde needs 16 bytes, got 1"),
    ],
)
def test_the_wrong_number_of_bytes_is_refused_with_both_numbers(serde, data, message):
    with pytest.raises(SerdeError) as caught:
        serde.from_bytes(data)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("serde", "data"),
    [
        (StringSerde(), b"\xff"),
        (JsonSerde(), b"{"),
        (JsonSerde(), b""),
        (JsonSerde(), b"\xff"),
        (MsgpackSerde(), b""),
        (MsgpackSerde(), b"\xc1"),
        (MsgpackSerde(), b"\x01\x02"),
        (MsgpackSerde(), b"\xa2\xff\xff"),
        (MsgpackSerde(), b"\x91" * 100_000 + b"\x01"),
        (MsgpackSerde(), b"\xdd\xff\xff\xff\xff"),
    ],
)
def test_bytes_that_are_not_the_serdes_own_are_a_value_error(serde, data):
    with pytest.raises(ValueError):
        serde.from_bytes(data)


def test_json_that_is_nested_too_deep_is_an_error():
    with pytest.raises(RecursionError):
        JsonSerde().from_bytes(b"[" * 100_000 + b"]" * 100_000)


@given(st.integers(-(2**200), 2**200) | st.integers(2**64 - 2, 2**64 + 2) | st.integers(-(2**63) - 2, -(2**63) + 2))
def test_json_reads_and_shows_ints_of_any_size(number):
    value = {"wei": number, "all": [number, {"n": (number, -1.5, None, "text")}], "yes": True}
    data = json.dumps(value, separators=(",", ":")).encode()
    read = JsonSerde().from_bytes(data)
    assert read == json.loads(data)
    assert type(read["wei"]) is int
    assert as_json(value) == data.decode()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"a":x}', "JSON is malformed: invalid character (byte 5)"),
        (b"[1,1e999]", "$[1]: Number out of range"),
        (b'{"a"', "Input data was truncated"),
    ],
)
def test_what_is_no_json_has_a_reason_with_its_place(data, reason):
    serde = JsonSerde()
    with pytest.raises(ValueError) as caught:
        serde.from_bytes(data)
    assert serde.misfit(caught.value) == reason


@pytest.mark.parametrize("serde", [serde for serde, *_ in WRITTEN])
def test_a_null_is_refused(serde):
    with pytest.raises((AttributeError, SerdeError, TypeError, ValueError)):
        serde.from_bytes(None)


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("serde", "value"),
    [
        (JsonSerde(), object()),
        (JsonSerde(), b"bytes"),
        (JsonSerde(), nested(100_000)),
        (MsgpackSerde(), object()),
        (MsgpackSerde(), dt.datetime(2013, 1, 1, tzinfo=dt.timezone.utc)),
        (MsgpackSerde(), 2**64),
        (MsgpackSerde(), nested(100_000)),
    ],
)
def test_an_object_that_cannot_be_said_is_an_error(serde, value):
    with pytest.raises((TypeError, ValueError, OverflowError)):
        serde.to_bytes(value)


def test_msgpack_goes_on_after_an_error():
    serde = MsgpackSerde()
    with pytest.raises(TypeError):
        serde.to_bytes([1, object()])
    assert serde.to_bytes([1]) == b"\x91\x01"


def test_json_sorts_keys_only_when_told_to():
    assert JsonSerde().to_bytes({"b": 1, "a": 2}) == b'{"b":1,"a":2}'
    sorting = JsonSerdeFactory().serde("j", {"sort.keys": "true"})
    assert sorting.to_bytes({"b": 1, "a": 2}) == b'{"a":2,"b":1}'


def test_json_writes_other_keys_as_text_only_when_told_to():
    serde = JsonSerdeFactory().serde("j", {"non.str.keys": "TRUE", "sort.keys": "false"})
    assert serde.to_bytes({1: 2}) == b'{"1":2}'


@pytest.mark.parametrize("settings", [{"sort.keys": "yes"}, {"sortkeys": "true"}])
def test_json_refuses_settings_it_does_not_know(settings):
    with pytest.raises(SerdeError, match=r"json takes non\.str\.keys and sort\.keys, true or false"):
        JsonSerdeFactory().serde("j", settings)


FLOATS = st.floats() | st.floats(width=16)
NESTED = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary(max_size=9) | FLOATS,
    lambda values: st.lists(values) | st.dictionaries(st.text(), values) | st.tuples(values, values),
    max_leaves=12,
)


def numbers_in(value: object) -> list[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [each for held in value for each in numbers_in(held)]
    return [value] if isinstance(value, float) else []


@given(NESTED)
@example([None, 0xCB7FF0, "\xcb\x7f"])  # in MessagePack these have the bytes of a NaN
@example({"a": [1.5, {"b": (math.inf,)}]})
@example([2**70, -math.nan])
def test_a_number_that_json_does_not_have_is_found_wherever_it_is(value):
    unfit = [each for each in numbers_in(value) if not math.isfinite(each)]
    with pytest.raises(SerdeError, match="json has no") if unfit else nullcontext():
        check_numbers(value)
