"""Reading stores from outside, where the changelog is longer than what is read into memory."""

import itertools
import os
import subprocess
import sys
import tempfile
from contextlib import closing, nullcontext

import pytest
from rocksdict import Options, Rdict

from samzapy.api.engine import EngineSettings
from samzapy.api.stream import SystemStream
from samzapy.api.system import OutgoingRecord, StreamSpec, SystemSettings
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.stores import StoreConfig
from samzapy.storage.inspection import ChangelogReader, Selection, local_directories, read_files
from samzapy.storage.local.directory import (
    download_of,
    new_checkpoint,
    orphaned,
    set_aside,
    standby_name,
    store_directory,
)
from samzapy.storage.local.marker import Marker, StoreIdentity
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory
from samzapy.storage.spec import StoreSpec
from samzapy.system.local.factory import MemorySystemFactory


def test_a_long_changelog_is_folded_in_files_and_merged_in_key_order(tmp_path):
    factory, settings = MemorySystemFactory(), SystemSettings("m", "", properties={"cluster": str(tmp_path)})
    admin, producer = factory.admin(settings, "t"), factory.producer(settings, "t")
    admin.create(StreamSpec("log", 3, {"cleanup.policy": "compact"}))
    expected = {}
    for number in range(6_000):
        key = b"%05d" % (number % 2_500)
        value = None if number % 7 == 0 else b"%d" % number
        expected[key] = value
        producer.send([OutgoingRecord("log", key, value, int(key) % 3)])
    producer.flush()
    config = StoreConfig("s", "rocksdb", "string", "string", SystemStream("m", "log"))
    heard = []
    reader = ChangelogReader(
        lambda _: admin,
        lambda _: factory.consumer(settings, "t"),
        SYSTEM_CLOCK,
        tmp_path / "files",
        lambda what, done, total: heard.append((what, done, total)),
    )
    wanted = sorted((key, int(key) % 3, value) for key, value in expected.items() if value is not None)
    with reader.read(config, [], Selection()) as contents:
        assert (tmp_path / "files" / "s" / "2" / "CURRENT").exists()
        found = [(key, partition, value) for partition, key, value in contents.entries(Selection())]
    assert found == wanted
    assert list((tmp_path / "files" / "s").iterdir()) == []
    assert heard[-1][1] == heard[-1][2] > 1_000
    some = Selection(lower=b"01000", upper=b"01010")
    with reader.read(config, [0, 2], some) as contents:
        keys = [key for _, key, _ in contents.entries(some)]
    assert keys == [key for key, partition, _ in wanted if b"01000" <= key < b"01010" and partition != 1]
    listed = Selection(frozenset({b"00001", b"00008", b"99999"}))
    with reader.read(config, [], listed) as contents:
        assert [entry.key for entry in contents.entries(listed)] == [
            key for key, _, _ in wanted if key in {b"00001", b"00008"}
        ]


WRITER = """
import sys
from pathlib import Path

from samzapy.api.engine import EngineSettings
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory
from samzapy.storage.spec import StoreSpec
properties = {"container.write.buffer.size.bytes": "65536"}
engine = RocksDbStorageEngineFactory().open(Path(sys.argv[1]), EngineSettings("s", properties))
number = 0
print("open", flush=True)
while True:
    number += 1
    text = b"%d" % number
    engine.write({b"key-%03d" % k: text + b" " * 500 for k in range(20)}, text)
"""


def test_files_are_read_under_a_writers_compactions_and_always_show_one_commit(tmp_path):
    path, factory = tmp_path / "s", RocksDbStorageEngineFactory()
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert writer.stdout.readline() == "open\n"
        seen = set()
        while len(seen) < 20:
            engine = factory.open(path, EngineSettings("s", {"rocksdb.max.open.files": "8"}), read_only=True)
            marker = engine.marker()
            with engine.iterate(None, None) as pairs:
                values = {value.strip() for _, value in pairs}
            engine.close()
            assert values == ({marker} if marker else set())
            seen.add(marker)
        assert writer.poll() is None
    finally:
        writer.kill()
        writer.communicate()
    assert not (path / "samzapy.damage").exists()


def at_each_listing(monkeypatch, path, before, after):
    """What the owner does right before and right after a reader lists the store's files."""
    listed = os.scandir

    def listed_beside_the_owner(folder):
        if folder != path:
            return listed(folder)
        before()
        with listed(folder) as found:
            entries = list(found)
        after()
        return nullcontext(entries)

    monkeypatch.setattr(os, "scandir", listed_beside_the_owner)


def numbered(owner):
    """A function that makes the next commit: a key more, and the marker is the number of keys."""
    numbers = itertools.count(1)

    def commit():
        text = b"%03d" % next(numbers)
        owner.write({text: b""}, text)

    return commit


def assert_one_commit(factory, path):
    reader = factory.open(path, EngineSettings("s"), read_only=True)
    with reader.iterate(None, None) as pairs:
        assert [key for key, _ in pairs] == [b"%03d" % each for each in range(1, int(reader.marker()) + 1)]
    reader.close()


def test_a_write_ahead_log_that_a_flush_removes_meanwhile_leaves_no_gap(tmp_path, monkeypatch):
    factory = RocksDbStorageEngineFactory()
    owner = factory.open(tmp_path / "s", EngineSettings("s", {"rocksdb.wal.enabled": "true"}))
    commit, rounds = numbered(owner), itertools.count()

    def go_on():
        if next(rounds) < 9:
            commit()
            owner.flush()
            commit()

    commit()
    at_each_listing(monkeypatch, tmp_path / "s", go_on, lambda: None)
    assert_one_commit(factory, tmp_path / "s")
    owner.close()


def test_a_reader_writes_nothing_into_the_directory_of_the_owner(tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    factory, path = RocksDbStorageEngineFactory(), tmp_path / "s"
    owner = factory.open(path, EngineSettings("s"))
    owner.write({b"a": b"1"}, b"m")
    owner.flush()

    def written():
        return {
            file.name: (file.stat().st_ino, file.stat().st_mtime_ns, file.stat().st_size) for file in path.iterdir()
        }

    before = written()
    reader = factory.open(path, EngineSettings("s"), read_only=True)
    assert (reader.get(b"a"), reader.marker()) == (b"1", b"m")
    del before["LOG"]
    assert {name: now for name, now in written().items() if name != "LOG"} == before
    assert list((tmp_path / "temporary").iterdir()) == []
    owner.write({b"a": b"2"}, b"n")
    owner.flush()
    with reader.iterate(None, None) as pairs:
        assert list(pairs) == [(b"a", b"1")]
    reader.close()
    owner.close()


def test_files_say_how_far_they_are(tmp_path):
    factory = RocksDbStorageEngineFactory()
    marker = Marker(StoreIdentity("j-1", "s", 4, "t"), 17, 1)
    engine = factory.open(tmp_path / "s", EngineSettings("s"))
    engine.write({b"a": b"1"}, marker.to_bytes())
    engine.close()
    with read_files(STRINGS, [tmp_path / "s"], SYSTEM_CLOCK) as found:
        assert found.as_of == {4: marker}
        assert list(found.entries(Selection())) == [(4, b"a", b"1")]


STRINGS = StoreSpec(StoreConfig("s", "rocksdb", "string", "string"), RocksDbStorageEngineFactory())


def filled(path, partition):
    """A store of the task of this partition, with its number as the only key; None: nothing is written yet."""
    engine = RocksDbStorageEngineFactory().open(path, EngineSettings("s"))
    if partition is not None:
        marker = Marker(StoreIdentity("j-1", "s", partition, "t"), 17, 1)
        engine.write({b"%d" % partition: b""}, marker.to_bytes())
    engine.close()
    return path


@pytest.mark.parametrize("numbers", [[1, None], [None, 0], [0, 1, 10, None, 3], [None], [None, None]])
def test_a_store_without_entries_takes_no_other_stores_place(tmp_path, numbers):
    paths = [filled(tmp_path / f"{at}", number) for at, number in enumerate(numbers)]
    known = [number for number in numbers if number is not None]
    with read_files(STRINGS, paths, SYSTEM_CLOCK) as found:
        assert sorted(entry.partition for entry in found.entries(Selection())) == sorted(found.as_of) == sorted(known)
        assert found.empty == [path for path, number in zip(paths, numbers, strict=True) if number is None]


def test_entries_without_a_marker_have_numbers_that_no_partition_has(tmp_path):
    for name in ("first", "last"):
        with closing(Rdict(str(tmp_path / name), Options(raw_mode=True))) as foreign:
            foreign[name.encode()] = b"1"
    paths = [tmp_path / "first", filled(tmp_path / "own", 0), tmp_path / "last"]
    with read_files(STRINGS, paths, SYSTEM_CLOCK) as found:
        assert [(partition, key) for partition, key, _ in found.entries(Selection())] == [
            (0, b"0"),
            (-1, b"first"),
            (-3, b"last"),
        ]
        assert (sorted(found.as_of), found.unmarked) == ([0], [tmp_path / "first", tmp_path / "last"])


def test_entries_that_have_expired_are_not_read(tmp_path):
    factory, settings = MemorySystemFactory(), SystemSettings("m", "", properties={"cluster": str(tmp_path)})
    admin, producer, now = factory.admin(settings, "t"), factory.producer(settings, "t"), SYSTEM_CLOCK.wall_ms()
    admin.create(StreamSpec("log", 1))
    ages_ms = {b"expired": 61_000, b"young": 1_000}
    producer.send([OutgoingRecord("log", key, b"v", 0, timestamp=now - age) for key, age in ages_ms.items()])
    producer.flush()
    config = StoreConfig("s", "rocksdb", "string", "string", SystemStream("m", "log"), ttl_ms=60_000)
    reader = ChangelogReader(
        lambda _: admin, lambda _: factory.consumer(settings, "t"), SYSTEM_CLOCK, tmp_path / "files", lambda *_: None
    )
    with reader.read(config, [], Selection()) as contents:
        assert [entry.key for entry in contents.entries(Selection())] == [b"young"]


#: What makes the directories beside a store, by the endings of their names.
BESIDE = {
    "corrupt": lambda path: set_aside(path, "corrupt", 17),
    "stale": lambda path: set_aside(path, "stale", 17),
    "foreign": lambda path: set_aside(path, "foreign", 17),
    "orphaned": lambda path: orphaned(path, 17),
    "standby": lambda path: path.with_name(standby_name(path.name, 1)),
    "checkpoint": new_checkpoint,
    "downloading": download_of,
}


def opened_once(path):
    path.mkdir(parents=True, exist_ok=True)
    (path / "CURRENT").touch()


@pytest.mark.parametrize("ending", BESIDE)
def test_only_the_store_itself_is_read_from_the_folder_of_its_copies_and_of_what_was_set_aside(tmp_path, ending):
    path = store_directory(tmp_path, "j-1", "s", "SystemStreamPartition [kafka, orders, 0]")
    opened_once(path)
    beside = BESIDE[ending](path)
    opened_once(path)
    opened_once(beside)
    assert local_directories("j-1", "s", tmp_path) == [path]
