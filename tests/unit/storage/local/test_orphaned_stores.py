"""Local stores that nobody uses: which of them go, and when."""

import os

import pytest

from samzapy.api.engine import EngineSettings
from samzapy.clock import SYSTEM_CLOCK
from samzapy.storage.local.directory import GRACE_MS, new_checkpoint, sweep_orphans
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory

DAY_MS = 86_400_000
TTL_MS = 7 * DAY_MS
NOW_MS = SYSTEM_CLOCK.wall_ms()


@pytest.fixture
def made(tmp_path):
    """Makes a store of a task, as it was left so many days ago; returns its directory."""

    def make(task, days, store="counts"):
        path = tmp_path / "job-1" / store / task
        path.mkdir(parents=True)
        engine = RocksDbStorageEngineFactory().open(path, EngineSettings(store))
        engine.write({b"k": b"v"}, b"marker")
        engine.flush()
        engine.close()
        for file in (*path.iterdir(), path):
            os.utime(file, (NOW_MS / 1000 - days * 86_400,) * 2)
        return path

    return make


def sweep(base, *current, now_ms=NOW_MS, ttl_ms=TTL_MS):
    return [path.name for path in sweep_orphans(base, "job-1", current, ttl_ms, now_ms)]


def names(base):
    return sorted(path.name for path in (base / "job-1" / "counts").iterdir())


def test_an_old_store_is_set_aside_first_and_deleted_by_a_later_sweep(made, tmp_path):
    made("Partition_3", days=8)
    assert sweep(tmp_path) == ["Partition_3"]
    assert names(tmp_path) == [f"Partition_3.orphaned-{NOW_MS}"]
    assert sweep(tmp_path, now_ms=NOW_MS + GRACE_MS - 1) == []
    assert sweep(tmp_path, now_ms=NOW_MS + GRACE_MS) == [f"Partition_3.orphaned-{NOW_MS}"]
    assert names(tmp_path) == []


def test_current_and_younger_stores_stay(made, tmp_path):
    made("Partition_1", days=30)
    made("Partition_2", days=6)
    assert sweep(tmp_path, "Partition 1") == []
    assert names(tmp_path) == ["Partition_1", "Partition_2"]


def test_a_store_that_somebody_has_open_stays_however_old(made, tmp_path):
    path = made("Partition_1", days=30)
    engine = RocksDbStorageEngineFactory().open(path, EngineSettings("counts"))
    for file in (*path.iterdir(), path):
        os.utime(file, (0, 0))
    assert sweep(tmp_path) == []
    assert engine.get(b"k") == b"v"
    engine.close()
    for file in (*path.iterdir(), path):
        os.utime(file, (0, 0))
    assert sweep(tmp_path) == ["Partition_1"]


def test_the_files_of_snapshots_that_a_killed_process_has_left_go_also_those_of_current_tasks(made, tmp_path):
    old, young = (new_checkpoint(tmp_path / task).name for task in ("Partition_1", "Partition_3"))
    for name, days in [(old, 8), ("Partition_2.downloading", 8), (young, 6)]:
        # A checkpoint has no lock file.
        (made(name, days) / "LOCK").unlink()
        os.utime(tmp_path / "job-1" / "counts" / name, (NOW_MS / 1000 - days * 86_400,) * 2)
    assert sweep(tmp_path, "Partition 1", "Partition 2", "Partition 3") == [old, "Partition_2.downloading"]
    assert names(tmp_path) == [young]


@pytest.mark.parametrize("ending", ["downloading", "checkpoint-a", "stale-eu", "corrupt", "orphaned-9", "standby-eu"])
def test_a_store_of_a_task_whose_stream_is_named_like_a_copy_is_set_aside_before_it_is_deleted(made, tmp_path, ending):
    task = f"SystemStreamPartition_[kafka,_orders.{ending},_0]"
    path = made(task, days=8)
    engine = RocksDbStorageEngineFactory().open(path, EngineSettings("counts"))
    for file in (*path.iterdir(), path):
        os.utime(file, (0, 0))
    assert sweep(tmp_path) == []
    engine.close()
    for file in (*path.iterdir(), path):
        os.utime(file, (0, 0))
    assert sweep(tmp_path) == [task]
    assert names(tmp_path) == [f"{task}.orphaned-{NOW_MS}"]


def test_a_short_age_leaves_the_files_of_a_snapshot_that_may_still_be_uploaded(made, tmp_path):
    made(new_checkpoint(tmp_path / "Partition_1").name, days=0)
    assert sweep(tmp_path, ttl_ms=0) == []


def test_nothing_is_touched_without_an_age_or_outside_of_the_jobs_own_folder(made, tmp_path):
    made("Partition_1", days=900)
    assert sweep(tmp_path, ttl_ms=-1) == []
    assert sweep_orphans(tmp_path, "another-1", (), 0, NOW_MS) == []
    assert names(tmp_path) == ["Partition_1"]
