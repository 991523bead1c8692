"""A full cache makes room in a bounded number of steps, whatever its sizes are and whatever is dirty or in use."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from samzapy.api.engine import EngineSettings
from samzapy.config.stores import StoreConfig
from samzapy.serializers import JsonSerde, StringSerde
from samzapy.storage.kv.cached import CachedStore
from samzapy.storage.kv.entries import CacheBudget
from samzapy.storage.kv.stack import build_stack
from samzapy.storage.kv.uncommitted import InMemoryStorageEngineFactory

#: One call may look at every entry twice: at its mark, and once more without it.
_ROUNDS = 4


class CountedHand:
    """Counts the steps of a cache's hand during one call, and stops a hand that goes round without an end."""

    def __init__(self):
        self.steps = self.allowed = 0

    def expect(self, entries):
        self.steps, self.allowed = 0, _ROUNDS * (entries + 1)

    def over(self, hand: Iterator[object]) -> Iterator[object]:
        for entry in hand:
            self.steps += 1
            assert self.steps <= self.allowed, "the hand goes round and round"
            yield entry


class StepCountedCache(CachedStore):
    """A cache that says how far its hand goes."""

    __slots__ = ("counted", "moving")

    @property
    def _hand(self):
        return self.moving

    @_hand.setter
    def _hand(self, hand):
        if not hasattr(self, "counted"):
            self.counted = CountedHand()
        self.moving = self.counted.over(hand)


def cache_of(size, batch, room):
    config = StoreConfig("s", "inmemory", "string", "json", object_cache_size=size, write_batch_size=batch)
    engine = InMemoryStorageEngineFactory().open(None, EngineSettings("s"))
    stack = build_stack(config, engine, StringSerde(), JsonSerde())
    cache = StepCountedCache(stack.store._codec, stack.uncommitted, CacheBudget(), batch, size)
    cache._room = room
    return cache


sizes = st.integers(1, 40).flatmap(
    lambda size: st.tuples(st.just(size), st.integers(1, size), st.integers(1, size))
)  # cache, batch, room
operations = st.lists(st.tuples(st.sampled_from("pppgd"), st.integers(0, 90)), max_size=250)


@given(sizes, operations)
def test_every_call_ends_in_a_bounded_number_of_steps_and_finds_what_a_dictionary_holds(chosen, calls):
    size, batch, room = chosen
    cache, expected = cache_of(size, batch, room), {}
    for kind, number in calls:
        cache.counted.expect(size)
        key = f"k{number}"
        if kind == "p":
            cache.put(key, number)
            expected[key] = number
        elif kind == "d":
            cache.delete(key)
            expected.pop(key, None)
        else:
            assert cache.get(key) == expected.get(key)
        assert cache.metrics()["cached-entries"] <= size
    assert dict(cache.all()) == expected


def test_reads_beside_a_nearly_dirty_cache_do_not_walk_over_it_at_each_miss():
    cache = cache_of(1000, 1000, 1000 // 64)
    for number in range(999):
        cache.put(f"k{number}", number)
    steps = 0
    for number in range(2000):
        cache.counted.expect(1000)
        cache.get(f"absent{number}")
        steps += cache.counted.steps
    assert steps <= 2000 * 10
