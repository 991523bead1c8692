from dataclasses import replace

import pytest

from samzapy.api.engine import EngineSettings
from samzapy.config.stores import StoreConfig
from samzapy.serializers import JsonSerde, StringSerde
from samzapy.storage.kv.cached import MOST_DIRTY
from samzapy.storage.kv.memory import InMemoryStorageEngineFactory
from samzapy.storage.kv.stack import build_stack

CONFIG = StoreConfig("s", "inmemory", "string", "json", object_cache_size=100, write_batch_size=10)


class CountingSerde(JsonSerde):
    def __init__(self):
        super().__init__()
        self.written = 0
        self.read = 0
        write, read = self.to_bytes, self.from_bytes

        def to_bytes(value):
            self.written += 1
            return write(value)

        def from_bytes(data):
            self.read += 1
            return read(data)

        self.to_bytes, self.from_bytes = to_bytes, from_bytes


@pytest.fixture
def stack_of():
    def make(**sizes):
        values = CountingSerde()
        engine = InMemoryStorageEngineFactory().open(None, EngineSettings("s"))
        return build_stack(replace(CONFIG, **sizes), engine, StringSerde(), values), values

    return make


def test_a_key_that_is_put_again_and_again_is_serialized_once_a_commit(stack_of):
    stack, values = stack_of()
    for number in range(60):
        for _ in range(5):
            stack.store.put(f"k{number}", number)
    assert values.written == 0
    stack.store.flush()
    assert values.written == 60


def test_a_full_cache_serializes_a_batch_to_make_room(stack_of):
    stack, values = stack_of(object_cache_size=20, write_batch_size=10)
    for number in range(21):
        stack.store.put(f"k{number}", number)
    assert values.written == 10
    assert stack.store.metrics()["cached-entries"] == 20
    assert stack.store.get("k0") == 0
    assert values.read == 1


def test_a_value_in_use_is_neither_evicted_nor_serialized_again_and_again(stack_of):
    stack, values = stack_of(object_cache_size=20, write_batch_size=10)
    for number in range(200):
        stack.store.put(f"k{number}", number)
        count = stack.store.get("busy") or 0
        stack.store.put("busy", count + 1)
    assert stack.store.get("busy") == 200
    assert values.read == 0
    # Once for each of the others that is gone; with every batch it would be 20 more.
    assert 180 <= values.written <= 201


def test_what_is_read_once_makes_room_before_what_is_read_again(stack_of):
    stack, values = stack_of(object_cache_size=20, write_batch_size=10)
    stack.store.put_all({f"k{number}": number for number in range(200)})
    stack.store.flush()
    wanted = [f"k{number}" for number in range(10)]
    for number in range(10, 200):
        assert stack.store.get_all(wanted) == {key: int(key[1:]) for key in wanted}
        assert stack.store.get(f"k{number}") == number
    # Once each, and some again at the beginning; in the order of their arrival it would be 100 more.
    assert values.read <= 210


def test_reads_do_not_serialize_what_may_stay(stack_of):
    stack, values = stack_of(object_cache_size=20, write_batch_size=10)
    for number in range(9):
        stack.store.put(f"k{number}", number)
    for number in range(100):
        assert stack.store.get(f"absent{number}") is None
    assert values.written == 0
    assert [stack.store.get(f"k{number}") for number in range(9)] == list(range(9))
    assert values.read == 0


@pytest.mark.parametrize(("cache", "batch"), [(1, 1), (2, 1), (7, 3), (7, 7)])
def test_a_cache_never_holds_more_than_its_size(stack_of, cache, batch):
    stack, _ = stack_of(object_cache_size=cache, write_batch_size=batch)
    store, expected = stack.store, {}

    def held():
        return stack.store.metrics()["cached-entries"]

    for number in range(50):
        put, read, deleted = f"k{number % 11}", f"k{number % 13}", f"k{number % 5}"
        store.put(put, number)
        expected[put] = number
        assert held() <= cache
        assert store.get(read) == expected.get(read)
        assert held() <= cache
        store.delete(deleted)
        expected.pop(deleted, None)
        wanted = [f"k{key}" for key in range(number % 12)]
        assert store.get_all(wanted) == {key: expected.get(key) for key in wanted}
        assert held() <= cache


def test_the_oldest_clean_value_goes_when_the_cache_is_full_for_the_first_time(stack_of):
    stack, values = stack_of(object_cache_size=3, write_batch_size=3)
    stack.store.put_all({"a": 1, "b": 2, "c": 3})
    stack.store.flush()
    stack.store.get("other")
    assert [stack.store.get("b"), stack.store.get("c"), values.read] == [2, 3, 0]
    assert [stack.store.get("a"), values.read] == [1, 1]


def test_the_least_recently_used_clean_value_goes_first_from_then_on(stack_of):
    stack, values = stack_of(object_cache_size=3, write_batch_size=3)
    stack.store.put_all({"first": 0, "a": 1, "b": 2})
    stack.store.flush()
    stack.store.get("other")
    stack.store.get("a")
    stack.store.get("another")
    assert [stack.store.get("a"), stack.store.get("other"), values.read] == [1, None, 0]
    assert [stack.store.get("b"), values.read] == [2, 1]


def test_a_cache_with_room_keeps_no_more_than_so_many_values_unserialized(stack_of):
    stack, values = stack_of(object_cache_size=2 * MOST_DIRTY)
    for number in range(MOST_DIRTY):
        stack.store.put(f"k{number}", number)
    assert MOST_DIRTY <= values.written < 1.02 * MOST_DIRTY, "some are serialized to learn their size"
    assert stack.store.metrics()["dirty-entries"] == 0


def test_a_key_that_is_put_again_moves_behind_the_others_of_its_commit(stack_of):
    stack, _ = stack_of()
    for key in ("a", "b", "c", "a"):
        stack.store.put(key, key)
    stack.store.delete("b")
    stack.store.flush()
    assert list(stack.uncommitted.changes) == [b"c", b"a", b"b"]
    stack.store.put("c", "again")
    stack.store.flush()
    assert list(stack.uncommitted.changes) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("size", [100, None])
def test_a_key_that_comes_and_goes_between_two_commits_leaves_nothing(stack_of, size):
    stack, values = stack_of(object_cache_size=size)
    store = stack.store
    store.put("stays", 1)
    assert store.get("passing") is None
    store.put("passing", 1)
    store.put("passing", 2)
    store.delete("passing")
    assert store.get("passing") is None
    store.flush()
    assert (stack.uncommitted.changes, values.written) == ({b"stays": b"1"}, 1)
    assert store.get("absent") is None
    store.delete("absent")
    store.flush()
    assert list(stack.uncommitted.changes) == [b"stays"]


@pytest.mark.parametrize("size", [100, None])
def test_a_key_that_is_deleted_after_its_value_was_serialized_leaves_a_tombstone(stack_of, size):
    stack, _ = stack_of(object_cache_size=size)
    store = stack.store
    assert store.get("k") is None
    store.put("k", 1)
    store.flush()
    store.delete("k")
    store.flush()
    assert stack.uncommitted.changes == {b"k": None}
    # The tombstone stays, whatever comes and goes over it.
    store.put("k", 2)
    store.delete("k")
    store.flush()
    assert stack.uncommitted.changes == {b"k": None}


def test_a_key_that_was_not_read_before_it_was_put_gets_a_tombstone(stack_of):
    stack, _ = stack_of()
    stack.store.put("k", 1)
    stack.store.delete("k")
    stack.store.flush()
    assert stack.uncommitted.changes == {b"k": None}


def test_a_full_cache_drops_what_has_come_and_gone_instead_of_serializing_it(stack_of):
    stack, values = stack_of(object_cache_size=20, write_batch_size=10)
    for number in range(50):
        assert stack.store.get(f"k{number}") is None
        stack.store.put(f"k{number}", number)
        stack.store.delete(f"k{number}")
    stack.store.flush()
    assert (stack.uncommitted.changes, values.written) == ({}, 0)
    assert stack.store.metrics()["cached-entries"] <= 20


def test_puts_are_counted_without_the_deletions(stack_of):
    stack, _ = stack_of()
    stack.store.put("a", 1)
    stack.store.put("a", 2)
    stack.store.delete("a")
    metrics = stack.store.metrics()
    assert (metrics["puts"], metrics["deletes"]) == (2, 1)


def test_what_a_full_cache_has_serialized_early_does_not_change_the_order_of_a_commit(stack_of):
    stack, _ = stack_of(object_cache_size=20, write_batch_size=10)
    for number in (*range(20), *range(5), 20):
        stack.store.put(f"k{number}", number)
    assert 0 < len(stack.uncommitted.changes) < 21
    stack.store.flush()
    assert list(stack.uncommitted.changes) == [f"k{number}".encode() for number in (*range(5, 20), *range(5), 20)]
