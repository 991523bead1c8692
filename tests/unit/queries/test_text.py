"""Keys of requests, and entries as JSON, for each serde."""

import json
from dataclasses import dataclass
from uuid import UUID

import msgspec
import pytest
from rigs.store_rig import store_job

from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.loader import load_job
from samzapy.coordinator.queries import BadQuestion, store_texts
from samzapy.errors import SerdeError
from samzapy.queries.committed import Entry
from samzapy.serializers import JsonSerde
from samzapy.storage.kv.expiring import StampedSerde
from samzapy.strict_json import encode

IDENTITY = UUID("12345678-1234-5678-1234-567812345678")


@dataclass(frozen=True)
class Seat:
    row: int
    letter: str


class Flight(msgspec.Struct, frozen=True):
    carrier: str
    number: int


def text_of(key_serde, msg_serde="json", **keys):
    below = {"factory": "inmemory", "key.serde": key_serde, "msg.serde": msg_serde, **keys}
    return store_texts(load_job(store_job(below)))["s"]


def shown(text, key, value):
    return json.loads(encode(text.shown(Entry(3, key, value))))


@pytest.mark.parametrize(
    ("serde", "given", "expected", "back"),
    [
        ("string", "a/b ü", "a/b ü".encode(), "a/b ü"),
        ("string", '"quoted"', b'"quoted"', '"quoted"'),
        ("string", "", b"", ""),
        ("bytes", '"00ff"', b"\x00\xff", "00ff"),
        ("integer", "-2", b"\xff\xff\xff\xfe", -2),
        ("long", "7", bytes(7) + b"\x07", 7),
        ("double", "1", b"\x3f\xf0" + bytes(6), 1.0),
        ("uuid", f'"{IDENTITY}"', IDENTITY.bytes, str(IDENTITY)),
        ("json", ' {"b": 1, "a": [2]}', b'{"b":1,"a":[2]}', {"b": 1, "a": [2]}),
        ("msgpack", '["x", 1]', b"\x92\xa1x\x01", ["x", 1]),
    ],
)
def test_a_key_of_each_serde_goes_in_and_comes_back(serde, given, expected, back):
    text = text_of(serde)
    assert text.key(given, "key") == expected
    assert shown(text, expected, b"5") == {"key": back, "value": 5, "partition": 3}
    assert text.has_text_keys == (serde == "string")


@pytest.mark.parametrize("serde", ["json", "msgpack"])
def test_a_key_with_a_class_is_written_as_the_task_writes_it(serde):
    text = text_of(serde, **{"key.type": f"{__name__}:Seat"})
    given = text.key('{"letter": "A", "row": 3}', "key")
    assert given == text.key('{"row": 3, "letter": "A"}', "key")
    assert shown(text, given, b"1")["key"] == {"row": 3, "letter": "A"}
    with pytest.raises(BadQuestion, match="key: expected JSON for the serde"):
        text.key('{"row": "x", "letter": "A"}', "key")


@pytest.mark.parametrize("serde", ["json", "msgpack"])
def test_a_value_with_a_class_is_shown_as_plain_json(serde):
    text = text_of("string", serde, **{"msg.type": f"{__name__}:Flight"})
    data = msgspec.json.encode(Flight("UA", 1)) if serde == "json" else msgspec.msgpack.encode(Flight("UA", 1))
    assert shown(text, b"k", data)["value"] == {"carrier": "UA", "number": 1}


@pytest.mark.parametrize(
    ("serde", "given"),
    [
        *(("long", given) for given in ("x", '"7"', "1.5", str(2**63))),
        *(("uuid", given) for given in ('"no"', "7")),
        *(("bytes", given) for given in ('"0g"', "ab")),
        *(("double", '"1"'), ("json", "{"), ("string", "\ud800")),
    ],
)
def test_a_key_that_the_serde_does_not_take_is_refused_in_one_line(serde, given):
    with pytest.raises(BadQuestion) as caught:
        text_of(serde).key(given, "from")
    assert str(caught.value).startswith("from: expected ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("serde", "ordered", "prefixes"), [
    ("string", True, True),
    ("bytes", True, True),
    ("uuid", True, False),
    *((serde, False, False) for serde in ("long", "integer", "double", "json", "msgpack")),
])  # fmt: skip
def test_ranges_and_prefixes_need_keys_in_order(serde, ordered, prefixes):
    text = text_of(serde)
    given = {"string": "a", "bytes": '"61"', "uuid": f'"{IDENTITY}"'}.get(serde, "1")
    if ordered:
        assert text.bound(given, "from") == text.key(given, "key")
    else:
        with pytest.raises(BadQuestion, match=f"a range needs a key serde that keeps order .*, {serde} does not"):
            text.bound(given, "from")
    if prefixes:
        assert text.prefix(given) == b"a"
    else:
        with pytest.raises(BadQuestion, match=f"prefix: needs a key serde that keeps prefixes .*, {serde} does not"):
            text.prefix(given)


def test_expired_entries_are_not_alive_and_put_times_are_not_shown():
    text = text_of("string", **{"rocksdb.ttl.ms": "60000"})
    now, serde = SYSTEM_CLOCK.wall_ms(), StampedSerde(JsonSerde())
    young, old = (Entry(0, b"k", serde.to_bytes((now - age, 5))) for age in (1_000, 61_000))
    assert (text.is_alive(young), text.is_alive(old)) == (True, False)
    assert shown(text, b"k", young.value)["value"] == 5


def test_a_value_that_cannot_be_read_names_the_store():
    with pytest.raises(SerdeError, match="store 's': the value of a key cannot be read"):
        text_of("string").shown(Entry(0, b"k", b"{"))
