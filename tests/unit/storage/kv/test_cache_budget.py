"""Caches that share a container's memory: what they count, what they give back, and what a commit finds in them."""

import gc
import tracemalloc

import pytest

from samzapy.api.engine import EngineSettings
from samzapy.config.stores import StoreConfig
from samzapy.serializers import JsonSerde, StringSerde
from samzapy.storage.kv.entries import CacheBudget
from samzapy.storage.kv.stack import build_stack
from samzapy.storage.kv.uncommitted import InMemoryStorageEngineFactory

MB = 2**20


def stack_in(budget):
    engine = InMemoryStorageEngineFactory().open(None, EngineSettings("s"))
    config = StoreConfig("s", "inmemory", "string", "json")
    return build_stack(config, engine, StringSerde(), JsonSerde(), budget=budget)


def commit(stack):
    stack.store.flush()
    stack.uncommitted._engine.write(stack.uncommitted.changes, b"")
    stack.uncommitted.clear()


def cached(stack):
    return stack.store.metrics()["cached-bytes"]


VALUES = {
    "numbers": lambda n: n + 1_000,
    "texts": lambda n: f"text {n} " * 20,
    "documents": lambda n: {"user": f"user-{n}", "seen": [n + 1_000, n + 2_000], "name": f"name of {n}"},
    "long-documents": lambda n: {"lines": [f"line {n} {m}" for m in range(100)]},
}


@pytest.mark.parametrize("kind", VALUES)
def test_what_is_counted_is_about_what_python_takes(kind):
    stack, value_of = stack_in(CacheBudget()), VALUES[kind]
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(3_000):
            stack.store.put(f"key-{number}", value_of(number))
        commit(stack)
        taken, _ = tracemalloc.get_traced_memory()
        assert 0.5 < cached(stack) / taken < 3.5
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["numbers", "documents"])
def test_a_cache_stays_within_its_budget_and_loses_nothing(kind):
    stack, value_of = stack_in(CacheBudget(100_000)), VALUES[kind]
    for number in range(2_000):
        stack.store.put(f"key-{number}", value_of(number))
        if number % 100 == 99:
            commit(stack)
        assert cached(stack) <= 130_000
    assert 100 < stack.store.metrics()["cached-entries"] < 1_000
    for number in range(2_000):
        assert stack.store.get(f"key-{number}") == value_of(number)
        assert cached(stack) <= 130_000


def test_values_that_grow_while_they_are_dirty_ask_for_a_commit():
    stack = stack_in(CacheBudget(8 * MB))
    lists = {f"key-{number}": [] for number in range(100)}
    asked = False
    for number in range(400):
        for key, value in lists.items():
            lists[key] = [*value, f"event {number} of {key}"]
            stack.store.put(key, lists[key])
        asked = asked or stack.over_budget()
    assert asked
    stack.store.flush()
    assert not stack.store.over_budget()


def test_an_idle_cache_gives_back_what_another_uses():
    budget = CacheBudget(2 * MB)
    idle, busy = stack_in(budget), stack_in(budget)
    for number in range(20_000):
        idle.store.put(f"key-{number}", number)
        if number % 1_000 == 999:
            commit(idle)
    assert cached(idle) > 1.5 * MB
    for _ in range(4):
        for number in range(6_000):
            busy.store.put(f"key-{number}", number)
        commit(busy)
    assert cached(busy) > 0.7 * MB
    assert cached(idle) < 0.6 * MB
    assert cached(idle) + cached(busy) <= budget.max_bytes * 1.1
    assert idle.store.get("key-7") == 7


def test_many_caches_that_grow_together_stay_within_their_budget():
    budget = CacheBudget(1 * MB)
    stacks = [stack_in(budget) for _ in range(400)]
    for number in range(20):
        for stack in stacks:
            stack.store.put(f"key-{number}", number)
            commit(stack)
        assert sum(map(cached, stacks)) <= budget.max_bytes * 1.1


def test_a_cache_full_of_changes_keeps_them_and_the_other_makes_room_itself():
    budget = CacheBudget(1 * MB)
    changed, other = stack_in(budget), stack_in(budget)
    for number in range(4_000):
        changed.store.put(f"key-{number}", number)
    dirty = changed.store.metrics()["dirty-entries"]
    # Only entries that were serialized have bytes to give back.
    assert dirty > 500
    assert cached(changed) > 0.4 * MB
    for number in range(10_000):
        other.store.put(f"key-{number}", number)
        # Making room by serializing takes some, too.
        assert budget.used <= 1.2 * MB
    assert changed.store.metrics()["dirty-entries"] == dirty
    commit(changed)
    for number in range(10_000):
        assert other.store.get(f"key-{number}") == number
    assert cached(other) > cached(changed)


def test_uncommitted_bytes_take_their_part_of_the_budget_until_the_commit():
    budget = CacheBudget(100 * MB)
    writing = stack_in(budget)
    for number in range(1_000):
        writing.store.put(f"key-{number}", "x" * 100)
    writing.store.flush()
    held = sum(map(len, writing.uncommitted.changes)) + sum(map(len, writing.uncommitted.changes.values()))
    assert budget.used >= cached(writing) + held
    commit(writing)
    assert cached(writing) <= budget.used <= cached(writing) + budget.max_bytes // 256


def test_a_container_commits_when_the_uncommitted_bytes_of_its_stores_take_half_of_its_memory():
    budget = CacheBudget(1_000_000)
    stacks = [stack_in(budget) for _ in range(4)]
    for stack in stacks:
        assert not stack.over_budget()
        stack.store.put_all({f"key-{number}": "x" * 100 for number in range(500)})
        stack.store.flush()
    assert all(stack.over_budget() for stack in stacks)
    for stack in stacks:
        commit(stack)
    assert not any(stack.over_budget() for stack in stacks)
