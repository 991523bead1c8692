"""When windows are sent: on each change, early, on close."""

import pytest
from rigs.windows_rig import Sent, WindowsRig, opened_store

from samzapy import SystemStream
from samzapy.operators.windows import (
    Collect,
    Count,
    Early,
    Hopping,
    OnChange,
    Sessions,
    Tumbling,
    WindowedAggregation,
    WindowResult,
)
from samzapy.operators.windows.windows import sender


@pytest.fixture
def rig(tmp_path):
    with opened_store(tmp_path) as opened:
        yield lambda windows, emit, aggregation=None: WindowsRig(
            opened, WindowedAggregation(windows, aggregation or Count(), None, emit=emit)
        )


def shown(results):
    return [(result.key, result.start, result.end, result.value, result.kind) for result in results]


def test_every_change_of_a_window_is_sent_at_once_and_its_close_as_well(rig):
    windows = rig(Tumbling(10), OnChange())
    for time in (1, 4, 3):
        windows.add("a", time)
    assert shown(windows.sent.results) == [("a", 0, 10, n, "update") for n in (1, 2, 3)]
    assert [result.time_ms for result in windows.sent.results] == [1, 4, 4], "not in the future of the inputs"
    assert shown(windows.finish()) == [("a", 0, 10, 3, "final")]


def test_an_update_of_a_session_takes_the_place_of_those_it_has_joined(rig):
    windows = rig(Sessions(10, grace=50), OnChange(), Collect())
    for time in (100, 115, 107):
        windows.add("a", time, value=time)
    assert shown(windows.sent.results) == [
        ("a", 100, 110, [100], "update"),
        ("a", 115, 125, [115], "update"),
        ("a", 100, 125, [100, 115, 107], "update"),
    ]


@pytest.mark.parametrize("windows", [Tumbling(10), Sessions(10), Hopping(10, 10)], ids=lambda each: each.name)
def test_changed_windows_are_sent_early_once_a_period(rig, windows):
    opened = rig(windows, Early("10s"))
    opened.add("a", 0)
    opened.add("b", 0)
    opened.add("a", 3)
    assert opened.advance(9) == []
    end = 13 if isinstance(windows, Sessions) else 10
    assert shown(opened.advance(1)) == [("a", 0, end, 2, "early"), ("b", 0, 10, 1, "early")]
    opened.add("a", 4)
    assert opened.advance(9) == []
    end = 14 if isinstance(windows, Sessions) else 10
    assert shown(opened.advance(1)) == [("a", 0, end, 3, "early")], "b has not changed"
    assert opened.advance(10) == []
    assert {(result.key, result.value, result.kind) for result in opened.finish()} == {
        ("a", 3, "final"),
        ("b", 1, "final"),
    }


def test_a_window_that_is_closed_has_no_early_result_any_more(rig):
    windows = rig(Tumbling(10), Early("1s"))
    windows.add("a", 5)
    windows.add("a", 10)
    assert shown(windows.advance(1)) == [("a", 0, 10, 1, "final"), ("a", 10, 20, 1, "early")]


def test_a_stream_gets_each_result_under_its_key_and_in_its_time():
    sent = Sent()
    sender(SystemStream("mem", "out"))(WindowResult("a", 0, 10, [1], "final", 9), sent)
    (envelope,) = sent.pending
    assert (envelope.system_stream, envelope.key, envelope.timestamp) == (SystemStream("mem", "out"), "a", 9)
    assert envelope.message == {"key": "a", "start": 0, "end": 10, "value": [1], "kind": "final"}
