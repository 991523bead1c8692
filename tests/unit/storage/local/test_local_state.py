"""What lies on this machine: used, set aside, or refused."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from rigs.store_rig import local_files
from rocksdict import Options, Rdict

from samzapy.api.engine import EngineSettings
from samzapy.errors import ConfigError, StoreClosed, StoreCorrupted, StoreError, StoreLocked
from samzapy.storage.local.directory import is_empty, set_aside, set_asides, standby_name, standbys_in, store_directory
from samzapy.storage.local.marker import Marker, StoreIdentity
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory

FACTORY = RocksDbStorageEngineFactory()
SETTINGS = EngineSettings("s")
MARKER = Marker(StoreIdentity("job-1", "s", 0, "t"), 5, 1).to_bytes()


@pytest.fixture
def stores(tmp_path):
    return local_files(tmp_path)


def directory(stores) -> Path:
    return stores.path


def opened(stores, refuse=lambda marker: None):
    return stores.open_kept(refuse)


def filled(stores, rows=3_000):
    local = opened(stores)
    local.engine.write({b"%06d" % n: b"v" * 100 for n in range(rows)}, MARKER)
    local.engine.flush()
    local.engine.close()


def test_the_directory_is_private_and_named_after_job_store_and_task(stores):
    opened(stores).engine.close()
    path = stores.path
    for part in (path, path.parent, path.parent.parent):
        assert stat.S_IMODE(part.stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["..", "a/b", "", "a\0b", "é", "a" * 201])
def test_unsafe_names_are_no_directories(tmp_path, name):
    with pytest.raises(StoreError, match="cannot name a directory"):
        store_directory(tmp_path, "job-1", name, "Partition 0")


def test_a_link_that_leads_out_of_the_base_is_refused(tmp_path):
    (tmp_path / "base" / "job-1").mkdir(parents=True)
    (tmp_path / "base" / "job-1" / "s").symlink_to(tmp_path)
    with pytest.raises(StoreError, match="leads out of"):
        store_directory(tmp_path / "base", "job-1", "s", "Partition 0")


def test_a_refused_store_is_set_aside_and_only_the_last_one_kept(stores):
    for _ in range(2):
        filled(stores)
        local = opened(stores, lambda marker: "it is old")
        assert (local.marker, local.reason, local.engine.get(b"000001")) == (None, "it is old", None)
        local.engine.close()
    assert [path.name for path in set_asides(directory(stores))] == ["Partition_0.stale-17"]


def test_the_stores_of_tasks_with_longer_names_stay_when_a_store_is_set_aside(tmp_path):
    stores = [tmp_path / name for name in ("orders", "orders.stale-eu", "orders.foreign-1st", "orders.standby-eu")]
    for path in stores:
        path.mkdir()
    aside = set_aside(stores[0], "stale", 17)
    assert sorted(tmp_path.iterdir()) == sorted([aside, *stores[1:]])
    assert standbys_in(tmp_path) == {}


def test_a_standbys_copy_that_has_become_the_store_is_not_opened_again(stores):
    filled(stores)
    path = directory(stores)
    copy = path.rename(path.with_name(standby_name(path.name, 1)))
    found = standbys_in(path.parent)
    assert [stores.take_over_standby(found, lambda _: None) for _ in range(2)] == [True, False]
    assert (path.exists(), copy.exists()) == (True, False)


def test_a_marker_that_cannot_be_read_sets_the_store_aside(stores):
    local = opened(stores)
    local.engine.write({}, b"garbage")
    local.engine.close()
    local = opened(stores)
    assert local.marker is None
    assert "its marker cannot be read" in local.reason
    local.engine.close()


def left_by_samza(stores, rows=10):
    """A directory of JVM Samza's at the very path: plain RocksDB, without a marker."""
    path = directory(stores)
    path.mkdir(parents=True)
    db = Rdict(str(path), Options(raw_mode=True))
    for n in range(rows):
        db[b"%06d" % n] = b"theirs"
    db.close()


OPENINGS = {"kept": lambda stores: opened(stores).engine, "empty": lambda stores: stores.open_empty().engine}


@pytest.mark.parametrize("opening", OPENINGS)
def test_data_without_a_marker_is_set_aside_with_a_warning_and_never_used(stores, opening, caplog):
    left_by_samza(stores)
    engine = OPENINGS[opening](stores)
    assert engine.get(b"000001") is None
    assert is_empty(engine)
    engine.close()
    (aside,) = set_asides(directory(stores))
    assert aside.name == "Partition_0.stale-17"
    theirs = Rdict(str(aside), Options(raw_mode=True))
    assert theirs[b"000001"] == b"theirs"
    theirs.close()
    (warning,) = caplog.messages
    assert f"The local store {directory(stores)} is not used: it holds data without a marker" in warning


def snapshot_at(marker):
    """Puts a store with that marker where a snapshot is downloaded to, whatever the index says."""

    def fetch(path):
        engine = FACTORY.open(path, SETTINGS)
        engine.write({b"a": b"1"}, marker)
        engine.close()
        return Marker.from_bytes(MARKER)

    return fetch


def test_a_snapshot_at_the_marker_of_its_index_is_used(stores):
    local = stores.fetch(opened(stores), snapshot_at(MARKER))
    assert (local.marker, local.source) == (Marker.from_bytes(MARKER), "snapshot")
    assert local.engine.get(b"a") == b"1"
    local.engine.close()


@pytest.mark.parametrize("found", [Marker(StoreIdentity("job-1", "s", 0, "t"), 4, 1).to_bytes(), b"no marker"])
def test_a_snapshot_that_is_not_at_the_marker_of_its_index_gives_an_empty_store(stores, found, caplog):
    local = stores.fetch(opened(stores), snapshot_at(found))
    assert (local.marker, local.source) == (None, "")
    assert is_empty(local.engine)
    assert local.engine.marker() is None
    local.engine.close()
    assert "its contents differ from its index" in caplog.text


def test_a_store_is_closed_when_what_judges_it_raises(stores):
    filled(stores)

    def refuse(marker):
        raise ConfigError([])

    with pytest.raises(ConfigError):
        opened(stores, refuse)
    local = opened(stores)
    assert local.engine.get(b"000001") is not None
    local.engine.close()


def flip_a_byte(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


def test_a_damaged_block_is_never_a_short_scan_and_the_store_is_set_aside(stores):
    filled(stores)
    flip_a_byte(next(directory(stores).glob("*.sst")), 2_000)
    local = opened(stores)
    # The error is kept: it must not keep the store open.
    with pytest.raises(StoreCorrupted, match="checksum mismatch") as told, local.engine.iterate(None, None) as pairs:
        list(pairs)
    local.engine.close()
    again = opened(stores)
    assert told.value.__traceback__
    assert again.marker is None
    assert "it is damaged" in again.reason
    again.engine.close()
    assert [path.name for path in set_asides(directory(stores))] == ["Partition_0.corrupt-17"]


def test_a_store_is_closed_under_a_reading_thread_which_hears_of_it(stores):
    filled(stores)
    local = opened(stores)
    keys, begun, heard = [b"%06d" % n for n in range(3_000)], threading.Event(), []

    def read():
        while not heard:
            try:
                local.engine.get_all(keys)
            except StoreClosed as closed:
                heard.append(closed)
            begun.set()

    reader = threading.Thread(target=read)
    reader.start()
    begun.wait()
    local.engine.close()
    reader.join(60)
    assert heard
    again = opened(stores)
    assert again.marker is not None
    again.engine.close()


def test_a_store_open_in_this_process_is_locked_even_through_a_link(tmp_path, stores):
    local = opened(stores)
    link = tmp_path / "link"
    link.symlink_to(directory(stores))
    with pytest.raises(StoreLocked, match=str(os.getpid())):
        FACTORY.open(link, SETTINGS)
    local.engine.close()
    FACTORY.open(link, SETTINGS).close()


HOLDER = """
import sys
import threading
from pathlib import Path
from samzapy.api.engine import EngineSettings
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory
engine = RocksDbStorageEngineFactory().open(Path(sys.argv[1]), EngineSettings("s"))
print("open", flush=True)
sys.stdin.read()
"""


def test_a_store_locked_by_another_process_names_it_and_is_left_alone(stores):
    filled(stores)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(directory(stores))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "open\n"
        for attempt in (lambda: opened(stores), stores.open_empty):
            with pytest.raises(StoreLocked, match=f"locked by pid {holder.pid}"):
                attempt()
    finally:
        holder.communicate("")
    local = opened(stores)
    assert local.engine.get(b"000001") is not None
    local.engine.close()


def test_a_forked_child_can_neither_use_nor_close_the_store(stores):
    local = opened(stores)
    local.engine.write({b"a": b"1"}, MARKER)
    cursor = local.engine.iterate(None, None)
    child = os.fork()
    if child == 0:
        try:
            local.engine.get(b"a")
        except StoreError as error:
            local.engine.close()
            os._exit(0 if "parent" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with cursor as pairs:
        assert list(pairs) == [(b"a", b"1")]
    local.engine.close()


DISK_FULL = """
import resource, signal, sys
from pathlib import Path
from samzapy.api.engine import EngineSettings
from samzapy.errors import StoreError
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
engine = RocksDbStorageEngineFactory().open(Path(sys.argv[1]), EngineSettings("s"))
engine.write({b"first": b"1"}, b"first")
engine.flush()
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
import os
try:
    for round in range(50):
        engine.write({b"%d-%d" % (round, n): os.urandom(1000) for n in range(1000)}, b"%d" % round)
        engine.flush()
except StoreError as error:
    print(error, flush=True)
os._exit(0)
"""


def test_a_full_disk_is_an_error_that_names_the_path(stores):
    filled(stores)
    run = subprocess.run(
        [sys.executable, "-c", DISK_FULL, str(directory(stores))], capture_output=True, text=True, check=False
    )
    assert str(directory(stores)) in run.stdout
    assert "File too large" in run.stdout
    assert "B free" in run.stdout
    local = FACTORY.open(directory(stores), SETTINGS)
    assert local.get(b"first") == b"1"
    assert local.marker() == b"first"
    local.close()


KILLED = """
import os, sys
from pathlib import Path
from samzapy.api.engine import EngineSettings
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory
properties = {"container.write.buffer.size.bytes": "65536", "rocksdb.wal.enabled": sys.argv[2]}
engine = RocksDbStorageEngineFactory().open(Path(sys.argv[1]), EngineSettings("s", properties))
number = int(engine.marker() or 0)
print("open", flush=True)
while True:
    number += 1
    text = b"%d" % number
    engine.write({b"key-%03d" % k: text + b" " * 50 for k in range(20)}, text)
    if number % 100 == 0:
        print(number, flush=True)
"""


@pytest.mark.parametrize("wal", ["false", "true"])
def test_after_a_kill_data_and_marker_are_of_the_same_commit(stores, wal):
    opened(stores).engine.close()
    path = directory(stores)
    reached = 0
    for round_ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", KILLED, str(path), wal], stdout=subprocess.PIPE, text=True)
        assert writer.stdout.readline() == "open\n"
        for _ in range(20 + 7 * round_):
            said = int(writer.stdout.readline())
        writer.kill()
        writer.communicate()
        engine = FACTORY.open(path, SETTINGS)
        marker = engine.marker()
        with engine.iterate(None, None) as pairs:
            values = {value.strip() for _, value in pairs}
        assert values == ({marker} if marker else set())
        # With a log a kill loses nothing that was written.
        assert int(marker or 0) >= (said if wal == "true" else reached)
        reached = int(marker or 0)
        engine.close()
    assert reached > 0


@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST-*"])
def test_a_folder_in_the_place_of_a_file_is_damage(tmp_path, name):
    engine = FACTORY.open(tmp_path / "s", SETTINGS)
    engine.write({b"k": b"v"}, b"marker")
    engine.flush()
    engine.close()
    for file in (tmp_path / "s").glob(name):
        file.unlink()
        file.mkdir()
    with pytest.raises(StoreCorrupted):
        FACTORY.open(tmp_path / "s", SETTINGS)


def test_every_bad_option_is_listed_with_what_is_allowed(tmp_path):
    properties = {
        "rocksdb.compression": "gzip",
        "rocksdb.block.size.bytes": "4k",
        "rocksdb.wal.enabled": "yes",
        "rocksdb.compaction.style": "lazy",
        "container.cache.size.bytes": "-1",
        "rocksdb.max.open.files": "-1",
    }
    found = {key: allowed for key, _, allowed in FACTORY.check(EngineSettings("s", properties))}
    assert set(found) == set(properties) - {"rocksdb.max.open.files"}
    assert found["rocksdb.compression"].startswith("expected one of snappy, ")
    with pytest.raises(ConfigError, match=r"stores\.s\.rocksdb\.block\.size\.bytes"):
        FACTORY.open(tmp_path, EngineSettings("s", properties))


def test_a_store_opens_with_every_option_that_is_known(tmp_path):
    from samzapy.config.stores.engines import ROCKSDB_NUMBERS

    given = {f"rocksdb.{name}": str(max(number.low, 8)) for name, number in ROCKSDB_NUMBERS.items()}
    given |= {
        "container.cache.size.bytes": "0",
        "rocksdb.compression": "lz4",
        "rocksdb.compaction.universal.compaction.stop.style": "similar",
    }
    for style in ("universal", "level", "fifo"):
        properties = given | {"rocksdb.compaction.style": style}
        if style == "fifo":
            properties["rocksdb.max.open.files"] = "-1"
        engine = FACTORY.open(tmp_path / style, EngineSettings("s", properties, tasks_in_container=4))
        engine.write({b"a": b"1"}, b"m")
        engine.flush()
        assert engine.get(b"a") == b"1"
        engine.close()
