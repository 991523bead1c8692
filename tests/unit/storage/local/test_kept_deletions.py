"""A changelog that forgets deletions: no local store brings deleted keys back, whatever the topic was set to
meanwhile."""

import json

import pytest
from rigs.store_rig import LOGGED, store_job

from samzapy.api.system import SystemSettings
from samzapy.storage.backup.folder import BackupFolder
from samzapy.storage.local.marker import Marker
from samzapy.storage.opening import StoreOpener
from samzapy.system.local.factory import MemoryCluster
from samzapy.testing import ManualClock, open_store

DAY_MS = 86_400_000
JOB = store_job(LOGGED | {"changelog": "memory.log", "changelog.delete.retention.ms": "60000"})


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def node(clock, tmp_path):
    """Opens the store on a machine of that name."""
    MemoryCluster.reset_all()
    MemoryCluster.named("changelogs").clock = clock
    settings = SystemSettings("changelogs", "samzapy.system.local.factory:MemorySystemFactory")
    return lambda name, **keys: open_store(JOB | keys, "s", tmp_path / name, clock, settings)


def set_retention(delete_retention_ms: int) -> None:
    """As an operator does with `kafka-configs`."""
    database = MemoryCluster.named("changelogs").database
    with database.write():
        (config,) = database.execute("SELECT config FROM streams WHERE name = 'log'").fetchone()
        config = json.dumps({**json.loads(config), "delete.retention.ms": str(delete_retention_ms)})
        database.execute("UPDATE streams SET config = ? WHERE name = 'log'", (config,))


def kept_ms(opened) -> int | None:
    held = opened.stores.held["s"]
    return Marker.from_bytes(held.engine.marker()).identity.deletions_kept_ms


def delete_elsewhere(node, clock, keys) -> None:
    with node("b") as opened:
        opened.store.delete_all(keys)
        opened.store.put("new", 1)
        opened.commit()
        opened.compact()
        clock.advance(120)
        opened.compact()
        assert not [key for key, value in opened.changelog() if value is None]


def test_raising_the_retention_while_a_node_is_away_brings_no_deleted_key_back(node, clock):
    keys = [f"k{n}" for n in range(30)]
    with node("a") as opened:
        opened.store.put_all(dict.fromkeys([*keys, "kept"], 1))
        opened.commit()
    delete_elsewhere(node, clock, keys)
    set_retention(DAY_MS)
    with node("a") as opened:
        assert opened.restored.reason == "it is 120000 ms old, deletions were kept for 60000 ms (delete.retention.ms)"
        assert dict(opened.store.all()) == {"kept": 1, "new": 1}


def test_the_lowest_retention_of_a_stores_life_is_kept_through_restores_and_commits(node):
    with node("a") as opened:
        opened.store.put("a", 1)
        opened.commit()
        assert kept_ms(opened) == 60_000
    set_retention(DAY_MS)
    with node("b") as opened:
        opened.store.put("b", 1)
        opened.commit()
    with node("a") as opened:
        assert opened.restored.source == "local store + changelog"
        assert kept_ms(opened) == 60_000
        opened.store.put("c", 1)
        opened.commit()
        assert kept_ms(opened) == 60_000
    set_retention(30_000)
    with node("a") as opened:
        opened.store.put("d", 1)
        opened.commit()
        assert kept_ms(opened) == 30_000


def test_a_store_that_is_rebuilt_begins_with_the_retention_of_today(node, clock):
    with node("a") as opened:
        opened.store.put("a", 1)
        opened.commit()
    delete_elsewhere(node, clock, ["a"])
    set_retention(DAY_MS)
    with node("a") as opened:
        assert opened.restored.reason
        assert kept_ms(opened) == DAY_MS


def test_a_store_that_grows_too_old_while_other_stores_are_opened_is_rebuilt(node, clock, monkeypatch):
    with node("a") as opened:
        opened.store.put("a", 1)
        opened.commit()
        opened.store.put("b", 2)
        opened.send_changes()
        opening = StoreOpener.open

        def late(*arguments):
            stores = opening(*arguments)
            clock.advance(60)
            return stores

        monkeypatch.setattr(StoreOpener, "open", late)
        opened.reopen()
        assert (opened.restored.source, dict(opened.store.all())) == ("changelog", {"a": 1, "b": 2})
        assert opened.restored.reason == "it is 60000 ms old, deletions are kept for 60000 ms (delete.retention.ms)"


def test_a_snapshot_that_grows_too_old_on_its_way_is_not_used(node, clock, tmp_path, monkeypatch):
    snapshots = {"stores.s.backup.path": (tmp_path / "snapshots").as_uri(), "stores.s.backup.interval.ms": "0"}
    with node("a", **snapshots) as opened:
        opened.store.put("a", 1)
        opened.commit()
        opened.stores.held["s"].backup.settle()
        opened.store.put("b", 2)
        opened.send_changes()
    arrived = BackupFolder.get_file

    def late(*arguments):
        clock.advance(20)
        arrived(*arguments)

    monkeypatch.setattr(BackupFolder, "get_file", late)
    with node("b", **snapshots) as opened:
        assert (opened.restored.source, dict(opened.store.all())) == ("changelog", {"a": 1, "b": 2})
