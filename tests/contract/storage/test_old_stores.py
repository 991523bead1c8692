"""A store that is older than its changelog keeps deletions: used if nothing but control records lies behind it."""

import uuid
from dataclasses import replace

import pytest
from rigs.store_rig import LOGGED, store_job
from systems import SYSTEMS

from samzapy.storage.local.directory import set_asides
from samzapy.storage.local.marker import Marker
from samzapy.system.clients import system_factory
from samzapy.testing import ManualClock, open_store


@pytest.fixture(params=list(SYSTEMS.values()))
def settings(request):
    return request.param(request)


@pytest.fixture
def clock():
    return ManualClock()


class Rig:
    """A store whose commits are transactions, as in an exactly-once job."""

    def __init__(self, opened, settings, clock):
        self.opened = opened
        self.clock = clock
        # The system that holds the changelogs goes by this name.
        self.settings = replace(settings, name="changelogs")
        self.transactional_id = f"rig-{uuid.uuid4().hex}"
        self.producer = self.owner()

    def owner(self):
        """The producer of a new run. As in a job, it waits until the transactions of the previous one are complete: a
        broker answers a commit before its markers are written."""
        producer = system_factory(self.settings).producer(self.settings, "rig", self.transactional_id)
        producer.init_transactions()
        return producer

    def transaction(self, *, commit=True, apply=True):
        stores = self.opened.stores
        self.producer.begin()
        stores.flush()
        stores.send_changes(lambda _: self.producer)
        self.producer.flush()
        admin = system_factory(self.settings).admin(self.settings, "rig")
        offsets = stores.changelog_offsets(lambda ssp: admin.offsets([ssp])[ssp].upcoming - 1)
        admin.close()
        if not commit:
            self.producer.abort()
            return
        self.producer.commit()
        stores.changes_committed(1)
        if apply:
            stores.apply(offsets, {})

    def committed(self, changes):
        for key, value in changes.items():
            if value is None:
                self.opened.store.delete(key)
            else:
                self.opened.store.put(key, value)
        self.transaction()

    def marker(self):
        held = self.opened.stores.held["s"]
        return Marker.from_bytes(held.engine.marker())

    def start_again(self, after_s):
        self.opened.close()
        self.clock.advance(after_s)
        self.producer.close()
        self.producer = self.owner()
        self.opened.reopen()
        return self.opened.restored


@pytest.fixture
def rig(settings, clock, tmp_path):
    changelog = f"memory.old-stores-{uuid.uuid4().hex[:8]}"
    job = store_job(LOGGED | {"changelog": changelog, "changelog.delete.retention.ms": "60000"})
    with open_store(job, "s", tmp_path / "state", clock, settings) as opened:
        rig = Rig(opened, settings, clock)
        yield rig
        rig.producer.close()


def test_a_commit_marker_alone_is_no_change(rig):
    rig.committed({"a": 1, "b": 2})
    restored = rig.start_again(after_s=120)
    assert restored.source.startswith("local store")
    assert (restored.records, restored.reason) == (0, "")
    assert dict(rig.opened.store.all()) == {"a": 1, "b": 2}
    assert set_asides(rig.opened.directory) == []
    # Where a commit leaves no control record, nothing was read, and the marker is the one that was found.
    read = restored.source == "local store + changelog"
    assert rig.marker().time_ms == rig.clock.wall_ms() - (0 if read else 120_000)


def test_records_that_were_aborted_are_no_change(rig):
    rig.committed({"a": 1})
    rig.opened.store.put("b", 2)
    rig.transaction(commit=False)
    rig.opened.stores.discard()
    restored = rig.start_again(after_s=120)
    assert (restored.records, restored.reason) == (0, "")
    assert dict(rig.opened.store.all()) == {"a": 1}


def test_with_a_record_behind_it_a_store_that_is_too_old_is_rebuilt(rig):
    rig.committed({"a": 1, "b": 2})
    rig.opened.store.put("c", 3)
    rig.transaction(apply=False)
    restored = rig.start_again(after_s=120)
    assert restored.source == "changelog"
    assert restored.reason == "it is 120000 ms old, deletions are kept for 60000 ms (delete.retention.ms)"
    assert dict(rig.opened.store.all()) == {"a": 1, "b": 2, "c": 3}
    assert len(set_asides(rig.opened.directory)) == 1


def test_with_a_record_behind_it_a_young_store_is_used(rig):
    rig.committed({"a": 1})
    rig.opened.store.put("b", 2)
    rig.transaction(apply=False)
    restored = rig.start_again(after_s=59)
    assert (restored.source, restored.records) == ("local store + changelog", 1)
    assert dict(rig.opened.store.all()) == {"a": 1, "b": 2}
