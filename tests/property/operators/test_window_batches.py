"""Windows that take batches, against the same windows that take one message after the other."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rigs.windows_rig import LATE, WindowsRig, opened_store, ssp

from samzapy import IncomingMessageEnvelope
from samzapy.api.envelope import MessageBatch
from samzapy.operators.windows import (
    Collect,
    Count,
    Early,
    Fold,
    Hopping,
    Max,
    Mean,
    Min,
    OnChange,
    OnClose,
    Sessions,
    Sliding,
    Sum,
    Top,
    Tumbling,
    WindowedAggregation,
)

PANED = Hopping(12, 3, grace=3)
WINDOWS = [Tumbling(10, grace=4), Hopping(12, 5, grace=3), PANED, Sessions(5, grace=6), Sliding(8, grace=5)]
AGGREGATIONS = [
    Count(),
    Sum(),
    Min(),
    Max(),
    Mean(),
    Collect(),
    Top(2),
    Fold(list, lambda held, value: [*held, -value], lambda one, other: one + other),
]
EMISSIONS = [OnClose(), OnChange(), Early(1)]
MESSAGES = st.tuples(st.integers(0, 1), st.sampled_from("abc"), st.integers(0, 60), st.integers(-9, 9))
STEPS = st.lists(
    st.one_of(
        st.lists(MESSAGES, min_size=1, max_size=12),
        st.lists(MESSAGES, min_size=1, max_size=12),
        st.sampled_from(["advance", "commit", "crash"]),
    ),
    max_size=10,
)


def one_by_one(rig, messages):
    for each in messages:
        rig.windows.add(each, each.key, each.message["value"], rig.sent)


def as_a_list(rig, messages):
    rig.windows.add_all(messages, rig.sent, value=lambda message: message["value"])


def as_batches(rig, messages):
    """One MessageBatch for each run of messages of a partition, with columns that are given."""
    first = 0
    for place in range(1, len(messages) + 1):
        if place == len(messages) or messages[place].ssp != messages[first].ssp:
            part = messages[first:place]
            batch = MessageBatch(
                part[0].ssp,
                [each.offset for each in part],
                [each.key for each in part],
                [each.message for each in part],
            )
            rig.windows.add_all(
                batch,
                rig.sent,
                key=[each.key for each in part],
                value=lambda message: message["value"],
                time=[each.event_time for each in part],
            )
            first = place


def outcome(path, aggregation, steps, feed):
    with opened_store(path) as opened:
        rig = WindowsRig(opened, aggregation, partitions=2)
        offset = 0
        for step in steps:
            if step == "advance":
                rig.advance(1.0)
            elif isinstance(step, str):
                getattr(rig, step)()
            else:
                messages = [
                    IncomingMessageEnvelope(ssp(partition), offset + n, key, {"value": value}, event_time=time)
                    for n, (partition, key, time, value) in enumerate(step)
                ]
                offset += len(step)
                feed(rig, messages)
        kept = dict(opened.store.all())
        late = [(each.key, each.message, each.timestamp) for each in rig.sent.late]
        rig.finish()
        return rig.sent.results, late, kept


@pytest.mark.parametrize("feed", [as_a_list, as_batches])
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    windows=st.sampled_from(WINDOWS), fold=st.sampled_from(AGGREGATIONS), emit=st.sampled_from(EMISSIONS), steps=STEPS
)
def test_a_batch_leaves_what_its_messages_would_have_left(tmp_path_factory, feed, windows, fold, emit, steps):
    aggregation = WindowedAggregation(windows, fold, None, late=LATE, emit=emit)
    path = tmp_path_factory.mktemp("windows")
    expected = outcome(path / "one", aggregation, steps, one_by_one)
    assert outcome(path / "all", aggregation, steps, feed) == expected


@pytest.mark.parametrize(
    ("change", "failure", "said"),
    [
        ({"time": [1, -1]}, ValueError, r"mem.in\[0\]@8: event time -1: windows need milliseconds"),
        ({"time": [1, 2.0]}, ValueError, r"mem.in\[0\]@8: event time 2.0: windows need milliseconds"),
        ({"key": ["a", 7]}, TypeError, r"mem.in\[0\]@8: keys of windows are strings, got int 7"),
        ({"key": ["a"]}, ValueError, "a column has 1 values for at least 2 messages"),
        ({"value": [1, 2, 3]}, ValueError, "value: a column has 3 values for only 2 messages"),
        ({"key": "id"}, TypeError, r"key: a function or a column, got 'id'; for a field give lambda m: m\['id'\]"),
        ({"value": b"id"}, TypeError, "value: a function or a column, got b'id'"),
    ],
)
def test_a_batch_with_a_message_that_is_refused_adds_nothing(tmp_path, change, failure, said):
    with opened_store(tmp_path) as opened:
        rig = WindowsRig(opened, WindowedAggregation(Tumbling(10), Count(), None))
        before = dict(opened.store.all())
        batch = MessageBatch(ssp(0), [7, 8], ["a", "b"], [1, 1], [1, 2])
        with pytest.raises(failure, match=said):
            rig.windows.add_all(batch, rig.sent, **change)
        assert dict(opened.store.all()) == before
