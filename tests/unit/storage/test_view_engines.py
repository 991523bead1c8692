"""Heap, sketches, inverted index and cube: what they refuse, what they write, and how close they are."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from rigs.store_rig import store_job

from samzapy.errors import ConfigError, EnvironmentFailure, StoreRefused
from samzapy.storage.views import HeapItem
from samzapy.storage.views.inverted_index import AllOf, AnyOf, Phrase, WordTokenizer, parse
from samzapy.storage.views.sketches import BloomSerde, HyperLogLogSerde, KllSerde, library
from samzapy.testing import open_store


@pytest.fixture
def opened(tmp_path):
    stack = []

    def open_with(factory, **keys):
        keys = {"factory": factory, "base": "inmemory", "changelog": "memory.log"} | {
            key.replace("_", "."): value for key, value in keys.items()
        }
        stack.append(open_store(store_job(keys), "s", tmp_path))
        return stack[-1].__enter__()

    yield open_with
    for context in stack:
        context.__exit__(None, None, None)


@pytest.mark.parametrize(
    ("factory", "keys", "message"),
    [
        ("heap", {"heap_size": "-1"}, "stores.s.heap.size: expected an integer from 0"),
        ("heap", {"heap_order": "best"}, "stores.s.heap.order: expected one of highest, lowest"),
        ("heap", {"key_serde": "string"}, "stores.s.key.serde: the engine has an encoding of its own"),
        ("bloom", {"bloom_error_rate": "1"}, "stores.s.bloom.error.rate: expected a number between 0 and 1"),
        ("hyperloglog", {"hyperloglog_lg_k": "3"}, "stores.s.hyperloglog.lg.k: expected an integer from 7 to 21"),
        ("quantiles", {"quantiles_k": "x"}, "stores.s.quantiles.k: expected an integer from 8 to 65535"),
        ("inverted-index", {"index_tokenizer": "no.such:Thing"}, "stores.s.index.tokenizer: cannot import no.such"),
        ("inverted-index", {"index_tokenizer": "collections:OrderedDict"}, "must be a Tokenizer"),
        ("cube", {}, "stores.s.cube.dimensions: required, e.g. carrier"),
        ("cube", {"cube_dimensions": "a,a"}, "stores.s.cube.dimensions: expected different names"),
        ("cube", {"cube_dimensions": "a", "cube_rollups": "a; b"}, "'b' is not among the dimensions a"),
        ("cube", {"cube_dimensions": "a,b", "cube_rollups": "a,b; b,a"}, "each combination of dimensions once"),
        ("cube", {"cube_dimensions": "a,b", "cube_rollups": "a,a"}, "a roll-up has different dimensions"),
        ("rocksdb", {"key_serde": "string", "msg_serde": "json"}, "stores.s.base: has no meaning for an engine that"),
        ("samzapy.storage.kv:InMemoryStorageEngineFactory", {}, "stores.s.key.serde: required, e.g. string"),
        ("samzapy.storage.kv.uncommitted:InMemoryStorageEngineFactory", {}, "stores.s.key.serde: required, e.g. "),
        ("collections:OrderedDict", {}, "must be a StorageEngineFactory or a StoreViewFactory"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_with_its_key(opened, factory, keys, message):
    with pytest.raises(ConfigError) as refused:
        opened(factory, **keys)
    assert message in str(refused.value)


@pytest.mark.parametrize("factory", ["heap", "inverted-index", "cube", "timers"])
@pytest.mark.parametrize(("key", "value"), [("rocksdb_ttl_ms", "60000"), ("drop_large_messages", "true")])
def test_a_view_whose_entries_belong_together_refuses_to_lose_some_of_them(opened, factory, key, value):
    keys = {"cube_dimensions": "a"} if factory == "cube" else {}
    with pytest.raises(ConfigError, match=f"stores.s.{key.replace('_', '.')}: is not for this engine.*got '{value}'"):
        opened(factory, **keys, **{key: value})


@pytest.mark.parametrize(("factory", "package"), [("bloom", "rbloom"), ("quantiles", "datasketches")])
def test_a_sketch_without_its_package_says_what_to_install(opened, monkeypatch, factory, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=rf"stores.s.factory: needs the package {package}.*samzapy\[sketches\]"):
        opened(factory)
    library.cache_clear()
    with pytest.raises(EnvironmentFailure, match=rf"{package}.*pip install"):
        library(package)


@pytest.mark.parametrize("score", [math.nan, "1", None, True, 2**64, 1j])
def test_a_heap_refuses_what_is_no_score_and_stays_as_it_was(opened, score):
    heap = opened("heap").store
    heap.push("a", 1)
    with pytest.raises(StoreRefused, match="store 's': a score is an int of 64 bits or a float"):
        heap.push("b", score)
    with pytest.raises(StoreRefused, match=r"store 's': item .* cannot be kept"):
        heap.push(object(), 1)
    with pytest.raises(StoreRefused, match="without a zero character"):
        heap.push("b", 1, "group\0")
    with pytest.raises(ValueError, match="store 's': top takes a number of items, 0 or more, got -1"):
        heap.top(-1)
    assert heap.top(9) == [HeapItem("a", 1)]


@pytest.mark.parametrize("bound", [math.nan, "1", None, 1j])
@pytest.mark.parametrize("order", ["highest", "lowest"])
def test_a_heap_takes_nothing_out_up_to_what_is_no_number(opened, order, bound):
    heap = opened("heap", heap_order=order).store
    for items in ([], ["a", "b", "c"]):
        heap.push_all(items, range(len(items)))
        with pytest.raises(StoreRefused, match="store 's': a score is an int of 64 bits or a float"):
            heap.pop_through(bound)
        assert heap.size() == len(items)
    heap.clear()
    assert heap.size() == 0


def test_a_batch_of_pushes_with_one_that_is_refused_changes_nothing(opened):
    heap = opened("heap", heap_size="2").store
    heap.push_all(["a", "b", "c"], [1, 2, 3])
    for columns in [(["d", "e"], [9, math.nan]), (["d", object()], [9, 9]), (["d"], [9], ["\0"])]:
        with pytest.raises(StoreRefused):
            heap.push_all(*columns)
    with pytest.raises(ValueError, match=r"expected columns of one length, got \[1, 2\]"):
        heap.push_all(["d", "e"], [9])
    assert heap.top(9) == [HeapItem("c", 3), HeapItem("b", 2)]


def test_large_items_of_a_heap_fit_into_records_of_the_changelog(opened):
    with_heap = opened("heap")
    items = ["x" * 20_000 + str(n) for n in range(64)]
    with_heap.store.push_all(items, range(64))
    with_heap.commit()
    assert [each.item for each in with_heap.store.top(64)] == items[::-1]


@pytest.mark.parametrize("text", [None, 5, b"bytes"])
def test_an_index_refuses_what_is_no_text(opened, text):
    index = opened("inverted-index").store
    with pytest.raises(StoreRefused, match="store 's': a text is a str, got"):
        index.add("d", text)
    with pytest.raises(StoreRefused, match="store 's': a query is a str, got"):
        index.search(text)
    assert len(index) == 0


def test_a_batch_of_documents_with_one_that_is_refused_changes_nothing(opened):
    index = opened("inverted-index").store
    with pytest.raises(StoreRefused, match="document ids and terms are str without zero characters"):
        index.add_all(["1", "2\0"], ["red fox", "blue fox"])
    with pytest.raises(ValueError, match=r"expected columns of one length, got \[1, 2\]"):
        index.add_all(["1", "2"], ["red fox"])
    assert len(index) == 0


def test_a_batch_of_timers_with_one_that_is_refused_sets_none(opened):
    timers = opened("timers").store
    for keys, times in [(["a", "b"], [1, 2.5]), (["a", object()], [1, 2])]:
        with pytest.raises(StoreRefused):
            timers.schedule_all(keys, times)
    with pytest.raises(ValueError, match=r"expected columns of one length, got \[1, 2\]"):
        timers.schedule_all(["a", "b"], [1])
    assert timers.time_of("a") is None


def test_sketches_are_as_close_as_they_say(opened):
    distinct = opened("hyperloglog", key_serde="integer").store
    for number in range(20_000):
        distinct.add(number % 2, number)
    low, high = distinct.bounds(0, 3)
    assert low <= 10_000 <= high
    assert distinct.estimate_union([0, 1, 2]) == pytest.approx(20_000, rel=0.05)
    quantiles = opened("quantiles").store
    quantiles.add_all("k", range(20_000))
    for fraction in (0.01, 0.5, 0.99):
        assert quantiles.quantile("k", fraction) / 20_000 == pytest.approx(fraction, abs=0.04)
    bloom = opened("bloom", bloom_capacity="2000").store
    assert bloom.add_all("k", (str(number) for number in range(2_000))) > 1_950
    assert all(bloom.might_contain("k", str(number)) for number in range(2_000))
    assert not bloom.add("k", "7")
    assert not distinct.add(0, 2)
    assert sum(bloom.might_contain("k", str(number)) for number in range(2_000, 12_000)) < 300


def test_sketches_refuse_what_they_cannot_take(opened):
    for item in (None, True, 2**64, [1]):
        with pytest.raises(StoreRefused, match="store 's': a distinct count takes"):
            opened("hyperloglog").store.add("k", item)
        with pytest.raises(StoreRefused, match="store 's': a Bloom filter takes"):
            opened("bloom").store.add("k", item)
    quantiles = opened("quantiles").store
    for number in (None, True, math.nan, "1"):
        with pytest.raises(StoreRefused, match="store 's': a quantile sketch takes"):
            quantiles.add("k", number)
    with pytest.raises(StoreRefused, match="from 0 to 1"):
        quantiles.quantile("k", 1.5)
    with pytest.raises(StoreRefused, match=r"too large"):
        quantiles.add("k", 10**400)


@pytest.mark.parametrize(
    ("factory", "serde", "items", "refused"),
    [
        ("hyperloglog", HyperLogLogSerde(), ["y", "z"], ["x", "a\ud800"]),
        ("hyperloglog", HyperLogLogSerde(), ["y", "z"], ["x", None]),
        ("bloom", BloomSerde(), ["y", "z"], ["x", None]),
        ("quantiles", KllSerde(), [1, 2], [3, math.nan]),
    ],
)
def test_a_batch_of_items_with_one_that_is_refused_changes_no_sketch(opened, factory, serde, items, refused):
    store = opened(factory)
    store.store.add_each(["a", "b"], items)
    store.commit()
    before = sketch_bytes(store, serde)
    with pytest.raises(StoreRefused):
        store.store.add_each(["a", "a"], refused)
    for keys in (["a"], ["a", "b", "c"]):
        with pytest.raises(ValueError, match="expected columns of one length"):
            store.store.add_each(keys, refused[:1] * 2)
    assert sketch_bytes(store, serde) == before


def sketch_bytes(opened, serde):
    """Of each key, the sketch that the cache holds."""
    return {key: serde.to_bytes(sketch) for key, sketch in opened.stores.stores["s"].get_all(["a", "b"]).items()}


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Boeing", Phrase(("boeing",))),
        ("a b", AnyOf((Phrase(("a",)), Phrase(("b",))))),
        ("a OR b AND c", AnyOf((Phrase(("a",)), AllOf((Phrase(("b",)), Phrase(("c",))))))),
        ("(a OR b) AND c", AllOf((AnyOf((Phrase(("a",)), Phrase(("b",)))), Phrase(("c",))))),
        ('"new york"', Phrase(("new", "york"))),
        ("A-10", Phrase(("a", "10"))),
        ('"AND"', Phrase(("and",))),
        ("a AND -", Phrase(("a",))),
        (" - ", None),
        ("", None),
        ("()", None),
    ],
)
def test_a_query_is_read_as_it_is_written(text, query):
    assert parse(text, WordTokenizer()) == query


@pytest.mark.parametrize("text", ['"a', "a AND", "OR a", "a OR", "AND", "(a", "a)", "a AND OR b", "(a AND) b"])
def test_a_query_that_cannot_be_read_is_refused(text):
    with pytest.raises(StoreRefused, match="query"):
        parse(text, WordTokenizer())


def test_parentheses_are_read_to_a_depth_that_any_stack_has_room_for():
    assert parse("(" * 100 + "a" + ")" * 100 + " AND (b)", WordTokenizer()) is not None
    assert parse("(a) " * 500, WordTokenizer()) is not None
    for text in ("(" * 101 + "a" + ")" * 101, "(" * 100_000):
        with pytest.raises(StoreRefused, match=r"query .*: more than 100 parentheses are within one another"):
            parse(text, WordTokenizer())


def test_a_changed_document_sends_only_the_postings_that_changed(opened):
    store = opened("inverted-index")
    for number in range(50):
        store.store.add(f"d{number}", f"the quick fox number {number}")
    store.commit()
    before = len(store.changelog())
    store.store.add("d7", "the quick dog number 7")
    store.commit()
    sent = {key for key, _ in store.changelog()[before:]}
    assert sent == {b"pfox\0d7\0", b"pdog\0d7\0", b"tfox\0", b"tdog\0", b"dd7\0", b"n"}
    assert [hit.document for hit in store.store.search("dog")] == ["d7"]


def test_a_cube_refuses_facts_and_questions_that_it_has_no_place_for(opened):
    store = opened("cube", cube_dimensions="a,b", cube_measures="m", cube_rollups="a")
    cube = store.store
    for dimensions in ({"a": 1}, {"a": 1, "b": 2, "c": 3}, {"a": 1, "c": 2}, {"a": 1.5, "b": 2}, {"a": "\0", "b": 2}):
        with pytest.raises(StoreRefused):
            cube.add(dimensions)
    for measures in ({"x": 1}, {"m": "1"}, {"m": math.nan}, {"m": True}, {"m": 2**64}):
        with pytest.raises(StoreRefused, match="measure"):
            cube.add({"a": 1, "b": 2}, measures)
    with pytest.raises(StoreRefused, match="no roll-up has the dimensions b; kept are: a"):
        cube.roll_up("b")
    assert cube.roll_up() == []
    assert cube.cell({"a": 1}) is None


def test_a_cube_that_was_rolled_up_otherwise_is_not_continued(opened):
    store = opened("cube", cube_dimensions="a,b", cube_rollups="a")
    store.store.add({"a": 1, "b": 2})
    store.commit()
    entries = list(store.stores.stores["s"].all())
    other = opened("cube", cube_dimensions="a,b", cube_rollups="a; b")
    other.stores.stores["s"].put_all(entries)
    with pytest.raises(ConfigError, match=r"stores.s.cube.rollups: the store holds facts with .*another changelog"):
        other.stores.as_seen(other.stores.stores)


def test_optional_libraries_are_not_imported_before_a_store_needs_them():
    optional = {"datasketches", "rbloom", "fsspec", "numpy"}
    code = f"import sys, samzapy.storage.opening, samzapy.storage.views; print(sorted({optional} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
