"""Strings in an arena, and their order, against lists and `sorted`."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samzapy.api.engine import EngineSettings
from samzapy.storage.changelog import gathering
from samzapy.storage.changelog.gathering import Arena, SortedRecords, key_order, unreplaced
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory

#: Few letters, the first and the last byte among them, so that many strings begin alike or differ in zeros only.
LETTERS = st.sampled_from([b"\x00", b"\x01", b"a", b"b", b"\xff"])
SHORT = st.lists(LETTERS, max_size=4).map(b"".join)
ONE_LENGTH = st.lists(LETTERS, min_size=11, max_size=11).map(b"".join)
LONG = st.tuples(st.sampled_from([b"", b"p" * 7, b"p" * 8, b"p" * 31, b"p" * 40]), SHORT).map(b"".join)
STRINGS = st.one_of(*(st.lists(each, max_size=60) for each in (SHORT, ONE_LENGTH, LONG, st.binary(max_size=50))))


@pytest.fixture(autouse=True)
def few_columns_and_small_parts(monkeypatch):
    monkeypatch.setattr(gathering, "COLUMNS", 32)
    monkeypatch.setattr(gathering, "_STEP", 7)
    monkeypatch.setattr(gathering, "_PART", 3)
    monkeypatch.setattr(gathering, "_PART_BYTES", 40)


def filled(strings, cuts=3):
    held = Arena()
    for first in range(0, len(strings), cuts):
        part = strings[first : first + cuts]
        held.append(part, b"".join(part))
    return held


def read(held, rows):
    reader, part = held.reader(), held.part()
    assert part == 1 or part * held.used <= 40 * len(held.lengths()), "more than so many bytes at a time, on average"
    return [string for first in range(0, len(rows), part) for string in reader(rows[first : first + part])]


@settings(max_examples=200)
@given(STRINGS)
def test_strings_come_in_the_order_of_their_bytes_and_equal_ones_as_they_arrived(strings):
    order, new = key_order(filled(strings), np.arange(len(strings)))
    assert order.tolist() == sorted(range(len(strings)), key=lambda row: strings[row])
    assert new.tolist()[1:] == [strings[left] != strings[right] for left, right in pairwise(order.tolist())]
    assert new.tolist()[:1] == [True] * min(1, len(strings))


@settings(max_examples=200)
@given(STRINGS)
def test_the_last_row_of_each_string_is_never_replaced_and_who_is_has_a_later_one(strings):
    rows = unreplaced(filled(strings)).tolist()
    last = {string: row for row, string in enumerate(strings)}
    assert rows == sorted(set(rows))
    assert set(last.values()) <= set(rows)


def test_most_rows_that_are_replaced_go():
    strings = [b"%d" % (row % 1_000) for row in range(10_000)]
    assert 1_000 <= len(unreplaced(filled(strings))) < 3_000


@settings(max_examples=200)
@given(STRINGS, STRINGS, st.randoms(use_true_random=False))
def test_rows_that_are_kept_are_those_that_were_there(strings, more, chance):
    held = filled(strings)
    rows = [row for row in range(len(strings)) if chance.random() < 0.5]
    held.keep(np.array(rows, np.intp))
    if more:
        held.append(more, b"".join(more))
    expected = [strings[row] for row in rows] + more
    assert read(held, np.arange(len(expected))) == expected
    assert held.used == sum(map(len, expected))


BATCHES = st.lists(st.lists(st.tuples(LONG, st.none() | st.binary(max_size=6)), max_size=12), max_size=8)


@settings(max_examples=60)
@given(BATCHES, BATCHES, st.sampled_from([1, 1_000, 100_000]))
def test_a_store_that_is_loaded_twice_holds_the_last_value_of_each_key(tmp_path_factory, first, second, memory):
    path, expected = tmp_path_factory.mktemp("store"), dict[bytes, bytes]()
    engine = RocksDbStorageEngineFactory().open(path, EngineSettings("s"))
    for batches in (first, second):
        gathered = SortedRecords()
        for batch in batches:
            gathered.add([key for key, _ in batch], [value for _, value in batch])
            if gathered.is_full(memory):
                engine.load(gathered.parts(), b"on the way")
                gathered = SortedRecords()
            expected.update(batch)
        engine.load(gathered.parts(), b"done")
    with engine.iterate(None, None) as pairs:
        assert dict(pairs) == {key: value for key, value in sorted(expected.items()) if value is not None}
    assert engine.marker() == b"done"
    engine.close()
