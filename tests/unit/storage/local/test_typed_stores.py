"""Stores of a class: what was written before, and after fields were added; what cannot be read is refused at the
start."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jobs.typed_views import ModelView, NamedVisits, Place, TupleView, Visits, VisitsSince

from samzapy.api.engine import EngineSettings
from samzapy.api.system import SystemSettings
from samzapy.errors import ConfigError, SerdeError, StoreError
from samzapy.storage.kv import InMemoryStorageEngineFactory
from samzapy.storage.local.files import sample
from samzapy.system.memory import MemoryCluster
from samzapy.testing import ManualClock, open_store

JOB = {
    "job.name": "typed",
    "task.class": "some.module:Task",
    "task.inputs": "k.in",
    "systems.k.samza.factory": "memory",
    "stores.s.factory": "rocksdb",
    "stores.s.key.serde": "string",
    "stores.s.msg.serde": "json",
    "stores.s.changelog": "k.log",
}
VISITS = {"stores.s.msg.type": "jobs.typed_views:Visits"}
SINCE = {"stores.s.msg.type": "jobs.typed_views:VisitsSince"}
NAMED = {"stores.s.msg.type": "jobs.typed_views:NamedVisits"}


@pytest.fixture
def opened_as(tmp_path):
    """Opens the store with other keys of the job file, always on the same changelog and disk."""
    MemoryCluster.reset_all()
    settings = SystemSettings("changelogs", "samzapy.system.memory:MemorySystemFactory")
    yield lambda clock=None, **keys: open_store(
        JOB | keys, "s", tmp_path, clock=clock or ManualClock(), changelogs=settings
    )
    MemoryCluster.reset_all()


def test_a_store_of_plain_json_is_opened_with_a_class_that_fits_and_with_more_fields_later(opened_as):
    with opened_as() as opened:
        opened.store.put("ann", {"count": 1})
        opened.commit()
    with opened_as(**VISITS) as opened:
        assert opened.restored.source == "local store"
        assert opened.store.get("ann") == Visits(1)
        opened.store.put("gus", Visits(2))
        opened.commit()
    with opened_as(**SINCE) as opened:
        assert opened.restored.source == "local store"
        assert opened.store.get("ann") == VisitsSince(1)
        opened.store.put("eve", VisitsSince(3, 17))
        opened.commit()
        opened.lose_local_state()
        assert opened.restored.source == "changelog"
        assert dict(opened.store.all()) == {"ann": VisitsSince(1), "eve": VisitsSince(3, 17), "gus": VisitsSince(2)}
    with opened_as() as opened:
        assert opened.store.get("ann") == {"count": 1}


@pytest.mark.parametrize("lost", [False, True])
def test_a_class_that_cannot_read_what_the_store_holds_is_refused_at_the_start_in_one_line(opened_as, lost):
    with opened_as() as opened:
        opened.store.put("ann", {"count": 1})
        opened.commit()
    lose = {"stores.s.clean.on.container.start": "true"} if lost else {}
    with pytest.raises(ConfigError) as refused, opened_as(**NAMED, **lose):
        pass
    assert refused.value.exit_code == 2
    line = str(refused.value)
    assert line.startswith(
        "stores.s.msg.type: does not read what the store holds: key 'ann': $.count: Expected str, got int;"
    )
    assert line.endswith("got 'jobs.typed_views:NamedVisits'")
    assert "\n" not in line
    with opened_as(**VISITS) as opened:
        assert opened.store.get("ann") == Visits(1)


def test_an_entry_that_does_not_fit_is_found_among_many_of_another_kind(opened_as):
    with opened_as() as opened:
        opened.store.put_all((f"user-{number:05}", {"count": "1"}) for number in range(3_000))
        opened.store.put_all((f"visitor-{number:05}", {"count": 1}) for number in range(3_000))
        opened.commit()
    with pytest.raises(ConfigError, match="key 'visitor-"), opened_as(**NAMED):
        pass


@given(st.sets(st.binary(max_size=6), max_size=300))
def test_a_sample_has_the_first_entries_and_one_after_each_kind_of_key(keys):
    engine = InMemoryStorageEngineFactory().open(None, EngineSettings("s"))
    engine.write(dict.fromkeys(keys, b"v"), b"marker")
    snapshot = engine.snapshot()
    found = [key for key, _ in sample(snapshot)]
    assert found[:64] == sorted(keys)[:64]
    assert set(found) <= keys
    if len(keys) > 64:
        last = max(keys)
        assert any(last[0] - key[0] <= 4 for key in found if key)


def test_keys_of_a_class_are_found_again_in_their_order(opened_as):
    keys = {"stores.s.key.serde": "json", "stores.s.key.type": "jobs.typed_views:Place"}
    with opened_as(**keys, **VISITS) as opened:
        opened.store.put(Place("b", "/"), Visits(2))
        opened.store.put(Place("a", "/"), Visits(1))
        opened.commit()
        opened.crash()
        assert list(opened.store.all()) == [(Place("a", "/"), Visits(1)), (Place("b", "/"), Visits(2))]
        assert opened.store.get(Place("b", "/")) == Visits(2)
    keys |= {"stores.s.key.type": "jobs.typed_views:TupleView"}
    message = r"stores\.s\.key\.type: does not read .*Expected array, got object"
    with pytest.raises(ConfigError, match=message), opened_as(**keys, **VISITS):
        pass


def test_a_tuple_is_a_key_too(opened_as):
    with opened_as(**{"stores.s.key.serde": "msgpack", "stores.s.key.type": "jobs.typed_views:TupleView"}) as opened:
        opened.store.put(TupleView("ann"), {"count": 1})
        opened.commit()
        opened.crash()
        assert opened.store.get(TupleView("ann")) == {"count": 1}


def test_a_cache_of_copies_hands_out_objects_that_are_its_own(opened_as):
    with opened_as(**VISITS, **{"stores.s.object.cache.mode": "copy"}) as opened:
        opened.store.put("ann", Visits(1))
        opened.store.get("ann").count = 99
        assert opened.store.get("ann") == Visits(1)


def test_the_check_of_the_cache_finds_an_object_that_was_changed_and_not_put(opened_as):
    with opened_as(**VISITS, **{"stores.s.object.cache.check": "true"}) as opened:
        opened.store.put("ann", Visits(1))
        opened.commit()
        opened.store.get("ann").count = 99
        with pytest.raises(StoreError, match="the value of key 'ann' was changed without a put"):
            opened.commit()


def test_objects_expire(opened_as):
    clock = ManualClock()
    keys = {**VISITS, "stores.s.rocksdb.ttl.ms": "1000"}
    with opened_as(clock, **keys) as opened:
        opened.store.put("ann", Visits(1))
        opened.commit()
        opened.crash()
        assert opened.store.get("ann") == Visits(1)
        clock.advance(2)
        assert opened.store.get("ann") is None
        opened.store.put("ann", Visits(1))
        opened.commit()
    with pytest.raises(ConfigError, match=r"key 'ann': \$\.count: Expected str"), opened_as(clock, **keys | NAMED):
        pass


def test_an_object_that_is_too_large_is_refused_as_bytes_are(opened_as):
    keys = {"stores.s.msg.type": "jobs.typed_views:ModelView", "stores.s.changelog.max.message.size.bytes": "1000"}
    keys |= {"stores.s.disallow.large.messages": "true"}
    with opened_as(**keys) as opened:
        opened.store.put("small", ModelView(user="ann"))
        with pytest.raises(StoreError):
            opened.store.put("large", ModelView(user="a" * 2_000))


def test_an_object_of_another_class_is_refused(opened_as):
    message = "store 's': value of key 'ann': expected Visits, got NamedVisits"
    with opened_as(**VISITS) as opened, pytest.raises(SerdeError, match=message):
        opened.store.put("ann", NamedVisits("1"))


@settings(max_examples=15)
@given(st.dictionaries(st.text(min_size=1), st.integers(-(2**62), 2**62)), st.sampled_from(["json", "msgpack"]))
def test_whatever_is_put_is_there_after_a_commit_and_a_crash(counts, serde):
    job = {**JOB, **VISITS, "stores.s.msg.serde": serde, "stores.s.factory": "inmemory"}
    with open_store(job, "s", "unused") as opened:
        opened.store.put_all((key, Visits(count)) for key, count in counts.items())
        opened.commit()
        opened.crash()
        assert dict(opened.store.all()) == {key: Visits(count) for key, count in counts.items()}
