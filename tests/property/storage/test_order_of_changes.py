"""A commit's records are in the order of each key's last change, whatever the cache has written out before."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from samzapy.api.engine import EngineSettings
from samzapy.config.stores import StoreConfig
from samzapy.serializers import JsonSerde, StringSerde
from samzapy.storage.kv.cache_budget import CacheBudget
from samzapy.storage.kv.memory import InMemoryStorageEngineFactory
from samzapy.storage.kv.stack import build_stack

SIZES = [
    (0, 0),
    (1, 1),
    (2, 1),
    (3, 2),
    (5, 5),
    (8, 3),
    (100, 10),
    (None, 1),
    (None, 3),
]  # cache (0: none, None: by bytes), batch


def stack_of(cache, batch, **settings):
    config = StoreConfig("s", "inmemory", "string", "json", object_cache_size=cache, write_batch_size=batch, **settings)
    engine = InMemoryStorageEngineFactory().open(None, EngineSettings("s"))
    return build_stack(config, engine, StringSerde(), JsonSerde(), budget=CacheBudget(1_000))


class LastChanges:
    """The keys in the order of their last changes, and what each became."""

    def __init__(self):
        self.values = {}
        self.read = set()

    def change(self, key, value):
        self.values.pop(key, None)
        self.values[key] = value

    def check(self, stack):
        stack.store.flush()
        expected = [
            (key.encode(), None if value is None else str(value).encode()) for key, value in self.values.items()
        ]
        found = list(stack.uncommitted.changes.items())
        # A key that was read as absent, was put and is gone again leaves nothing; any other deletion leaves a
        # tombstone.
        passed = {key for key, value in expected if value is None and key.decode() in self.read} - dict(found).keys()
        assert found == [(key, value) for key, value in expected if key not in passed]


keys = st.integers(0, 11).map("k{}".format)
calls = st.lists(
    st.one_of(
        st.tuples(st.just("put"), keys),
        st.tuples(st.just("delete"), keys),
        st.tuples(st.just("get"), keys),
        st.tuples(st.just("range"), keys),
        st.tuples(st.just("flush"), st.none()),
        st.tuples(st.just("commit"), st.none()),
        st.tuples(st.sampled_from(["put_all", "delete_all", "get_all", "merge_all"]), st.lists(keys, max_size=6)),
    ),
    max_size=120,
)


def call(stack, last, kind, argument, value):
    store = stack.store
    if kind == "put":
        store.put(argument, value)
        last.change(argument, value)
    elif kind == "delete":
        store.delete(argument)
        last.change(argument, None)
        # It is held as absent from then on.
        last.read.add(argument)
    elif kind == "put_all":
        store.put_all([(key, value + at) for at, key in enumerate(argument)])
        for at, key in enumerate(argument):
            last.change(key, value + at)
    elif kind == "merge_all":
        store.merge_all({key: value + at for at, key in enumerate(argument)}, lambda _, given: given)
        for key, given in {key: value + at for at, key in enumerate(argument)}.items():
            last.change(key, given)
            last.read.add(key)
    elif kind == "delete_all":
        store.delete_all(argument)
        for key in argument:
            last.change(key, None)
            last.read.add(key)
    elif kind == "range":
        with store.range(argument, "z") as entries:
            found = list(entries)
        assert [key for key, _ in found] == sorted(key for key, _ in found)
    elif kind in {"get", "get_all"}:
        getattr(store, kind)(argument)
        last.read.update([argument] if kind == "get" else argument)
    elif kind == "flush":
        store.flush()
    else:
        last.check(stack)
        stack.uncommitted.clear()
        last.values.clear()


@pytest.mark.parametrize(("cache", "batch"), SIZES)
@pytest.mark.parametrize("settings", [{}, {"object_cache_mode": "copy"}], ids=["reference", "copy"])
@given(calls=calls)
@example(calls=[("put", "k1"), ("put", "k2"), ("put", "k1")])
@example(calls=[("put_all", ["k1", "k2", "k1"])])
@example(calls=[("delete_all", ["k1", "k2", "k1"])])
@example(calls=[("put", "k1"), ("range", "k0"), ("put", "k2"), ("put", "k1"), ("range", "k0")])
def test_records_of_a_commit_are_in_the_order_of_each_keys_last_change(cache, batch, settings, calls):
    stack, last = stack_of(cache, batch, **settings), LastChanges()
    for number, (kind, argument) in enumerate(calls):
        call(stack, last, kind, argument, 100 * number)
    last.check(stack)


@given(calls=calls)
def test_ranges_find_keys_that_were_put_again_since_the_last_look(calls):
    stack, held = stack_of(0, 0), {}
    for number, (kind, argument) in enumerate(calls):
        last = LastChanges()
        if kind not in {"flush", "commit"}:
            call(stack, last, kind, argument, 100 * number)
        held |= last.values
        with stack.store.all() as entries:
            assert dict(entries) == {key: value for key, value in held.items() if value is not None}
