"""What a failed message has changed is undone, in whatever way it was changed."""

import asyncio
import operator

import pytest
from rigs.store_rig import store_job

from samzapy import CoroutineTask, InitableTask
from samzapy.api.event_time import ClockListenerTask
from samzapy.container.errors.recovery import UndoJournal
from samzapy.testing import ManualClock, TaskTestDriver, open_store

JOB = store_job({"factory": "rocksdb", "key.serde": "json", "msg.serde": "json"}) | {
    "task.error.process.policy": "skip"
}
CACHES = {"shared": {}, "tiny": {"container.cache.max.bytes": "1000"}, "none": {"stores.s.object.cache.size": "0"}}


@pytest.fixture(params=CACHES)
def watched(request, tmp_path):
    """The store as it is, as a message sees it, and the journal of its changes."""
    with open_store({**JOB, **CACHES[request.param]}, "s", tmp_path) as opened:
        journal = UndoJournal()
        yield opened.store, journal.watching(opened.stores.stores)["s"], journal


CHANGES = {
    "put_all": lambda store: store.put_all({"held": 2, "new": 2}),
    "put_all of repeated keys": lambda store: store.put_all([("held", 2), ("held", 3), ("new", 4)]),
    "put_all of keys that Python finds equal": lambda store: store.put_all([(1, "x"), (True, "y"), (1.0, "z")]),
    "delete_all": lambda store: store.delete_all(["held", 1, "new", "held"]),
    "merge_all": lambda store: store.merge_all({"held": 2, "new": 2, "other": 3}, operator.add),
    "all of them": lambda store: [change(store) for name, change in CHANGES.items() if name != "all of them"],
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_a_failed_message_is_undone(watched, change):
    store, seen, journal = watched
    store.put_all([("held", 1), ("other", 1), (1, 1), (True, 2), (1.0, 3)])
    before = list(store.all())
    journal.begin()
    CHANGES[change](seen)
    assert list(store.all()) != before
    journal.undo()
    assert list(store.all()) == before


def test_a_merge_that_fails_leaves_nothing_to_undo(watched):
    store, seen, journal = watched
    store.put_all({"a": 1, "b": 1})
    journal.begin()
    with pytest.raises(TypeError):
        seen.merge_all({"a": 1, "b": "text"}, operator.add)
    journal.undo()
    assert dict(store.all()) == {"a": 1, "b": 1}


def test_an_object_that_an_undone_message_has_changed_fails_no_commit(tmp_path):
    with open_store({**JOB, "stores.s.object.cache.check": "true"}, "s", tmp_path) as opened:
        journal = UndoJournal()
        seen = journal.watching(opened.stores.stores)["s"]
        seen.put("a", [1])
        journal.begin()
        seen.get("a").append(2)
        journal.undo()
        opened.commit()
        assert dict(opened.store.all()) == {"a": [1]}


class SlowListener(CoroutineTask, InitableTask, ClockListenerTask):
    """Fails a while after it has begun each second message, and notes its clock in its store."""

    def init(self, context):
        self.store = context.get_store("s")

    async def process(self, envelope, collector, coordinator):
        self.store.put(f"message {envelope.offset}", True)
        for _ in range(10):
            await asyncio.sleep(0)
        if envelope.offset % 2:
            raise ValueError("told to")

    def on_clock(self, clock, collector, coordinator):
        self.store.put(f"clock {clock.time_ms}", True)


def test_a_message_that_fails_undoes_nothing_of_on_clock_meanwhile():
    with TaskTestDriver(SlowListener, JOB | {"stores.s.factory": "memory"}) as driver:
        for time_ms in (10, 20, 30):
            # A poll for each message: the clock moves by one while the next is in flight.
            driver.post("in", b"", timestamp=time_ms)
            driver._loop.turn(0.0)
        driver.run()
        assert set(driver.store("s").all()) == {
            (name, True) for name in ("message 0", "message 2", "clock 10", "clock 20", "clock 30")
        }


LAYERS = {
    "none": {},
    "copies": {"stores.s.object.cache.mode": "copy"},
    "checked": {"stores.s.object.cache.check": "true", "stores.s.object.cache.mode": "reference"},
    "direct": {"stores.s.object.cache.size": "0"},
}


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("change", CHANGES)
def test_an_undone_change_does_not_prolong_the_life_of_an_entry(tmp_path, layers, change):
    clock = ManualClock()
    with open_store({**JOB, **LAYERS[layers], "stores.s.rocksdb.ttl.ms": "1000"}, "s", tmp_path, clock) as opened:
        journal = UndoJournal()
        seen = journal.watching(opened.stores.stores)["s"]
        opened.store.put_all([("held", 1), ("other", 1), (1, 1), (True, 2), (1.0, 3)])
        before = list(opened.store.all())
        clock.advance(0.999)
        journal.begin()
        CHANGES[change](seen)
        journal.undo()
        assert list(opened.store.all()) == before
        opened.commit()
        clock.advance(0.001)
        assert list(opened.store.all()) == []
