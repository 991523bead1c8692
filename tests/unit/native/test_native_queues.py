"""The compiled queues, over a librdkafka without a cluster: what they take, what they put, and what they keep."""

import sys
from itertools import groupby, pairwise

import pytest
from fake_librdkafka import FakeLibrdkafka
from hypothesis import given
from hypothesis import strategies as st

from samzapy import native

pytestmark = pytest.mark.skipif(native.extension is None, reason=native.missing)
UNKNOWN_TOPIC, UNKNOWN_PARTITION = 3, -190


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return FakeLibrdkafka(tmp_path_factory.mktemp("extension"))


def taken(library, events, most=1_000):
    library.events[:] = events
    queue = library.fetch_queue()
    found = queue.take(most, 0)
    queue.close()
    return found


def test_headers_may_be_left_out(library):
    library.events[:] = [library.record("a", 0, 7, b"k", headers=[(b"n", b"1")])]
    ((*_, times, headers),), _ = library.fetch_queue(headers=False).take(10, 0)
    assert (times, headers) == ([5], None)
    assert not library.living


@pytest.mark.parametrize(
    ("code", "text", "topic", "partition"),
    [
        (UNKNOWN_TOPIC, "topic does not exist", "a", 1),
        (UNKNOWN_PARTITION, "desired partition is no longer available", "a", 0),
        (-185, "timed out", None, -1),
    ],
)
def test_an_error_among_records_is_reported_with_its_place(library, code, text, topic, partition):
    records = [library.record("a", 0, 1), library.record("a", 0, 2)]
    runs, reports = taken(library, [records[0], library.error(code, text, topic, partition), records[1]])
    assert [list(run[2]) for run in runs] == [[1], [2]]
    assert reports == [(code, text, topic or "", partition)]
    assert not library.living


def test_an_error_by_callback_is_passed_on_while_records_are_taken(library):
    noted = []
    queue = library.fetch_queue(lambda *error: noted.append(error))
    library.events[:] = [
        library.record("a", 0, 1),
        (UNKNOWN_PARTITION, b"a [1]: unavailable"),
        library.record("a", 0, 2),
    ]
    runs, reports = queue.take(10, 0)
    assert ([list(run[2]) for run in runs], reports) == ([[1, 2]], [])
    assert noted == [(UNKNOWN_PARTITION, "a [1]: unavailable")]
    library.events[:] = [library.record("a", 0, 3), (UNKNOWN_PARTITION, b"again")]
    assert [list(run[2]) for run in queue.take(10, 0)[0]] == [[3]]
    assert noted[1:] == [(UNKNOWN_PARTITION, "again")]
    other = library.fetch_queue(lambda *error: noted.append("other"))
    other.close()
    library.events[:] = [(UNKNOWN_PARTITION, b"last")]
    assert queue.take(10, 0) == ([], [])
    assert noted[2:] == [(UNKNOWN_PARTITION, "last")]
    assert not library.living


def test_a_take_waits_outside_of_librdkafka_since_clocks_are_set_back(library):
    library.later[:] = [library.record("orders", 0, 7), library.record("orders", 0, 8)]
    queue = library.fetch_queue()
    ((*_, offsets, _keys, _values, _times, _headers),), _ = queue.take(10, 60_000)
    queue.close()
    assert (list(offsets), set(library.waits), library._file) == ([7, 8], {0}, -1)


def test_a_consumer_that_keeps_its_error_cb_gets_no_queue(library):
    # Its error_cb would end the process when the queue is read.
    library.keeps_error_cb = True
    try:
        with pytest.raises(RuntimeError, match="no consumer with this plugin and its error_cb"):
            library.fetch_queue()
        library.produce_queue()
    finally:
        library.keeps_error_cb = False


some_bytes = st.none() | st.binary(max_size=40)
pairs = st.tuples(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), some_bytes)
places = st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 40))
rows = st.tuples(places, some_bytes, some_bytes, st.integers(0, 3), st.none() | st.lists(pairs, max_size=3))


@given(st.lists(rows, max_size=30))
def test_columns_are_those_of_the_records_in_their_order(library, records):
    library.events[:] = [
        library.record(*place, key, value, time, headers and [(name.encode(), data) for name, data in headers])
        for place, key, value, time, headers in records
    ]
    runs, reports = library.fetch_queue().take(1_000, 0)
    assert reports == []
    expected = [list(run) for _, run in groupby(records, lambda record: record[0][:2])]
    assert len(runs) == len(expected)
    for (topic, partition, offsets, keys, values, times, headers), run in zip(runs, expected, strict=True):
        assert (topic, partition) == run[0][0][:2]
        assert list(offsets) == [place[2] for place, *_ in run] or not is_growing(run)
        assert keys == [row[1] for row in run]
        assert values == [row[2] for row in run]
        assert times == [row[3] for row in run]
        assert (headers or [None] * len(run)) == [row[4] or None for row in run]
    assert not library.living


def is_growing(run):
    offsets = [place[2] for place, *_ in run]
    return all(one < other for one, other in pairwise(offsets))


class MadeOnAccess(tuple):
    """A pair whose items nobody else holds."""

    __slots__ = ()

    def __getitem__(self, index):
        return bytes(bytearray(b"made on access %d" % index))

    def __iter__(self):
        return (self[index] for index in range(2))


class Sequence:
    """Neither a list nor a tuple; its items are made when they are asked for."""

    def __repr__(self):
        return "Sequence"

    def __init__(self, *items):
        self._items = items

    def __len__(self):
        return len(self._items)

    def __getitem__(self, index):
        found = self._items[index]
        return bytes(bytearray(found)) if isinstance(found, bytes) else found


def put(library, key=b"k", value=b"v", time=None, headers=None, number=0):
    library.produced.clear()
    assert library.produce_queue().put("t", 0, number, [key], [value], [time], [headers]) == (1, 0)
    (record,) = library.produced
    return record


@given(some_bytes, some_bytes, st.none() | st.integers(1, 2**50), st.none() | st.lists(pairs, max_size=4))
def test_a_record_is_put_as_it_is(library, key, value, time, headers):
    assert put(library, key, value, time, headers) == ("t", 0, key, value, time, headers or None)


@pytest.mark.parametrize("kind", [tuple, list, iter, lambda pairs: Sequence(*pairs)])
def test_headers_may_be_any_iterable_of_tuples(library, kind):
    pairs = [("a", b"1" * 40), ("b", b"2" * 40), ("c", None)]
    assert put(library, headers=kind(pairs))[-1] == pairs


def test_the_contents_of_a_pair_are_those_of_the_tuple(library):
    pairs = [MadeOnAccess(("a", b"one" * 30)), MadeOnAccess(("b", b"two" * 30))]
    assert put(library, headers=pairs)[-1] == [("a", b"one" * 30), ("b", b"two" * 30)]


def test_text_is_put_as_utf_8(library):
    assert put(library, "k\u00e9", "v\0", None, [("h\u00e9", "x\u00e9")])[2:] == (
        "k\u00e9".encode(),
        b"v\0",
        None,
        [("h\u00e9", "x\u00e9".encode())],
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"headers": [["a", b"1"]]},
        {"headers": [Sequence("a", b"1")]},
        {"headers": [("a", b"1", 2)]},
        {"headers": [("a",)]},
        {"headers": [("a", bytearray(b"1"))]},
        {"headers": [("a", 3)]},
        {"headers": [(None, b"1")]},
        {"headers": [None]},
        {"headers": 5},
        {"key": 3},
        {"value": bytearray(b"x")},
        {"time": "0"},
        {"time": 1.5},
        {"number": [1.0]},
        {"number": [2**40]},
        {"number": [-(2**40)]},
        {"time": 2**70},
    ],
    ids=repr,
)
def test_what_confluent_kafka_refuses_is_refused_and_not_put(library, wrong):
    with pytest.raises((TypeError, OverflowError)):
        put(library, **wrong)
    assert library.produced == []


def test_queues_leave_no_references_behind(library):
    key, value, name, data = (bytes(bytearray(b"%d" % n * 20)) for n in range(4))
    name = name.decode()
    columns = [[key], [value], [1_000_000], [[(name, data)]]]

    def once():
        queue = library.produce_queue()
        queue.put("t", 0, 0, *columns)
        queue.put("t", 0, 0, *columns[:2], None, None)
        for wrong in ([[("x", 3)]], [[(name, data, 1)]]):
            with pytest.raises(TypeError):
                queue.put("t", 0, 0, *columns[:3], wrong)
        taken(
            library, [library.record("t", 0, 1, key, value, 2_000_000, [(b"a", b"x")]), library.error(3, "x", "t", 0)]
        )
        library.produced.clear()

    def counts():
        return [sys.getrefcount(each) for each in (key, value, name, data)]

    once()
    before = counts()
    for _ in range(20):
        once()
    assert counts() == before
