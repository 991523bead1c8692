"""What every storage engine does."""

from contextlib import closing

import pytest

from samzapy.api.engine import EngineSettings
from samzapy.errors import StoreClosed, StoreError
from samzapy.storage.kv import InMemoryStorageEngineFactory
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory

FACTORIES = [InMemoryStorageEngineFactory, RocksDbStorageEngineFactory]


@pytest.fixture(params=FACTORIES, ids=["memory", "rocksdb"])
def engine(request, tmp_path):
    factory = request.param()
    engine = factory.open(tmp_path / "store" if factory.persistent else None, EngineSettings("s"))
    yield engine
    engine.close()


def pairs(cursor):
    with cursor as found:
        return list(found)


def parts(changes):
    keys = sorted(changes)
    some = [keys[at : at + 7_000] for at in range(0, len(keys), 7_000)]
    return [(part, [changes[key] for key in part]) for part in some]


def test_a_new_engine_is_empty_and_has_no_marker(engine):
    assert engine.marker() is None
    assert engine.get(b"a") is None
    assert pairs(engine.iterate(None, None)) == []


def test_a_write_brings_values_deletions_and_the_marker(engine):
    engine.write({b"a": b"1", b"b": b"2"}, b"first")
    engine.write({b"a": None, b"c": b"", b"never": None}, b"second")
    assert engine.get_all([b"c", b"a", b"b", b"zz"]) == [b"", None, b"2", None]
    assert engine.marker() == b"second"


def test_a_write_without_changes_replaces_the_marker(engine):
    engine.write({b"a": b"1"}, b"first")
    engine.write({}, b"second")
    assert engine.marker() == b"second"
    assert engine.get(b"a") == b"1"


def test_pairs_come_in_unsigned_byte_order_without_the_marker(engine):
    keys = [b"\xff", b"", b"\x00", b"\x7f", b"\x80", b"a\x00", b"a", b"\x00t"]
    engine.write(dict.fromkeys(keys, b"v"), b"marker")
    assert [key for key, _ in pairs(engine.iterate(None, None))] == sorted(keys)


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        (b"b", b"d", [b"b", b"c"]),
        (None, b"b", [b"a"]),
        (b"d", None, [b"d"]),
        (b"b", b"b", []),
        (b"c", b"a", []),
        (b"", b"", []),
        (None, b"", []),
        (b"bb", b"cc", [b"c"]),
    ],
)
def test_a_range_includes_its_lower_bound_only(engine, lower, upper, expected):
    engine.write(dict.fromkeys([b"a", b"b", b"c", b"d"], b"v"), b"m")
    assert [key for key, _ in pairs(engine.iterate(lower, upper))] == expected


def test_a_long_range_is_complete(engine):
    wanted = [(b"%06d" % i, b"%d" % i) for i in range(5_000)]
    engine.write(dict(reversed(wanted)), b"m")
    assert pairs(engine.iterate(None, None)) == wanted


def test_a_cursor_shows_what_was_there_when_it_was_made(engine):
    engine.write({b"a": b"1", b"b": b"2"}, b"m")
    cursor = engine.iterate(None, None)
    engine.write({b"a": b"9", b"b": None, b"c": b"3"}, b"m")
    assert pairs(cursor) == [(b"a", b"1"), (b"b", b"2")]
    assert pairs(engine.iterate(None, None)) == [(b"a", b"9"), (b"c", b"3")]


def test_a_snapshot_can_be_read_again_after_writes(engine):
    engine.write({b"a": b"1", b"b": b"2"}, b"m")
    snapshot = engine.snapshot()
    engine.write({b"a": None, b"c": b"3"}, b"m")
    for _ in range(2):
        assert pairs(snapshot.iterate(b"a", b"z")) == [(b"a", b"1"), (b"b", b"2")]
    snapshot.close()
    snapshot.close()
    with pytest.raises(StoreClosed):
        snapshot.iterate(None, None)


#: More than any engine takes as a mere batch.
MANY = 25_000


def test_many_changes_are_loaded_over_what_there_is(engine):
    kept = {b"a": b"1", b"b": b"2", b"zz": b"3"}
    engine.write(kept, b"before")
    changes = {b"k%06d" % (n * 7919 % MANY): b"%d" % n if n % 10 else None for n in range(MANY)}
    engine.load(parts({**changes, b"b": None, b"zz": b"4", b"never": None}), b"loaded")
    expected = {key: value for key, value in changes.items() if value is not None} | {b"a": b"1", b"zz": b"4"}
    assert pairs(engine.iterate(None, None)) == sorted(expected.items())
    assert engine.marker() == b"loaded"


def test_a_load_into_an_empty_engine_leaves_deletions_out(engine):
    engine.load(parts({b"k%06d" % n: b"v" if n % 2 else None for n in range(MANY)}), b"loaded")
    assert len(pairs(engine.iterate(None, None))) == MANY // 2
    assert engine.get_all([b"k000000", b"k000001"]) == [None, b"v"]


def test_keys_on_both_sides_of_the_marker_are_loaded(engine):
    around = [b"", b"\x00", b"\x00samzapy", b"\x00samzapy\x00marker\x00", b"\xff\xff"]
    changes = dict.fromkeys([*around, *(b"%05d" % n for n in range(MANY))], b"v")
    engine.load(parts(changes), b"loaded")
    assert [key for key, _ in pairs(engine.iterate(None, None))] == sorted(changes)
    assert engine.marker() == b"loaded"


@pytest.mark.parametrize("count", [3, MANY])
def test_loads_and_writes_follow_each_other(engine, count):
    keys = [b"k%06d" % n for n in range(count)]
    engine.load(parts(dict.fromkeys(keys, b"1")), b"first")
    engine.write({keys[0]: b"2", keys[1]: None}, b"second")
    before = engine.snapshot()
    engine.load(parts({**dict.fromkeys(keys[1:], b"3"), keys[2]: None}), b"third")
    engine.write({keys[2]: b"4"}, b"fourth")
    assert engine.get_all(keys[:3]) == [b"2", b"3", b"4"]
    assert engine.marker() == b"fourth"
    assert len(pairs(before.iterate(None, None))) == count - 1


def test_deleted_keys_that_come_back_keep_their_order(engine):
    engine.write(dict.fromkeys([b"a", b"b", b"c"], b"1"), b"m")
    assert len(pairs(engine.iterate(None, None))) == 3
    engine.write({b"b": None}, b"m")
    engine.write({b"b": b"2", b"aa": b"2"}, b"m")
    assert [key for key, _ in pairs(engine.iterate(None, None))] == [b"a", b"aa", b"b", b"c"]


def test_every_call_after_close_says_that_the_store_is_closed(engine):
    engine.write({b"a": b"1"}, b"m")
    snapshot, cursor = engine.snapshot(), engine.iterate(None, None)
    engine.close()
    engine.close()
    calls = [
        lambda: engine.get(b"a"),
        lambda: engine.get_all([b"a"]),
        lambda: engine.iterate(None, None),
        engine.snapshot,
        lambda: engine.write({}, b"m"),
        engine.marker,
        engine.flush,
        lambda: engine.flush(wait=False),
        lambda: snapshot.iterate(None, None),
        lambda: pairs(cursor),
    ]
    for call in calls:
        with pytest.raises(StoreClosed):
            call()


def test_metrics_are_numbers_by_name(engine):
    engine.write({b"a": b"1"}, b"m")
    assert all(isinstance(value, (int, float)) for value in engine.metrics().values())


def test_a_snapshot_has_the_entries_and_the_marker_of_its_time(engine):
    engine.write({b"a": b"1", b"b": b"2"}, b"first")
    with closing(engine.snapshot()) as snapshot:
        engine.write({b"a": None, b"c": b"3"}, b"second")
        assert (snapshot.get(b"a"), snapshot.get_all([b"c", b"b"]), snapshot.marker()) == (b"1", [None, b"2"], b"first")
        assert pairs(snapshot.iterate(b"b", None)) == [(b"b", b"2")]
    assert (engine.get(b"a"), engine.marker()) == (None, b"second")


def test_an_error_of_the_parts_of_a_load_changes_nothing(engine):
    engine.write({b"a": b"1"}, b"first")

    def failing():
        yield [b"b"], [b"2"]
        raise StoreError("given up")

    with pytest.raises(StoreError, match="given up"):
        engine.load(failing(), b"second")
    assert (pairs(engine.iterate(None, None)), engine.marker()) == ([(b"a", b"1")], b"first")


def test_a_checkpoint_opens_as_the_engine_was_and_does_not_change(tmp_path):
    factory = RocksDbStorageEngineFactory()
    engine = factory.open(tmp_path / "store", EngineSettings("s"))
    engine.write({b"a": b"1", b"b": b"2"}, b"first")
    engine.checkpoint(tmp_path / "checkpoint")
    engine.write({b"a": None, b"c": b"3"}, b"second")
    engine.close()
    opened = factory.open(tmp_path / "checkpoint", EngineSettings("s"))
    assert (pairs(opened.iterate(None, None)), opened.marker()) == ([(b"a", b"1"), (b"b", b"2")], b"first")
    opened.close()
