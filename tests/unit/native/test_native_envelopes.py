"""Envelopes are the same, compiled or not."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samzapy import native
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import RecordBatch
from samzapy.container.inputs import decode

pytestmark = pytest.mark.skipif(native.extension is None, reason=native.missing)

SSP = SystemStreamPartition("kafka", "in", 3)


def batch_of(size, offsets=None, headers=None):
    values = [None if n % 5 == 4 else b"x" * n for n in range(size)]
    return RecordBatch(
        SSP, offsets or range(7, 7 + size), [b"k"] * size, values, [1_000 + n for n in range(size)], headers
    )


def in_python(monkeypatch, *arguments):
    with monkeypatch.context() as patched:
        patched.setattr(native, "extension", None)
        return decode._made(*arguments)


@pytest.mark.parametrize("offsets", [None, [1, 2, 9, 10, 11, 12, 20]])
@pytest.mark.parametrize("headers", [None, [None, [("a", b"1")], None, None, None, None, [("b", None)]]])
def test_envelopes_are_those_made_in_python(offsets, headers, monkeypatch):
    batch = batch_of(7, offsets, headers)
    keys, messages = [f"k{n}" for n in range(7)], [{"n": n} for n in range(7)]
    found = decode._made(batch, keys, messages, 5_000)
    assert found == in_python(monkeypatch, batch, keys, messages, 5_000)
    assert {type(each) for each in found} == {IncomingMessageEnvelope}
    assert [each.size for each in found] == [0, 1, 2, 3, 0, 5, 6]
    assert found[1].position == f"{SSP}@{batch.offsets[1]}"


@given(st.integers(0, 40))
def test_columns_may_be_any_sequences(size):
    batch = batch_of(size)
    columns = (tuple(batch.keys), tuple(range(size)), None, tuple(batch.timestamps), 5, tuple(batch.values))
    found = native.extension.envelopes(IncomingMessageEnvelope, SSP, batch.offsets, *columns)
    assert [(each.offset, each.key, each.message, each.event_time) for each in found] == [
        (7 + n, b"k", n, 1_000 + n) for n in range(size)
    ]


@pytest.mark.parametrize("short", range(6))
def test_a_column_that_is_too_short_is_an_error(short):
    columns = [[1, 2, 3], [b"k"] * 3, ["m"] * 3, [None] * 3, [1] * 3, 5, [b"v"] * 3]
    place = (0, 1, 2, 3, 4, 6)[short]
    columns[place] = columns[place][:-1] if place else [1, 2, 3, 4]
    with pytest.raises((IndexError, TypeError)):
        native.extension.envelopes(IncomingMessageEnvelope, SSP, *columns)


@pytest.mark.parametrize("kind", [dict, 1, object])
def test_only_classes_of_tuples_are_made(kind):
    with pytest.raises(TypeError, match="class of tuples"):
        native.extension.envelopes(kind, SSP, [], [], [], None, [], 5, [])


def test_nothing_keeps_the_parts_of_envelopes_that_are_gone():
    key, message = object(), object()
    before = sys.getrefcount(key), sys.getrefcount(message)
    for _ in range(100):
        native.extension.envelopes(IncomingMessageEnvelope, SSP, [1], [key], [message], None, [1], 5, [b"v"])
        with pytest.raises(IndexError):
            native.extension.envelopes(IncomingMessageEnvelope, SSP, [1, 2], [key], [message, 1], None, [1], 5, [b"v"])
    assert (sys.getrefcount(key), sys.getrefcount(message)) == before
