"""Heap, sketches, inverted index and cube against plain Python, through commits, crashes and restores in any order."""

from __future__ import annotations

import copy
import math
import os
import shutil
import tempfile
from pathlib import Path
from typing import ClassVar

import msgpack
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from rigs.store_rig import store_job

from samzapy.storage.views import heap
from samzapy.testing import OpenStore, open_store


class ViewMachine(RuleBasedStateMachine):
    """`now` is what the task sees, `logged` what is in the changelog: what any restart comes back to."""

    empty: ClassVar[object] = {}
    keys: ClassVar[dict[str, str]] = {}

    def __init__(self):
        super().__init__()
        self.path = Path(tempfile.mkdtemp(prefix="view-machine-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))
        self.now = copy.deepcopy(self.empty)
        self.logged = copy.deepcopy(self.empty)

    @initialize(
        base=st.sampled_from(["inmemory", "inmemory", "rocksdb"]), cache=st.sampled_from([0, 1, 3, 500]), data=st.data()
    )
    def open(self, base, cache, data):
        keys = {"base": base, "changelog": "memory.s-log", "object.cache.size": str(cache)}
        keys |= {"write.batch.size": str(min(cache, 2) or 1)} | self.keys | self.chosen(data)
        self.context = open_store(store_job(keys), "s", self.path)
        self.opened: OpenStore = self.context.__enter__()

    def chosen(self, data):
        return {}

    @property
    def view(self):
        return self.opened.store

    @rule()
    def commit(self):
        self.opened.commit()
        self.logged = copy.deepcopy(self.now)

    @rule(how=st.sampled_from(["crash", "crash between changelog and engine", "lose the disk", "discard"]))
    def go_back(self, how):
        if how == "crash between changelog and engine":
            self.opened.send_changes()
            self.logged = copy.deepcopy(self.now)
            self.opened.crash()
        elif how == "crash":
            self.opened.crash()
        elif how == "lose the disk":
            self.opened.compact()
            self.opened.lose_local_state()
        else:
            self.opened.stores.discard()
        self.now = copy.deepcopy(self.logged)

    def teardown(self):
        if hasattr(self, "context"):
            self.context.__exit__(None, None, None)
        shutil.rmtree(self.path, ignore_errors=True)


GROUPS = st.sampled_from(["", "a"])
ITEMS = st.one_of(st.integers(0, 30), st.sampled_from(["x", "y", 1.0, True]), st.lists(st.integers(0, 1), max_size=1))
SCORES = st.one_of(st.integers(-3, 3), st.sampled_from([0.5, -0.5, 2.0, math.inf]), st.integers(2**60, 2**60 + 2))


class HeapMachine(ViewMachine):
    """A group is a dict from an item's bytes to its score."""

    keys: ClassVar = {"factory": "heap"}

    def chosen(self, data):
        self.size = data.draw(st.sampled_from([0, 0, 1, 3, 7]))
        self.highest = data.draw(st.booleans())
        heap.BLOCK_ITEMS = data.draw(st.integers(2, 4))
        order = "highest" if self.highest else "lowest"
        return {"heap.size": str(self.size), "heap.order": order}

    def ordered(self, group):
        """(score, bytes), the best first."""
        return sorted(((s, p) for p, s in self.now.get(group, {}).items()), reverse=self.highest)

    def shown(self, ranked):
        return [(msgpack.unpackb(packed), score) for score, packed in ranked]

    def keep(self, group, ranked):
        self.now[group] = {packed: score for score, packed in ranked}

    @rule(pushes=st.lists(st.tuples(ITEMS, SCORES), min_size=1, max_size=8), group=GROUPS)
    def push(self, pushes, group):
        held = self.now.setdefault(group, {})
        for item, score in pushes:
            packed = msgpack.packb(item)
            held[packed] = held[packed] if held.get(packed) == score else score
            ranked = self.ordered(group)
            self.keep(group, ranked[: self.size] if self.size else ranked)
            held = self.now[group]
            assert self.view.push(item, score, group) is (packed in held)

    @rule(pushes=st.lists(st.tuples(ITEMS, SCORES, GROUPS), max_size=12))
    def push_all(self, pushes):
        expected = []
        for item, score, group in pushes:
            packed = msgpack.packb(item)
            held = self.now.setdefault(group, {})
            held[packed] = held[packed] if held.get(packed) == score else score
            ranked = self.ordered(group)
            self.keep(group, ranked[: self.size] if self.size else ranked)
            expected.append(packed in self.now[group])
        items, scores, groups = ([each[place] for each in pushes] for place in range(3))
        assert self.view.push_all(items, scores, groups) == expected

    @rule(group=GROUPS, times=st.integers(1, 3))
    def pop(self, group, times):
        for _ in range(times):
            ranked = self.ordered(group)
            self.keep(group, ranked[1:])
            found = self.view.pop(group)
            assert ([] if found is None else [found]) == self.shown(ranked[:1])

    @rule(group=GROUPS, score=SCORES)
    def pop_through(self, group, score):
        ranked = self.ordered(group)
        good = [each for each in ranked if (each[0] >= score if self.highest else each[0] <= score)]
        self.keep(group, ranked[len(good) :])
        assert self.view.pop_through(score, group) == self.shown(good)

    @rule(item=ITEMS, group=GROUPS)
    def remove(self, item, group):
        known = self.now.get(group, {}).pop(msgpack.packb(item), None)
        assert self.view.score(item, group) == known
        assert self.view.remove(item, group) is (known is not None)

    @rule(group=GROUPS)
    def clear(self, group):
        self.view.clear(group)
        self.now.pop(group, None)

    @rule(group=GROUPS, n=st.integers(0, 7))
    def look(self, group, n):
        ranked = self.ordered(group)
        assert self.view.top(n, group) == self.shown(ranked[:n])
        assert self.view.peek(group) == (self.shown(ranked[:1]) or [None])[0]
        assert self.view.size(group) == len(ranked)
        assert list(self.view.groups()) == sorted(each for each, held in self.now.items() if held)

    @rule()
    def an_empty_heap_leaves_nothing_behind(self):
        if not any(self.now.values()):
            assert list(self.opened.stores.stores["s"].all()) == []


WORDS = st.sampled_from(["a", "b", "c", "d"])
DOCUMENTS = st.sampled_from(["1", "2", "3", "4"])
TEXTS = st.lists(WORDS, max_size=6)
QUERIES = st.recursive(
    st.lists(WORDS, min_size=1, max_size=3).map(lambda words: ("phrase", words)),
    lambda inner: st.tuples(st.sampled_from(["AND", "OR", ""]), st.lists(inner, min_size=2, max_size=3)),
    max_leaves=5,
)


def written(query):
    kind, parts = query
    if kind == "phrase":
        return f'"{" ".join(parts)}"' if len(parts) > 1 else parts[0]
    return "(" + f" {kind} ".join(map(written, parts)) + ")"


class IndexMachine(ViewMachine):
    """A dict from a document to its words."""

    keys: ClassVar = {"factory": "inverted-index"}

    @rule(documents=st.dictionaries(DOCUMENTS, TEXTS, min_size=1))
    def add(self, documents):
        for document, words in documents.items():
            self.view.add(document, ", ".join(words).upper())
        self.now.update(documents)

    @rule(documents=st.lists(st.tuples(DOCUMENTS, TEXTS), max_size=6))
    def add_all(self, documents):
        self.view.add_all([document for document, _ in documents], [", ".join(words) for _, words in documents])
        self.now.update(documents)

    @rule(document=DOCUMENTS)
    def delete(self, document):
        assert (document in self.view) is (document in self.now)
        assert self.view.delete(document) is (self.now.pop(document, None) is not None)

    @rule(query=QUERIES, limit=st.sampled_from([0, 1, 100, 100]))
    def search(self, query, limit):
        wanted = {}
        for document in self.now:
            score = self.score(query, document)
            if score is not None:
                wanted[document] = score
        hits = self.view.search(written(query), limit)
        assert len(hits) == min(limit, len(wanted))
        assert [hit.score for hit in hits] == pytest.approx(sorted(wanted.values(), reverse=True)[:limit])
        assert {hit.document: hit.score for hit in hits} == pytest.approx(
            {hit.document: wanted[hit.document] for hit in hits}
        )
        assert len(self.view) == len(self.now)

    def score(self, query, document):
        """None if the document does not match."""
        kind, parts = query
        if kind == "phrase":
            return self.phrase_score(parts, self.now[document])
        each = [self.score(part, document) for part in parts]
        matching = [score for score in each if score is not None]
        if not matching or (kind == "AND" and len(matching) < len(each)):
            return None
        return sum(matching)

    def phrase_score(self, phrase, words):
        found = sum(words[at : at + len(phrase)] == phrase for at in range(len(words)))
        if not found:
            return None
        mean = sum(map(len, self.now.values())) / len(self.now)
        idf = 0.0
        for word in phrase:
            with_word = sum(word in each for each in self.now.values())
            idf += math.log(1 + (len(self.now) - with_word + 0.5) / (with_word + 0.5))
        return idf * found / (found + 1.2 * (1 - 0.75 + 0.75 * len(words) / mean))


VALUES = st.sampled_from([None, True, 1, "x", "1"])
MEASURED = st.one_of(st.none(), st.integers(-5, 5), st.sampled_from([0.5, 2.0**70, 2**63 - 1]))
DIMENSIONS = ("a", "b", "c")


class CubeMachine(ViewMachine):
    """A list of facts."""

    empty: ClassVar[object] = []
    keys: ClassVar = {
        "factory": "cube",
        "cube.dimensions": "a,b,c",
        "cube.measures": "m,n",
        "cube.rollups": "b; b,a; c,a,b",
    }

    @rule(facts=st.lists(st.tuples(st.tuples(VALUES, VALUES, VALUES), MEASURED, MEASURED), min_size=1, max_size=4))
    def add(self, facts):
        for values, m, n in facts:
            fact = dict(zip(DIMENSIONS, values, strict=True))
            self.view.add(fact, {"m": m} if n is None else {"m": m, "n": n})
            self.now.append((fact, m, n))

    @rule(data=st.data(), by=st.permutations(DIMENSIONS).map(tuple), cut=st.integers(0, 3), split=st.integers(0, 3))
    def slice(self, data, by, cut, split):
        fixed, free = by[:cut], by[cut : cut + split]
        where = {dimension: data.draw(VALUES) for dimension in fixed}
        groups = {}
        for fact, m, n in self.now:
            if all(same(fact[dimension], value) for dimension, value in where.items()):
                group = tuple((type(fact[dimension]).__name__, fact[dimension]) for dimension in free)
                groups.setdefault(group, []).append((m, n))
        cells = self.view.slice(where, free)
        found = {tuple((type(c.dimensions[d]).__name__, c.dimensions[d]) for d in free): c.aggregate for c in cells}
        assert found.keys() == groups.keys()
        for group, facts in groups.items():
            assert found[group].count == len(facts)
            for place, name in enumerate(("m", "n")):
                check_measure(found[group].measures[name], [fact[place] for fact in facts if fact[place] is not None])


def same(one, other):
    return type(one) is type(other) and one == other


def check_measure(found, values):
    assert found.count == len(values)
    assert found.sum == pytest.approx(sum(values))
    assert (found.min, found.max) == ((min(values), max(values)) if values else (None, None))
    assert found.mean == (pytest.approx(sum(values) / len(values)) if values else None)


NUMBERS = st.lists(st.integers(0, 60), min_size=1, max_size=8)


class SketchMachine(ViewMachine):
    """A dict from a key to the list of what was added; so few that the sketches are exact."""

    @rule(key=GROUPS, numbers=NUMBERS)
    def add(self, key, numbers):
        self.view.add_all(key, self.items(numbers))
        self.now.setdefault(key, []).extend(numbers)

    @rule(key=GROUPS)
    def delete(self, key):
        self.view.delete(key)
        self.now.pop(key, None)

    def items(self, numbers):
        return numbers


class DistinctMachine(SketchMachine):
    keys: ClassVar = {"factory": "hyperloglog", "hyperloglog.lg.k": "14"}

    @rule(key=GROUPS)
    def look(self, key):
        assert round(self.view.estimate(key)) == len(set(self.now.get(key, [])))

    @rule()
    def unite(self):
        everything = {number for numbers in self.now.values() for number in numbers}
        assert round(self.view.estimate_union(["", "a", "other"])) == len(everything)


class QuantilesMachine(SketchMachine):
    keys: ClassVar = {"factory": "quantiles", "quantiles.k": "4096"}

    @rule(key=GROUPS, fraction=st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0]))
    def look(self, key, fraction):
        numbers = sorted(self.now.get(key, []))
        assert self.view.count(key) == len(numbers)
        if not numbers:
            assert self.view.quantile(key, fraction) is None
            return
        place = max(math.ceil(fraction * len(numbers)), 1) - 1
        assert self.view.quantile(key, fraction) == numbers[place]
        assert self.view.rank(key, 30) == sum(number <= 30 for number in numbers) / len(numbers)
        assert self.view.extremes(key) == (numbers[0], numbers[-1])


class BloomMachine(SketchMachine):
    keys: ClassVar = {"factory": "bloom", "bloom.capacity": "1000", "bloom.error.rate": "0.000001"}

    def items(self, numbers):
        return [str(number) for number in numbers]

    @rule(key=GROUPS)
    def look(self, key):
        found = {number for number in range(61) if self.view.might_contain(key, str(number))}
        assert found == set(self.now.get(key, []))


QUICK = settings(suppress_health_check=list(HealthCheck), stateful_step_count=20)
for machine, examples in (
    (HeapMachine, 30),
    (IndexMachine, 20),
    (CubeMachine, 10),
    (DistinctMachine, 6),
    (QuantilesMachine, 6),
    (BloomMachine, 6),
):
    machine.TestCase.settings = settings(QUICK, max_examples=examples)

TestHeap = HeapMachine.TestCase
TestIndex = IndexMachine.TestCase
TestCube = CubeMachine.TestCase
TestDistinctCounts = DistinctMachine.TestCase
TestQuantiles = QuantilesMachine.TestCase
TestBloomFilters = BloomMachine.TestCase
