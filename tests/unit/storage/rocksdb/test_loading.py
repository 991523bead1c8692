"""What a restore loads into RocksDB: whole or not at all, and on disk."""

import random
import shutil
import signal
import subprocess
import sys

import pytest

from samzapy.api.engine import EngineSettings
from samzapy.errors import StoreError
from samzapy.storage.changelog.restore import RestoreBuffer
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory
from samzapy.storage.rocksdb.cursor import MARKER_KEY

FACTORY = RocksDbStorageEngineFactory()
SETTINGS = EngineSettings("s")
MANY = 25_000


def many(value: bytes, count: int = MANY) -> dict[bytes, bytes | None]:
    return {b"k%06d" % n: value for n in range(count)}


def contents(path, settings=SETTINGS):
    engine = FACTORY.open(path, settings)
    try:
        with engine.iterate(None, None) as pairs:
            return dict(pairs), engine.marker()
    finally:
        engine.close()


@pytest.mark.parametrize("count", [10, MANY])
def test_what_is_loaded_survives_a_kill_from_the_moment_the_call_returns(tmp_path, count):
    engine = FACTORY.open(tmp_path / "store", SETTINGS)
    engine.write({b"a": b"1"}, b"first")
    engine.load(many(b"v", count), b"second")
    engine.write({b"a": b"2"}, b"third")
    shutil.copytree(tmp_path / "store", tmp_path / "image")
    engine.close()
    assert contents(tmp_path / "image") == ({b"a": b"1"} | many(b"v", count), b"second")


KILLED = """
import sys
from pathlib import Path
from samzapy.api.engine import EngineSettings
from samzapy.failpoints import arm
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory
engine = RocksDbStorageEngineFactory().open(Path(sys.argv[1]), EngineSettings("s"))
engine.load({b"k%06d" % n: b"old" for n in range(25_000)}, b"first")
arm(sys.argv[2], action="kill")
engine.load({b"k%06d" % n: b"new" if n % 2 else None for n in range(25_000)}, b"second")
"""
KILLED_WHILE_SORTING = """
import sys
from pathlib import Path
from samzapy.api.engine import EngineSettings
from samzapy.failpoints import arm
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory
engine = RocksDbStorageEngineFactory().open(Path(sys.argv[1]), EngineSettings("s"))
engine.load({b"k%06d" % n: b"old" for n in range(25_000)}, b"first")
arm(sys.argv[2], action="kill")
load = engine.begin_load(1_000_000)
load.add([b"k%06d" % n for n in range(25_000)], [b"new" if n % 2 else None for n in range(25_000)])
load.finish(b"second")
"""


@pytest.mark.parametrize("program", [KILLED, KILLED_WHILE_SORTING], ids=["gathered", "sorted"])
@pytest.mark.parametrize(
    ("point", "expected"),
    [
        ("restore.file", (many(b"old"), b"first")),
        ("restore.loaded", ({b"k%06d" % n: b"new" for n in range(1, MANY, 2)}, b"second")),
    ],
)
def test_a_load_that_is_killed_is_there_whole_or_not_at_all(tmp_path, program, point, expected):
    path = tmp_path / "store"
    killed = subprocess.run([sys.executable, "-c", program, str(path), point], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert contents(path) == expected
    assert not list(path.glob("loading*"))


@pytest.mark.parametrize(
    "properties",
    [
        {"rocksdb.compaction.style": "level"},
        {"rocksdb.compaction.style": "fifo"},
        {"rocksdb.compaction.num.levels": "1"},
        {"rocksdb.wal.enabled": "true"},
        {"container.cache.size.bytes": "0"},
        {"rocksdb.compression": "zstd", "rocksdb.block.size.bytes": "65536"},
        {"container.write.buffer.size.bytes": "65536"},
    ],
)
def test_a_store_of_any_kind_can_be_loaded_again_and_again(tmp_path, properties):
    settings = EngineSettings("s", properties)
    engine = FACTORY.open(tmp_path, settings)
    for number in range(3):
        engine.load({b"%d" % number: b"only", **many(b"%d" % number)}, b"load %d" % number)
        engine.write({b"k000000": b"commit"}, b"commit %d" % number)
        assert engine.get_all([b"k000000", b"k000001"]) == [b"commit", b"%d" % number]
    engine.close()
    expected = many(b"2") | {b"k000000": b"commit"} | {b"%d" % number: b"only" for number in range(3)}
    assert contents(tmp_path, settings) == (expected, b"commit 2")


def test_the_reserved_key_is_refused_in_a_load(tmp_path):
    engine = FACTORY.open(tmp_path, SETTINGS)
    with pytest.raises(StoreError, match="is reserved"):
        engine.load({**many(b"v"), MARKER_KEY: b"mine"}, b"first")
    assert engine.marker() is None
    engine.close()


def test_records_of_keys_that_are_there_already_never_fill_the_memory():
    gathered = RestoreBuffer(100_000)
    values = [b"v" * 100] * 50
    keys = [b"k%02d" % n for n in range(50)]
    assert not any(gathered.add(keys, values) for _ in range(1_000))
    assert gathered.take() == dict(zip(keys, values, strict=True))
    assert gathered.take() == {}


@pytest.mark.parametrize("value", [b"v" * 500, None])
def test_records_of_new_keys_fill_the_memory_in_time(value):
    gathered = RestoreBuffer(100_000)
    batches = 0
    while not gathered.add([b"k%06d" % (10 * batches + n) for n in range(10)], [value] * 10):
        batches += 1
    taken = gathered.take()
    size = sum(len(key) + len(kept or b"") for key, kept in taken.items())
    assert 10 * batches <= len(taken) <= 1_000
    assert size <= 100_000
    assert not gathered.add([b"k"], [value])


def sorted_load(engine, batches, marker=b"marker"):
    load = engine.begin_load(1_000_000)
    for keys, values in batches:
        load.add(keys, values)
    load.finish(marker)


def random_batches(seed, keys=5_000, count=60, deleted=0.2):
    chance = random.Random(seed)
    for _ in range(count):
        drawn = [b"k%05d" % chance.randrange(keys) for _ in range(500)]
        yield drawn, [None if chance.random() < deleted else chance.randbytes(8) for _ in drawn]


def folded(contents, batches):
    for keys, values in batches:
        contents |= dict(zip(keys, values, strict=True))
    return {key: value for key, value in sorted(contents.items()) if value is not None}


@pytest.mark.parametrize("deleted", [0.0, 0.2, 1.0])
def test_a_sorted_load_leaves_the_last_value_of_each_key(tmp_path, deleted):
    first, second = list(random_batches(1, deleted=deleted)), list(random_batches(2, deleted=deleted))
    engine = FACTORY.open(tmp_path / "store", SETTINGS)
    sorted_load(engine, first, b"first")
    sorted_load(engine, second, b"second")
    shutil.copytree(tmp_path / "store", tmp_path / "image")
    engine.close()
    assert contents(tmp_path / "image") == (folded({}, [*first, *second]), b"second")
    assert not list((tmp_path / "store").glob("loading*"))


def test_a_sorted_load_deletes_what_the_store_had_and_keeps_the_rest(tmp_path):
    engine = FACTORY.open(tmp_path / "store", SETTINGS)
    engine.write(dict.fromkeys([b"\x00", b"a", b"k00001", b"z", b"zz"], b"old"), b"first")
    sorted_load(engine, [([b"k00001", b"a", b"zz", b"a"], [b"new", b"1", None, None])], b"second")
    engine.close()
    assert contents(tmp_path / "store") == ({b"\x00": b"old", b"k00001": b"new", b"z": b"old"}, b"second")


def test_a_sorted_load_that_is_not_finished_leaves_nothing(tmp_path):
    engine = FACTORY.open(tmp_path / "store", SETTINGS)
    engine.write({b"a": b"1"}, b"first")
    for keys, values in random_batches(3, count=2):
        engine.begin_load(1_000_000).add(keys, values)
    engine.close()
    assert contents(tmp_path / "store") == ({b"a": b"1"}, b"first")
    assert not list((tmp_path / "store").glob("loading*"))


@pytest.mark.parametrize(("key", "value"), [(MARKER_KEY, b"mine"), (None, b"v"), (None, None), ("text", b"v")])
def test_a_sorted_load_refuses_what_is_no_key_of_a_store(tmp_path, key, value):
    engine = FACTORY.open(tmp_path / "store", SETTINGS)
    with pytest.raises(StoreError):
        sorted_load(engine, [([b"a", key], [b"1", value])])
    engine.close()
    assert contents(tmp_path / "store") == ({}, None)


def test_where_so_much_memory_cannot_be_reserved_there_is_no_load(tmp_path, caplog):
    engine = FACTORY.open(tmp_path / "store", SETTINGS)
    assert engine.begin_load(1 << 60) is None
    assert "is loaded in chunks: reserving 2 x " in caplog.text
    sorted_load(engine, [([b"k"], [b"v"])])
    engine.close()
    assert contents(tmp_path / "store") == ({b"k": b"v"}, b"marker")
