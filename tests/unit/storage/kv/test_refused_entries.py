"""What a store says of a key or value that its serde does not take, whatever the layers of the store."""

import math

import pytest
from rigs.store_rig import store_job

from samzapy.api.serde import Serde
from samzapy.errors import SerdeError
from samzapy.serializers.primitives import StringSerde
from samzapy.storage.kv.codec import EntryCodec
from samzapy.testing import open_store

JOB = store_job({"factory": "inmemory", "key.serde": "string", "msg.serde": "string"})
LOGGED = {"stores.s.changelog": "memory.s"}
LAYERS = {
    "cached": {},
    "direct": {"stores.s.object.cache.size": "0"},
    "copying": {"stores.s.object.cache.mode": "copy"},
    "expiring": {"stores.s.rocksdb.ttl.ms": "60000"},
    "measured": {"stores.s.disallow.large.messages": "true"},
}


def put_and_serialize(store, value):
    store.put("a", value)
    store.flush()


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize(
    ("serde", "value", "message"),
    [
        ("string", {"x": 1}, "string serde takes a str, got dict"),
        ("integer", "1", "integer serde takes an int, got str '1'"),
        ("long", 1.5, "long serde takes an int, got float 1.5"),
        ("double", 1, "double serde takes a float, got int 1"),
        ("bytes", "a", "bytes serde takes bytes, got str 'a'"),
        ("json", {1}, "json serde takes a value of JSON, got set"),
        ("msgpack", {1}, "msgpack serde takes a value of MessagePack, got set"),
    ],
)
def test_a_value_that_the_serde_does_not_take_is_named_with_its_key(layers, serde, value, message, tmp_path):
    with open_store(JOB | LAYERS[layers] | {"stores.s.msg.serde": serde}, "s", tmp_path) as opened:
        with pytest.raises(SerdeError) as caught:
            put_and_serialize(opened.store, value)
        assert str(caught.value) == f"store 's': value of key 'a': {message}; convert it, or change stores.s.msg.serde"
        assert caught.value.store == "s"
        assert caught.value.refused


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("value", [math.nan, [1, None, {"x": (-math.inf,)}], {"a": None, "b": math.inf}])
def test_a_number_that_json_does_not_have_is_named_with_its_key(layers, value, tmp_path):
    with open_store(JOB | LOGGED | LAYERS[layers] | {"stores.s.msg.serde": "json"}, "s", tmp_path) as opened:
        with pytest.raises(SerdeError) as caught:
            put_and_serialize(opened.store, value)
        assert str(caught.value).startswith("store 's': value of key 'a': json has no ")
        assert str(caught.value).endswith(
            "would give back None: store None or a text in its place, or use the serde msgpack"
        )
        opened.store.delete("a")
        opened.store.put_all({"b": [None, 1.5, "null"], "c": "null"})
        opened.commit()
        opened.crash()
        assert opened.store.get_all(["a", "b", "c"]) == {"a": None, "b": [None, 1.5, "null"], "c": "null"}


@pytest.mark.parametrize("layers", LAYERS)
def test_a_key_that_the_serde_does_not_take_is_named(layers, tmp_path):
    with open_store(JOB | LAYERS[layers], "s", tmp_path) as opened:
        with pytest.raises(SerdeError) as caught:
            opened.store.put(5, "a")
        assert str(caught.value) == (
            "store 's': key 5: string serde takes a str, got int; convert it, or change stores.s.key.serde"
        )
        assert not caught.value.late


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("key", [math.nan, ("a", math.inf), ("a", (None, -math.inf))])
def test_a_key_with_a_number_that_json_does_not_have_is_refused_since_it_would_share_an_entry(layers, key, tmp_path):
    with open_store(JOB | LOGGED | LAYERS[layers] | {"stores.s.key.serde": "json"}, "s", tmp_path) as opened:
        store = opened.store
        store.put(("a", None), "kept")
        for use in (
            lambda: store.put(key, "b"),
            lambda: store.put_all({"x": "b", key: "b"}),
            lambda: store.get(key),
            lambda: store.get_all([key]),
            lambda: store.delete(key),
        ):
            with pytest.raises(SerdeError, match=r"^store 's': key .*: json has no ") as caught:
                use()
            assert not caught.value.late
        store.put(("a", "null", 1.5), "too")
        opened.commit()
        opened.crash()
        assert opened.store.get(("a", None)) == "kept"
        assert opened.store.get(("a", "null", 1.5)) == "too"


class Reluctant(Serde):
    """Its way to refuse a value is the one of an iterator without a next element."""

    def to_bytes(self, value):
        return next(str(each).encode() for each in (value,) if each != 2)

    def from_bytes(self, data):
        return data.decode()


class Absent(StringSerde):
    """Makes nothing of a value. It extends a built-in serde, whose bytes a store takes unseen."""

    def to_bytes(self, value):
        return None if value == 2 else str(value).encode()


@pytest.mark.parametrize("kind", [Reluctant, Absent])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_serde_that_makes_no_bytes_has_the_entry_named_that_it_refuses(place, kind):
    some = [1, 3]
    some.insert(place, 2)
    with pytest.raises(SerdeError, match=r"^store 's': key 2: "):
        EntryCodec("s", kind(), StringSerde()).encode_keys(some)
    with pytest.raises(SerdeError, match=r"^store 's': value of key 2: "):
        EntryCodec("s", StringSerde(), kind()).encode_values(some, some, with_deletions=False)
