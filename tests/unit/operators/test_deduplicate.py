"""Repetitions dropped, by output id and by a key of one's own."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samzapy import IncomingMessageEnvelope, SystemStreamPartition
from samzapy.api.identity import ID_HEADER, OutputId
from samzapy.operators import Deduplicator
from samzapy.testing import open_store

JOB = {
    "job.name": "dedup",
    "job.default.system": "mem",
    "systems.mem.samza.factory": "memory",
    "task.class": "a:B",
    "task.inputs": "mem.in",
    "stores.seen.factory": "inmemory",
    "stores.seen.key.serde": "string",
    "stores.seen.msg.serde": "json",
    "stores.seen.changelog": "mem.seen",
}


@pytest.fixture
def seen(tmp_path):
    with open_store(JOB, "seen", tmp_path) as opened:
        yield opened


def message(identity, partition=0):
    headers = None if identity is None else [("other", b"x"), (ID_HEADER, identity)]
    return IncomingMessageEnvelope(SystemStreamPartition("mem", "in", partition), 0, "k", "m", headers)


def test_an_output_id_is_read_from_the_headers():
    assert OutputId.of(message(b"a/b/topic/3/17/0").headers) == OutputId("a/b/topic", 3, 17, 0)
    assert OutputId.of(None) is None


def test_an_id_is_new_once_per_source_and_receiving_partition(seen):
    seen_before = Deduplicator(seen.store)
    assert [seen_before.is_new_id(message(i)) for i in (b"t/0/5/0", b"t/0/5/1", b"t/0/6/0")] == [True] * 3
    assert [seen_before.is_new_id(message(i)) for i in (b"t/0/5/0", b"t/0/5/1", b"t/0/6/0")] == [False] * 3
    assert seen_before.is_new_id(message(b"t/1/5/0"))
    assert seen_before.is_new_id(message(b"t/0/5/0", partition=1))


def test_a_message_without_an_id_is_always_new(seen):
    assert all(Deduplicator(seen.store).is_new_id(message(None)) for _ in range(2))


def test_what_was_seen_is_known_again_after_a_commit_and_a_crash(seen):
    Deduplicator(seen.store).is_new_id(message(b"t/0/5/0"))
    Deduplicator(seen.store).is_new_key("uuid-1")
    seen.commit()
    Deduplicator(seen.store).is_new_key("uuid-2")
    seen.crash()
    again = Deduplicator(seen.store)
    assert not again.is_new_id(message(b"t/0/5/0"))
    assert not again.is_new_key("uuid-1")
    assert again.is_new_key("uuid-2")


@settings(deadline=None)
@given(keys=st.lists(st.integers(0, 12).map(str), max_size=60), capacity=st.integers(1, 6))
def test_the_last_keys_are_remembered_and_no_more(keys, capacity, tmp_path_factory):
    with open_store(JOB, "seen", tmp_path_factory.mktemp("seen")) as opened:
        deduplicator, model = Deduplicator(opened.store, capacity), []
        for key in keys:
            assert deduplicator.is_new_key(key) == (key not in model)
            if key not in model:
                model = [*model, key][-capacity:]
        with opened.store.all() as entries:
            assert len(list(entries)) <= 2 * capacity + 1


def test_a_capacity_below_one_is_refused(seen):
    with pytest.raises(ValueError, match="capacity must be at least 1, got 0"):
        Deduplicator(seen.store, 0)


def test_outputs_of_a_broadcast_input_are_told_apart_by_their_tasks(seen):
    seen_before = Deduplicator(seen.store)
    both = (b"rates/0/5/0@Partition%200", b"rates/0/5/0@Partition%201")
    assert [seen_before.is_new_id(message(i)) for i in both] == [True, True]
    assert [seen_before.is_new_id(message(i)) for i in both] == [False, False]
    assert OutputId.of(message(both[1]).headers) == OutputId("rates", 0, 5, 0, "Partition 1")
