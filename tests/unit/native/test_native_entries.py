"""The compiled entries of a cache do what the ones in Python do."""

import gc
import sys
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samzapy import native
from samzapy.storage.kv.entries import PlainEntries

pytestmark = pytest.mark.skipif(native.extension is None, reason=native.missing)


class Hooks:
    """What a cache adds to its entries: notes every call, and does the least that can be done."""

    def start(self, *, marks, cache_size, most_dirty):
        self.calls = []
        self._usual = str
        self._used = {} if marks else None
        self._cache_size, self._most_dirty = cache_size, most_dirty

    def _entry(self, key):
        self.calls.append(("entry", key))
        return (repr(key),)

    def _check_value(self, key, value):
        self.calls.append(("check", key))
        raise ValueError(key)

    def _load(self, key, entry):
        self.calls.append(("load", key, entry))
        self._held[entry] = None if entry in self._below else f"below {entry}"
        return self._held[entry]

    _below = frozenset({"a", "b"})

    def _change(self, entry, value):
        assert entry not in self._dirty
        self._held[entry] = value
        self._dirty[entry] = None
        if len(self._held) > self._cache_size:
            self._make_room()
        elif len(self._dirty) >= self._most_dirty:
            self._limit_dirty()

    def _make_room(self):
        self.calls.append(("room",))
        del self._held[next(each for each in self._held)]

    def _limit_dirty(self):
        self.calls.append(("limit",))
        self._dirty.clear()

    def delete(self, key):
        self._changed += 1
        self._held[key] = None
        self._dirty[key] = None

    def state(self):
        return self._held, self._dirty, self._used, self._gets, self._changed, self.calls


class Plain(Hooks, PlainEntries):
    pass


def compiled():
    class Compiled(Hooks, native.extension.NativeEntries):
        _get_unusual = PlainEntries.get
        _put_unusual = PlainEntries.put

    return Compiled()


class TextOfMyOwn(str):
    __slots__ = ()


keys = st.sampled_from(["a", "b", "c", "d", "e", "f", 1, True, TextOfMyOwn("a")])
texts = st.sampled_from(["a", "b", "c", "d", "e", "f"])
calls = st.lists(
    st.one_of(
        st.tuples(st.just("get"), keys),
        st.tuples(st.just("put"), keys, st.sampled_from([1, "x", None])),
        st.tuples(st.just("delete"), texts),
        st.tuples(st.just("_find"), st.lists(texts, max_size=6)),
        st.tuples(
            st.just("_set_some"),
            st.lists(st.tuples(texts, st.sampled_from([1, 2, None])), max_size=6).map(
                lambda pairs: ([key for key, _ in pairs], [value for _, value in pairs])
            ),
        ),
    ),
    max_size=40,
)


def made(entries, call):
    name, *arguments = call
    if name == "_set_some":
        (arguments,) = arguments
    try:
        return getattr(entries, name)(*arguments)
    except (ValueError, KeyError) as refused:
        return refused.args


@settings(max_examples=300)
@given(calls, st.booleans(), st.integers(1, 8), st.integers(1, 8))
def test_any_calls_have_the_same_results_and_leave_the_same_entries(calls, marks, cache_size, most_dirty):
    plain, other = Plain(), compiled()
    for each in (plain, other):
        each.start(marks=marks, cache_size=cache_size, most_dirty=most_dirty)
    for call in calls:
        assert made(plain, call) == made(other, call)
        assert plain.state() == other.state()
        assert list(plain._held) == list(other._held)
        assert list(plain._dirty) == list(other._dirty)


@pytest.mark.parametrize("call", [("get",), ("get", "a", "b"), ("put", "a"), ("put", "a", 1, 2), ("_set_some", ["a"])])
def test_the_wrong_number_of_arguments_is_an_error(call):
    entries = compiled()
    entries.start(marks=False, cache_size=9, most_dirty=9)
    with pytest.raises(TypeError):
        getattr(entries, call[0])(*call[1:])


@pytest.mark.parametrize(("entries", "values"), [(["a"], []), (("a",), [1]), (["a"], (1,))])
def test_columns_that_do_not_fit_change_nothing(entries, values):
    held = compiled()
    held.start(marks=False, cache_size=9, most_dirty=9)
    with pytest.raises(TypeError, match="two lists of one length"):
        held._set_some(entries, values)
    with pytest.raises(TypeError, match="list of entries"):
        held._find(("a",))
    assert (held._held, held._dirty, held._changed) == ({}, {}, 0)


def test_the_dictionaries_cannot_be_replaced_or_removed():
    entries = compiled()
    for name in ("_held", "_dirty"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(entries, name, {})
        with pytest.raises((AttributeError, TypeError)):
            delattr(entries, name)


@pytest.mark.parametrize("marks", [[], 1, "x"])
def test_marks_that_are_no_dictionary_are_ignored(marks):
    entries = compiled()
    entries.start(marks=False, cache_size=9, most_dirty=9)
    entries._used = marks
    entries.put("c", 1)
    assert entries.get("c") == 1


def test_a_key_without_a_hash_is_an_error_and_nothing_is_held():
    entries = compiled()
    entries.start(marks=True, cache_size=9, most_dirty=9)
    entries._usual = list
    for call in (lambda: entries.get([]), lambda: entries.put([], 1), lambda: entries._find([[]])):
        with pytest.raises(TypeError, match="unhashable"):
            call()
    with pytest.raises(TypeError, match="unhashable"):
        entries._set_some(["a", []], [1, 2])
    assert (entries._held, entries._dirty) == ({}, {})


def test_an_error_of_a_hook_comes_out():
    class Failing(type(compiled())):
        def _load(self, key, entry):
            raise RuntimeError(f"cannot read {key}")

        def _change(self, entry, value):
            raise RuntimeError(f"cannot change {entry}")

    entries = Failing()
    entries.start(marks=True, cache_size=9, most_dirty=9)
    with pytest.raises(RuntimeError, match="cannot read a"):
        entries.get("a")
    with pytest.raises(RuntimeError, match="cannot change a"):
        entries.put("a", 1)
    assert (entries._held, entries._dirty, entries._changed) == ({}, {}, 1)


def test_a_value_whose_end_calls_the_cache_again_is_no_harm():
    entries = compiled()
    entries.start(marks=True, cache_size=9, most_dirty=9)

    class Restless:
        def __del__(self):
            entries._limit_dirty()
            entries._held.clear()
            entries.put("other", 2)

    for put in (entries.put, lambda key, value: entries._set_some([key, "next"], [value, 3])):
        entries._held["a"] = 1
        entries.put("a", Restless())
        put("a", 1)
        gc.collect()
        assert entries._held["other"] == 2


def test_a_cycle_through_a_cached_value_is_collected():
    class Value:
        pass

    entries, value = compiled(), Value()
    entries.start(marks=True, cache_size=9, most_dirty=9)
    value.cache = entries
    entries.put("a", value)
    gone = weakref.ref(value)
    del entries, value
    gc.collect()
    assert gone() is None


def test_entries_leave_nothing_behind():
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(200):
        entries = compiled()
        entries.start(marks=True, cache_size=9, most_dirty=9)
        for key in "abcdef":
            entries.put(key, [key])
        entries._set_some(["a"], [[1]])
        entries._find(["a", "z"])
    del entries
    gc.collect()
    assert len(gc.get_objects()) - before < 200


class Raising:
    """A key whose hash, or whose comparison with another key, is an error."""

    def __init__(self, hashed):
        self._hashed = hashed

    def __hash__(self):
        if not self._hashed:
            raise LookupError("no hash")
        return 5

    def __eq__(self, other):
        raise LookupError("no comparison")


def one_round(entries, keys, value):
    """Every call, a few times, and the ones that raise."""
    for _ in range(50):
        for key in keys:
            entries.put(key, value)
            entries.put(key, value)
            entries.get(key)
        entries._find([*keys, "absent"])
        entries._set_some(list(keys), [value] * len(keys))
        entries.delete(keys[0])
    held, other, hashless = (Raising(hashed) for hashed in (True, True, False))
    entries._usual = Raising
    entries._held[held] = value
    for key in (other, hashless):
        for call in (lambda key=key: entries.get(key), lambda key=key: entries.put(key, value)):
            with pytest.raises(LookupError):
                call()
        for call in (lambda key=key: entries._find([key]), lambda key=key: entries._set_some([key], [value])):
            with pytest.raises(LookupError):
                call()
    entries._usual = str
    entries._held.clear()
    entries._dirty.clear()
    entries.calls.clear()


@pytest.mark.parametrize("kind", [Plain, compiled], ids=["python", "compiled"])
def test_calls_leave_no_references_and_no_memory_behind(kind):
    keys, value, entries = ["one", "two", "three"], object(), kind()
    entries.start(marks=True, cache_size=100, most_dirty=100)

    def counts():
        gc.collect()
        return [sys.getrefcount(each) for each in (*keys, value)], sys.getallocatedblocks()

    one_round(entries, keys, value)
    references, blocks = counts()
    for _ in range(20):
        one_round(entries, keys, value)
    after, blocks_after = counts()
    assert after == references
    assert blocks_after - blocks < 500
