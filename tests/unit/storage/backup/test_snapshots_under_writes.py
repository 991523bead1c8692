"""Snapshots that are made while their store is written to."""

import threading

import pytest

from samzapy.api.engine import EngineSettings
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.stores.store import BackupConfig
from samzapy.storage.backup import snapshot
from samzapy.storage.backup.folder import open_folder
from samzapy.storage.backup.snapshot import StoreBackup, newest_snapshot
from samzapy.storage.local.directory import checkpoints_beside, new_checkpoint
from samzapy.storage.local.marker import Marker, StoreIdentity
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory
from samzapy.testing import ManualClock

FACTORY = RocksDbStorageEngineFactory()
SETTINGS = EngineSettings("s", {"container.write.buffer.size.bytes": "65536"})
IDENTITY = StoreIdentity("job-1", "s", 0, "t")
KEYS = [b"%04d" % number for number in range(200)]
MARKER = Marker(IDENTITY, 1, 1).to_bytes()
ALWAYS = BackupConfig("", interval_ms=0)


@pytest.fixture
def place(tmp_path):
    return open_folder((tmp_path / "backup").as_uri(), {}, "s")


def test_every_snapshot_is_the_store_after_one_commit(tmp_path, place):
    engine = FACTORY.open(tmp_path / "store", SETTINGS)
    whole = []

    def marker_of(checkpoint):
        opened = FACTORY.open(checkpoint, SETTINGS, read_only=True)
        marker = opened.marker()
        # Each commit writes its number to every key.
        whole.append(set(opened.get_all(KEYS)) == {b"%d" % Marker.from_bytes(marker).changelog_offset * 20})
        opened.close()
        return marker

    backup = StoreBackup(engine.checkpoint, tmp_path / "store", marker_of, lambda: place, ALWAYS, SYSTEM_CLOCK)
    for number in range(20_000):
        marker = Marker(IDENTITY, number, number + 1).to_bytes()
        engine.write(dict.fromkeys(KEYS, b"%d" % number * 20), marker)
        backup.committed()
        if len(whole) >= 8:
            break
    backup.close()
    engine.close()
    assert backup.metrics()["snapshot-failures"] == 0
    assert len(whole) >= 8
    assert all(whole)
    restored = newest_snapshot(place, tmp_path / "restored", lambda marker: None)
    opened = FACTORY.open(tmp_path / "restored", SETTINGS)
    assert set(opened.get_all(KEYS)) == {b"%d" % restored.changelog_offset * 20}
    opened.close()


def test_a_commit_does_not_wait_for_the_snapshot_it_begins(tmp_path, place):
    engine = FACTORY.open(tmp_path / "store", SETTINGS)
    engine.write({b"a": b"1"}, MARKER)
    may_open, opened = threading.Event(), threading.Event()

    def slow_place():
        opened.set()
        assert may_open.wait(60)
        return place

    backup = StoreBackup(engine.checkpoint, tmp_path / "store", lambda _: MARKER, slow_place, ALWAYS, SYSTEM_CLOCK)
    backup.committed()
    assert opened.wait(60)
    for _ in range(10):
        backup.committed()
    assert place.indexes() == []
    may_open.set()
    backup.settle()
    assert len(place.indexes()) == 1
    backup.close()
    engine.close()


def test_a_snapshot_is_due_after_a_while_if_the_store_has_changed(tmp_path, place):
    engine = FACTORY.open(tmp_path / "store", SETTINGS)
    engine.write({b"a": b"1"}, MARKER)
    clock = ManualClock()
    config = BackupConfig("", interval_ms=5_000)
    backup = StoreBackup(engine.checkpoint, tmp_path / "store", lambda _: MARKER, lambda: place, config, clock)
    backup.committed()
    backup.settle()
    assert place.indexes() == []
    clock.advance(5)
    backup.committed()
    backup.settle()
    assert len(place.indexes()) == 1
    backup.close()
    engine.close()


def test_the_checkpoint_that_a_killed_process_has_left_is_deleted_whatever_the_tasks_name(tmp_path, place, monkeypatch):
    looked = []
    monkeypatch.setattr(snapshot, "checkpoints_beside", lambda at: looked.append(at) or checkpoints_beside(at))
    path = tmp_path / "SystemStreamPartition_[kafka,_orders,_0]"
    engine = FACTORY.open(path, SETTINGS)
    engine.write({b"a": b"1"}, MARKER)
    left = new_checkpoint(path)
    left.mkdir()
    backup = StoreBackup(engine.checkpoint, path, lambda _: MARKER, lambda: place, ALWAYS, SYSTEM_CLOCK)
    for _ in range(2):
        backup.committed()
        backup.settle()
    assert not left.exists()
    assert (backup.metrics()["snapshots"], looked) == (2, [path]), "a look reads the names of all tasks' stores"
    backup.close()
    engine.close()
