"""What every store does, whatever its engine and its cache."""

import operator
import zlib

import pytest
from rigs.store_rig import LOGGED, store_job

from samzapy.errors import RecordTooLarge, SerdeError, StoreClosed, StoreError, StoreRefused
from samzapy.serializers import BytesSerde, MsgpackSerde, StringSerde
from samzapy.testing import open_store

STACKS = {
    "cached": {},
    "tiny-cache": {"stores.s.object.cache.size": "2", "stores.s.write.batch.size": "1"},
    "tiny-budget": {"container.cache.max.bytes": "1000"},
    "no-cache": {"stores.s.object.cache.size": "0"},
    "copies": {"stores.s.object.cache.mode": "copy"},
    "expiring": {"stores.s.rocksdb.ttl.ms": "3600000"},
    "every-layer": {
        "stores.s.rocksdb.ttl.ms": "3600000",
        "stores.s.disallow.large.messages": "true",
        "stores.s.object.cache.check": "true",
        "stores.s.object.cache.size": "0",
    },
}


@pytest.fixture(params=["rocksdb", "inmemory"])
def engine(request):
    return request.param


@pytest.fixture(params=STACKS)
def stack(request):
    return request.param


@pytest.fixture
def job(engine, stack):
    def properties(**serdes):
        keys = LOGGED | {"factory": engine, **{f"{part}.serde": name for part, name in serdes.items()}}
        return store_job(keys) | STACKS[stack]

    return properties


@pytest.fixture
def opened(job, tmp_path):
    with open_store(job(), "s", tmp_path) as opened:
        yield opened


@pytest.fixture
def store(opened):
    return opened.store


def test_a_merge_combines_with_what_is_held_wherever_that_is(opened):
    opened.store.put_all({"committed": [1], "deleted": [1]})
    opened.commit()
    opened.store.put("put", [2])
    opened.store.delete("deleted")
    for _ in range(2):
        opened.store.merge_all({"committed": [3], "put": [3], "deleted": [3], "new": [3]}, operator.add)
    assert dict(opened.store.all()) == {"committed": [1, 3, 3], "deleted": [3, 3], "new": [3, 3], "put": [2, 3, 3]}
    opened.commit()
    opened.lose_local_state()
    assert opened.store.get_all(["committed", "new"]) == {"committed": [1, 3, 3], "new": [3, 3]}


def test_a_merge_whose_function_stops_early_changes_nothing(opened):
    opened.store.put_all({"a": 1, "b": 2, "c": 3})
    opened.commit()

    def combine(held, given):
        return next(held + each for each in (given,) if held != 2)

    with pytest.raises(StopIteration):
        opened.store.merge_all({"a": 1, "b": 1, "c": 1}, combine)
    with pytest.raises(StopIteration):
        opened.store.merge_all({"a": 1, "b": 1, "new": 1}, combine)
    assert dict(opened.store.all()) == {"a": 1, "b": 2, "c": 3}
    assert opened.store.get("a") == 1


@pytest.mark.parametrize("entries", [{"a": 1, None: 1}, {"b": 1, "a": None}])
def test_a_merge_is_checked_before_the_first_is_written(store, entries):
    store.put("a", 1)
    with pytest.raises(StoreRefused, match=r"^store 's': (key|value of key 'a') must not be None"):
        store.merge_all(entries, operator.add)
    assert dict(store.all()) == {"a": 1}


def test_merged_keys_that_python_finds_equal_stay_apart_from_held_ones(job, tmp_path):
    with open_store(job(key="json"), "s", tmp_path) as opened:
        for key in (1, 1.0, True):
            opened.store.merge_all({key: [repr(key)]}, operator.add)
        opened.store.merge_all({1.0: ["again"], "1": ["text"]}, operator.add)
        assert [opened.store.get(key) for key in (1, 1.0, True, "1")] == [["1"], ["1.0", "again"], ["True"], ["text"]]


@pytest.mark.parametrize("call", ["get", "delete", "prefix"])
def test_none_is_neither_key_nor_value(store, call):
    with pytest.raises(StoreError, match="store 's': key must not be None"):
        getattr(store, call)(None)
    with pytest.raises(StoreError, match="store 's': value of key 'a' must not be None"):
        store.put("a", None)


@pytest.mark.parametrize(
    "entries",
    [
        [("a", 1), 2],
        [("a", 1), ("b", 2, 3)],
        "ab",
        [("a", 1), "ab"],
        {"ab"},
        ("ab", "cd"),
        [b"ab"],
        [bytearray(b"ab")],
        [{"a": 1, "b": 2}],
        [{"a", "b"}],
    ],
)
def test_entries_that_are_no_pairs_are_refused_by_name(store, entries):
    with pytest.raises(StoreRefused, match=r"^store 's': expected \(key, value\) pairs, got .* among them$"):
        store.put_all(entries)
    assert store.get("a") is None


def test_text_that_no_encoding_knows_is_refused_by_name(store):
    def put():
        store.put("\ud800", 1)
        store.flush()

    with pytest.raises(SerdeError, match=r"^store 's': key '\\ud800': "):
        put()


def test_a_key_must_be_hashable(job, tmp_path):
    with open_store(job(key="json"), "s", tmp_path) as opened, pytest.raises(StoreError, match="must be hashable"):
        opened.store.put([1], 1)


@pytest.mark.parametrize("entries", [[("a", 1), (None, 2)], [("a", 1), ("b", None)]])
def test_a_put_of_many_is_checked_before_the_first_is_written(store, entries):
    with pytest.raises(StoreError):
        store.put_all(entries)
    assert store.get("a") is None


def test_a_value_that_does_not_serialize_is_named(store):
    with pytest.raises(SerdeError, match="store 's': value of key 'bad'"):  # noqa: PT012
        store.put("good", 1)
        store.put("bad", object())
        store.flush()


def test_keys_that_python_finds_equal_stay_apart(job, tmp_path):
    with open_store(job(key="json"), "s", tmp_path) as opened:
        store = opened.store
        for key in (1, 1.0, True, 0.0, -0.0, "1"):
            store.put(key, repr(key))
        for _ in range(2):
            assert [store.get(key) for key in (1, 1.0, True, 0.0, -0.0)] == ["1", "1.0", "True", "0.0", "-0.0"]
            assert store.get_all(["1"]) == {"1": "'1'"}
            assert len(list(store.all())) == 6
            opened.commit()
        store.delete(True)
        assert store.get(1) == "1"
        assert store.get(True) is None


class Normalizing(StringSerde):
    def to_bytes(self, value):
        return value.strip().encode()


def test_keys_that_a_serde_writes_alike_are_one_entry(job, tmp_path):
    keys = job(key="mine") | {"serializers.registry.mine.class": f"{__name__}:Normalizing"}
    with open_store(keys, "s", tmp_path) as opened:
        for key in ("a", "a ") * 20:
            opened.store.put(key, (opened.store.get(key) or 0) + 1)
        assert [opened.store.get(key) for key in ("a", "a ")] == [40, 40]


class Packing:
    def to_bytes(self, value):
        return zlib.compress(super().to_bytes(value))

    def from_bytes(self, data):
        return super().from_bytes(zlib.decompress(data))


PackedBytes = type("PackedBytes", (Packing, BytesSerde), {})
PackedPlain = type("PackedPlain", (Packing, MsgpackSerde), {})


@pytest.mark.parametrize("kind", ["PackedBytes", "PackedPlain"])
def test_a_serde_that_extends_a_built_in_one_writes_its_own_bytes(job, tmp_path, kind):
    keys = job(key="mine", msg="mine") | {"serializers.registry.mine.class": f"{__name__}:{kind}"}
    with open_store(keys, "s", tmp_path) as opened:
        opened.store.put(b"k", b"v")
        opened.commit()
        assert all(data.startswith(b"x\x9c") for data in opened.changelog()[0])
        opened.lose_local_state()
        assert (opened.store.get(b"k"), list(opened.store.all())) == (b"v", [(b"k", b"v")])


def test_a_range_goes_by_the_bytes_of_its_keys(job, tmp_path):
    with open_store(job(key="integer"), "s", tmp_path) as opened:
        opened.store.put_all({n: n for n in (-1, 0, 1, 256)})
        opened.commit()
        opened.store.put(2, 2)
        assert [key for key, _ in opened.store.all()] == [0, 1, 2, 256, -1]
        assert [key for key, _ in opened.store.range(1, 256)] == [1, 2]


def test_a_prefix_scan_sees_committed_and_uncommitted_keys(opened):
    opened.store.put_all({"a/1": 1, "a0": 1, "b": 1})
    opened.commit()
    opened.store.put("a/2", 2)
    assert [key for key, _ in opened.store.prefix("a/")] == ["a/1", "a/2"]
    assert len(list(opened.store.prefix(""))) == 4


def test_a_prefix_scan_needs_a_serde_that_keeps_prefixes(job, tmp_path):
    with open_store(job(key="json"), "s", tmp_path) as opened, pytest.raises(StoreError, match="keeps prefixes"):
        opened.store.prefix("a")


def test_an_iterator_is_not_moved_by_writes_and_commits(opened):
    store = opened.store
    store.put_all({"a": 1, "b": 2})
    opened.commit()
    store.put("c", 3)
    entries = store.all()
    assert next(entries) == ("a", 1)
    store.put_all({"b": 9, "d": 4})
    store.delete("c")
    opened.commit()
    assert list(entries) == [("b", 2), ("c", 3)]
    assert list(store.all()) == [("a", 1), ("b", 9), ("d", 4)]


def test_a_snapshot_holds_uncommitted_writes(opened):
    store = opened.store
    store.put("a", 1)
    with store.snapshot("a", "z") as snapshot:
        store.put("a", 2)
        opened.commit()
        assert list(snapshot.iterator()) == list(snapshot.iterator()) == [("a", 1)]
    with pytest.raises(StoreClosed):
        snapshot.iterator()


def test_every_call_after_close_says_that_the_store_is_closed(opened):
    store = opened.store
    store.put("a", 1)
    entries, snapshot = store.all(), store.snapshot("a", "b")
    opened.close()
    store.close()
    calls = [
        lambda: store.get("a"),
        lambda: store.get_all(["a"]),
        lambda: store.put("a", 1),
        lambda: store.put_all({"a": 1}),
        lambda: store.merge_all({"a": 1}, operator.add),
        lambda: store.delete("a"),
        lambda: store.delete_all(["a"]),
        lambda: store.range("a", "b"),
        lambda: store.prefix("a"),
        store.all,
        lambda: store.snapshot("a", "b"),
        store.flush,
        lambda: next(entries),
        snapshot.iterator,
    ]
    for call in calls:
        with pytest.raises(StoreClosed):
            call()


def test_a_commit_writes_one_changelog_record_a_key(opened):
    for number in range(5):
        opened.store.put("a", number)
    opened.store.put("b", 1)
    opened.store.delete("b")
    opened.commit()
    assert sorted(opened.changelog()) == [(b"a", b"4"), (b"b", None)]
    opened.commit()
    assert len(opened.changelog()) == 2


def test_discarding_goes_back_to_the_last_commit(opened):
    opened.store.put("a", 1)
    opened.commit()
    opened.store.put("a", 2)
    opened.store.flush()
    opened.store.put("b", 3)
    opened.stores.discard()
    assert opened.store.get_all(["a", "b"]) == {"a": 1, "b": None}


def test_a_record_that_the_changelog_would_not_take_is_refused(job, tmp_path):
    config = job() | {"stores.s.changelog.max.message.bytes": "1000"}
    with open_store(config, "s", tmp_path) as opened:
        too_large = (RecordTooLarge, StoreRefused)  # at the latest when it is serialized, or at its put
        named = r"store 's': .*'big'.* (> max.message.bytes 1,000|more than 869 B)"
        with pytest.raises(too_large, match=named):  # noqa: PT012
            opened.store.put("big", "x" * 950)  # and a batch around it
            opened.store.flush()
        with pytest.raises(too_large):  # noqa: PT012
            opened.store.put_all({"small": 1, "big": "x" * 1000})
            opened.store.flush()


def test_the_key_of_an_engines_marker_is_refused_before_it_is_logged(opened):
    opened.store.put("\0samzapy\0marker", 1)
    with pytest.raises(StoreError, match=r"store 's': key b'.*marker' is reserved"):
        opened.commit()
    assert opened.changelog() == []


def test_too_many_uncommitted_bytes_ask_for_a_commit(job, tmp_path):
    with open_store(job() | {"stores.s.uncommitted.max.bytes": "1000"}, "s", tmp_path) as opened:
        for _ in range(100):
            opened.store.put("a", "x" * 50)
            opened.store.flush()
        assert not opened.stores.over_budget()
        opened.store.put_all({str(n): "x" * 50 for n in range(30)})
        opened.store.flush()
        assert opened.stores.over_budget()
        opened.commit()
        assert not opened.stores.over_budget()


def test_a_failed_step_stops_every_later_one(opened):
    def broken(system):
        raise ConnectionError(system)

    opened.store.put("a", 1)
    opened.stores.flush()
    with pytest.raises(ConnectionError):
        opened.stores.send_changes(broken)
    for step in (opened.stores.flush, opened.commit, opened.stores.flush_engines, lambda: opened.stores.apply({}, {})):
        with pytest.raises(StoreError, match="failed before"):
            step()
