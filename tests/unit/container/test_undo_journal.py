"""What a failed message has changed is undone, in whatever way it was changed."""

import operator

import pytest

from samzapy import BatchTask, InitableTask, StreamTask
from samzapy.container.errors.undo_journal import UndoJournal
from samzapy.testing import ManualClock, TaskTestDriver, open_store

CACHES = {"shared": {}, "tiny": {"container.cache.max.bytes": "1000"}, "none": {"stores.s.object.cache.size": "0"}}


@pytest.fixture(params=CACHES)
def watched(request, tmp_path):
    """The store as it is, as a message sees it, and the journal of its changes."""
    keys = {
        "job.name": "undo",
        "task.class": "some.module:Task",
        "task.inputs": "memory.in",
        "systems.memory.samza.factory": "memory",
        "task.error.process.policy": "skip",
        "stores.s.factory": "rocksdb",
        "stores.s.key.serde": "json",
        "stores.s.msg.serde": "json",
        **CACHES[request.param],
    }
    with open_store(keys, "s", tmp_path) as opened:
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


def fail_if_bad(message):
    if message == "bad":
        raise ValueError("told to")


class LastMessage(StreamTask, InitableTask):
    """Keeps the last message of each key."""

    def init(self, context):
        self.last = context.get_store("last")

    def process(self, envelope, collector, coordinator):
        self.last.put(envelope.key, envelope.message)
        fail_if_bad(envelope.message)


class MessageLists(BatchTask, InitableTask):
    """Keeps the messages of each key."""

    def init(self, context):
        self.last = context.get_store("last")

    def process_batch(self, batch, collector, coordinator):
        self.last.merge_all({envelope.key: [envelope.message] for envelope in batch}, operator.add)
        fail_if_bad(batch.messages[0])


EXPIRING = {
    "task.inputs": "sys.in",
    "task.error.process.policy": "skip",
    "systems.sys.default.stream.samza.key.serde": "string",
    "systems.sys.default.stream.samza.msg.serde": "json",
    "stores.last.factory": "inmemory",
    "stores.last.key.serde": "string",
    "stores.last.msg.serde": "json",
    "stores.last.changelog": "sys.last-changelog",
    "stores.last.rocksdb.ttl.ms": "10000",
}


@pytest.mark.parametrize("cache", ["reference", "copy"])
@pytest.mark.parametrize("task", [LastMessage, MessageLists])
def test_an_entry_that_a_failed_message_has_changed_expires_as_if_it_had_not(task, cache):
    good = "good" if task is LastMessage else ["good"]
    with TaskTestDriver(task, EXPIRING | {"stores.last.object.cache.mode": cache}, clock=ManualClock()) as driver:
        driver.send("in", "good", key="a")
        driver.advance(8)
        driver.send_batch("in", ["a", "b"], ["bad", "good"])
        assert driver.store("last").get_all(["a", "b"]) == {"a": good, "b": good}
        driver.advance(3)
        assert driver.store("last").get_all(["a", "b"]) == {"a": None, "b": good}


def test_a_value_that_is_too_large_by_now_comes_back(tmp_path):
    keys = {
        "job.name": "undo",
        "task.class": "some.module:Task",
        "task.inputs": "memory.in",
        "systems.memory.samza.factory": "memory",
        "task.error.process.policy": "skip",
        "stores.s.factory": "inmemory",
        "stores.s.key.serde": "string",
        "stores.s.msg.serde": "string",
        "stores.s.drop.large.messages": "true",
        "stores.s.changelog.max.message.size.bytes": "100",
    }
    with open_store(keys, "s", tmp_path) as opened:
        journal = UndoJournal()
        # It was put when the limit was higher.
        opened.store.put_back([("k", b"x" * 500)])
        journal.begin()
        journal.watching(opened.stores.stores)["s"].put("k", "small")
        journal.undo()
        assert opened.store.get("k") == "x" * 500
