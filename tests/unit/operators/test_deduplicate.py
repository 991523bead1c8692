"""Repetitions dropped, by output id and by a key of one's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rigs.store_rig import LOGGED, store_job

from samzapy import IncomingMessageEnvelope, SystemStreamPartition
from samzapy.api.envelope import ID_HEADER, OutputId, source_of
from samzapy.container.errors.recovery import JournaledStore, UndoJournal
from samzapy.operators import Deduplicator
from samzapy.testing import open_store

JOB = store_job(LOGGED | {"factory": "inmemory"}, "seen")


@pytest.fixture
def seen(tmp_path):
    with open_store(JOB, "seen", tmp_path) as opened:
        yield opened


def message(identity, partition=0):
    headers = None if identity is None else [("other", b"x"), (ID_HEADER, identity)]
    return IncomingMessageEnvelope(SystemStreamPartition("mem", "in", partition), 0, "k", "m", headers=headers)


def test_an_output_id_is_read_from_the_headers():
    ssp = SystemStreamPartition("kafka", "in put", 3)
    source = source_of(("a:b", "1/2"), ssp, "x==", "Partition 3", "letter")
    text = b"2:a%3Ab:1%2F2:kafka:in%20put:x%3D%3D:3:Partition%203:letter"
    assert source.encode() == text
    found = OutputId.of(message(text + b":17:2").headers)
    assert found == OutputId(source, 17, 2)
    assert OutputId.of(None) is None


names = st.text(st.sampled_from("ab:/%@2 "), max_size=4)


def spelled(job, job_id, system, stream, stream_id, task):
    return source_of((job, job_id), SystemStreamPartition(system, stream, 0), stream_id, task, "out")


@given(left=st.tuples(*[names] * 6), right=st.tuples(*[names] * 6))
def test_two_sources_are_never_spelled_alike(left, right):
    assert (spelled(*left) == spelled(*right)) == (left == right)


def test_an_output_id_of_a_later_version_is_refused_and_not_dropped(seen):
    with pytest.raises(ValueError, match="header samzapy-id: expected version 2, got '3'"):
        Deduplicator(seen.store).is_new_id(message(b"3:a:b:c"))


def test_an_id_is_new_once_per_source_and_receiving_partition(seen):
    seen_before = Deduplicator(seen.store)
    assert [seen_before.is_new_id(message(i)) for i in (b"2:t:0:5:0", b"2:t:0:5:1", b"2:t:0:6:0")] == [True] * 3
    assert [seen_before.is_new_id(message(i)) for i in (b"2:t:0:5:0", b"2:t:0:5:1", b"2:t:0:6:0")] == [False] * 3
    assert seen_before.is_new_id(message(b"2:t:1:5:0"))
    assert seen_before.is_new_id(message(b"2:t:0:5:0", partition=1))


def test_what_was_seen_is_known_again_after_a_commit_and_a_crash(seen):
    Deduplicator(seen.store).is_new_id(message(b"2:t:0:5:0"))
    Deduplicator(seen.store).is_new_key("uuid-1")
    seen.commit()
    Deduplicator(seen.store).is_new_key("uuid-2")
    seen.crash()
    again = Deduplicator(seen.store)
    assert not again.is_new_id(message(b"2:t:0:5:0"))
    assert not again.is_new_key("uuid-1")
    assert again.is_new_key("uuid-2")


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


def new(deduplicator, ids):
    """Which of the (offset, number) pairs are new, in the order they come."""
    return [each for each in ids if deduplicator.is_new_id(message(b"2:j:1:s:t:x:0::out:%d:%d" % each))]


@given(
    start=st.integers(0, 3),
    order=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 2)), max_size=120),
    window=st.sampled_from([64, 120]),
)
def test_ids_in_any_order_are_new_once_if_no_more_than_the_window_came_since(start, order, window, tmp_path_factory):
    with open_store(JOB, "seen", tmp_path_factory.mktemp("seen")) as opened:
        # Enough in order before, so that chunks are forgotten: what is late is so by less than the window.
        before = [(offset, 0) for offset in range(start * 100)]
        after = [(offset + 1_000, number) for offset, number in order[:window]]
        deduplicator = Deduplicator(opened.store, window=window)
        assert new(deduplicator, before) == before
        assert new(deduplicator, after) == list(dict.fromkeys(after))
        assert new(deduplicator, [*before, *after]) == []


def test_holes_cost_nothing_and_memory_stays_bounded(seen):
    deduplicator = Deduplicator(seen.store, window=100)
    assert len(new(deduplicator, [(offset * 1_000, 0) for offset in range(2_000)])) == 2_000
    with seen.store.all() as entries:
        held = dict(entries)
    assert len(held) <= 2 + 100 // 32 + 1
    assert max(map(len, held.values())) <= 6 + 2 * 32


def test_what_a_receiver_of_the_version_before_has_seen_stays_seen(seen):
    seen.store.put("id/mem.in[0]/2:t:0", [5, 1])
    deduplicator = Deduplicator(seen.store)
    ids = (b"2:t:0:4:0", b"2:t:0:5:1", b"2:t:0:5:2", b"2:t:0:9:0", b"2:t:0:7:0")
    assert [deduplicator.is_new_id(message(each)) for each in ids] == [False, False, True, True, True]


def test_a_message_that_is_taken_back_is_new_again(seen):
    journal = UndoJournal()
    deduplicator = Deduplicator(JournaledStore("seen", seen.store, journal), window=40)
    for number in range(100):
        journal.begin()
        assert new(deduplicator, [(number, 0)])
        journal.undo()
        assert new(deduplicator, [(number, 0)])


def keys_in(seen):
    with seen.store.all() as entries:
        return {name for name, _ in entries}


def test_after_a_smaller_capacity_only_the_last_keys_are_remembered_and_the_others_leave_the_store(seen):
    before = Deduplicator(seen.store, capacity=100)
    assert all(before.is_new_key(f"k{i}") for i in range(100))
    after = Deduplicator(seen.store, capacity=10)
    assert not after.is_new_key("k90")
    assert after.is_new_key("k5")
    assert all(after.is_new_key(f"k{i}") for i in range(100, 120))
    assert after.is_new_key("k89")
    assert not after.is_new_key("k111")
    kept = {"k89", *(f"k{i}" for i in range(111, 120))}
    assert {name for name in keys_in(seen) if name.startswith("key/")} == {f"key/{key}" for key in kept}
    assert len(keys_in(seen)) == 21


def test_a_store_of_the_version_before_is_continued_with_the_entries_that_a_changed_capacity_left(seen):
    left = [0, 1, 2, *range(7, 10)]
    seen.store.put_all({f"key/k{i}": i for i in left} | {f"at/{i}": f"k{i}" for i in left} | {"count": 10})
    after = Deduplicator(seen.store, capacity=3)
    assert not after.is_new_key("k7")
    assert after.is_new_key("k10")
    assert [after.is_new_key(f"k{i}") for i in (8, 9, 10, 0)] == [False, False, False, True]
    assert keys_in(seen) == {
        "count",
        *(f"{part}" for i, n in ((9, 9), (10, 10), (0, 11)) for part in (f"key/k{i}", f"at/{n}")),
    }
