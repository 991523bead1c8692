"""`rocksdb.ttl.ms`, whatever the engine and the cache."""

from dataclasses import replace

import pytest
from rigs.store_rig import LOGGED, store_job

from samzapy.api.stream import SystemStreamPartition
from samzapy.config.loader import load_job
from samzapy.testing import ManualClock, open_store

HOUR = 3_600_000
STACKS = {
    "cached": {},
    "no-cache": {"object.cache.size": "0"},
    "copies": {"object.cache.mode": "copy"},
    "measured": {"disallow.large.messages": "true"},
}


@pytest.fixture
def clock():
    return ManualClock()


def job(**keys):
    return store_job(LOGGED | keys)


@pytest.fixture(params=["rocksdb", "inmemory"])
def engine(request):
    return request.param


@pytest.fixture(params=STACKS)
def opened(request, engine, tmp_path, clock):
    keys = {"factory": engine, "rocksdb.ttl.ms": str(HOUR), **STACKS[request.param]}
    with open_store(job(**keys), "s", tmp_path, clock) as opened:
        yield opened


def everything(store):
    with store.all() as found:
        return list(found)


def seen(store, key):
    """Every way to read one key."""
    with store.range(key, key + "~") as ranged, store.prefix(key) as prefixed, store.snapshot(key, key + "~") as kept:
        ways = [dict(ranged), dict(prefixed), dict(kept.iterator()), dict(everything(store))]
    return [store.get(key), store.get_all([key])[key], *(way.get(key) for way in ways)]


@pytest.mark.parametrize("committed", [True, False])
def test_an_entry_is_unreadable_at_once_when_its_time_is_over(opened, clock, committed):
    opened.store.put_all({"a": [1]})
    if committed:
        opened.commit()
    clock.advance((HOUR - 1) / 1000)
    assert seen(opened.store, "a") == [[1]] * 6
    clock.advance((1) / 1000)
    assert seen(opened.store, "a") == [None] * 6


def test_an_entry_expires_under_an_open_snapshot(opened, clock):
    opened.store.put("a", 1)
    with opened.store.snapshot("a", "b") as snapshot:
        assert list(snapshot.iterator()) == [("a", 1)]
        clock.advance((HOUR) / 1000)
        assert list(snapshot.iterator()) == []


def test_a_restore_neither_revives_nor_prolongs(opened, clock):
    opened.store.put("old", 1)
    clock.advance((HOUR // 2) / 1000)
    opened.store.put("young", 2)
    clock.advance((60_000) / 1000)  # the commit comes later than the puts
    opened.commit()
    clock.advance((HOUR // 2 - 60_000) / 1000)
    opened.lose_local_state()
    assert everything(opened.store) == [("young", 2)]
    clock.advance((HOUR // 2 - 1) / 1000)
    assert everything(opened.store) == [("young", 2)]
    clock.advance((1) / 1000)
    assert everything(opened.store) == []


def test_the_changelog_holds_the_users_bytes_and_the_times_of_the_puts(opened, clock):
    opened.store.put("a", {"n": 1})
    put_at = clock.wall_ms()
    clock.advance((5_000) / 1000)
    opened.store.delete("b")
    opened.commit()
    assert opened.changelog() == [(b"a", b'{"n":1}'), (b"b", None)]
    ssp = SystemStreamPartition("changelogs", "s-log", 0)
    admin = opened._clients.admin("changelogs")
    assert admin.offsets_at([ssp], put_at) == {ssp: 0}
    assert admin.offsets_at([ssp], put_at + 1) == {ssp: 1}


def test_what_has_expired_leaves_the_engine(tmp_path, clock, engine):
    with open_store(job(factory=engine, **{"rocksdb.ttl.ms": str(HOUR)}), "s", tmp_path, clock) as opened:
        opened.store.put_all((f"old-{i:05}", i) for i in range(2_500))
        opened.commit()
        clock.advance((HOUR) / 1000)
        for round_ in range(4):
            opened.store.put("new", round_)
            opened.commit()
        (held,) = opened.stores.held.values()
        with held.engine.iterate(None, None) as pairs:
            assert [key for key, _ in pairs] == [b"new"]
        assert opened.stores.metrics()["s.expired-removed"] == 2_500
        assert len(opened.changelog()) == 2_504


def test_a_local_store_from_before_the_key_was_set_is_rebuilt(tmp_path, clock):
    changelogs = load_job(job(changelog=None) | {"systems.log.samza.factory": "local"}).systems["log"]
    changelogs = replace(changelogs, properties={"path": str(tmp_path / "log.db")})
    with open_store(job(), "s", tmp_path / "state", clock, changelogs) as opened:
        opened.store.put("a", 1)
        opened.commit()
    with open_store(job(**{"rocksdb.ttl.ms": str(HOUR)}), "s", tmp_path / "state", clock, changelogs) as opened:
        assert "lack the times of their puts (rocksdb.ttl.ms)" in opened.restored.reason
        assert opened.store.get("a") == 1
