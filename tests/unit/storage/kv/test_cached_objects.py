from dataclasses import replace

import pytest

from samzapy.api.engine import EngineSettings
from samzapy.config.stores import StoreConfig
from samzapy.serializers import JsonSerde, StringSerde
from samzapy.storage.kv.cached import MOST_DIRTY
from samzapy.storage.kv.stack import build_stack
from samzapy.storage.kv.uncommitted import InMemoryStorageEngineFactory
from samzapy.storage.readback import FIRST

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
    assert values.written == FIRST, "the first puts are serialized at once, to refuse other types"
    stack.store.flush()
    assert values.written == FIRST + 60


def test_a_cache_with_room_keeps_no_more_than_so_many_values_unserialized(stack_of):
    stack, values = stack_of(object_cache_size=2 * MOST_DIRTY)
    for number in range(MOST_DIRTY):
        stack.store.put(f"k{number}", number)
    assert MOST_DIRTY <= values.written < 1.02 * MOST_DIRTY, "some are serialized to learn their size"
    assert stack.store.metrics()["dirty-entries"] == 0


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
    # Each of the first puts is serialized at once, and the value that stays again in the flush.
    assert (stack.uncommitted.changes, values.written) == ({b"stays": b"1"}, 3 + 1)
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
