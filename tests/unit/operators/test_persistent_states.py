"""Monoids, states and checkpoints as values; what a task makes of them is in tests/unit/container and
tests/property."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samzapy.api.envelope import MessageBatch
from samzapy.api.stream import SystemStreamPartition
from samzapy.errors import RestoreError, TaskFailed
from samzapy.operators.persistent import (
    Count,
    Distinct,
    HyperLogLog,
    Keyed,
    Max,
    Mean,
    Min,
    Monoid,
    NonWindowState,
    Sum,
    WindowState,
)
from samzapy.operators.persistent.task import StateCheckpoint, decode, encode

SSP = SystemStreamPartition("kafka", "orders", 0)


class Longest(Monoid):
    """A user's own: the longest text, of several the last in the alphabet; kept as bytes."""

    def zero(self):
        return ""

    def plus(self, left, right):
        return max(left, right, key=lambda text: (len(text), text))

    def to_plain(self, total):
        return total.encode()

    def from_plain(self, plain):
        return plain.decode()


def state_of(monoid, *messages, interval=10):
    """A state after messages of (time, item)."""
    state = NonWindowState(monoid)
    state.open(interval)
    feed(state, *messages)
    return state


def feed(state, *messages):
    for time, item in messages:
        state.begin(time)
        state.update(time, item)
        state.settle()


CASES = [
    (Sum(), [3, 4, 5], 12),
    (Sum(), [2**70, 1], 2**70 + 1),
    (Count(), ["a", None, 7], 3),
    (Min(), [3, 1, 2], 1),
    (Max(), [3.5, 1.0], 3.5),
    (Min(), [], None),
    (Mean(), [1, 2, 6], [9, 3]),
    (Distinct(), ["a", "b", "a", ("t", 1)], {"a", "b", ("t", 1)}),
    (Keyed(Count()), [("x", 1), ("y", 1), ("x", 1)], {"x": 2, "y": 1}),
    (Keyed(Distinct()), [(("a", 1), 5), (("a", 1), 6)], {("a", 1): {5, 6}}),
    (Longest(), ["aa", "b", "cc"], "cc"),
]


@pytest.mark.parametrize(("monoid", "items", "expected"), CASES, ids=lambda each: type(each).__name__)
def test_a_state_is_its_monoid_s_fold_on_both_sides_of_a_cut_and_through_its_bytes(monoid, items, expected):
    state = state_of(monoid, *[(9 * n, item) for n, item in enumerate(items)])
    assert state.value == expected
    taken = encode(StateCheckpoint(10, {SSP: 3}, state.checkpoint(10)))
    again = NonWindowState(monoid)
    again.open(10)
    again.recover(decode(taken, "here").state)
    assert again.value == state.value == expected


def test_a_hyperloglog_counts_different_items_through_checkpoint_and_merge():
    state = state_of(HyperLogLog(), *[(n % 20, n % 500) for n in range(2_000)])
    again = NonWindowState(HyperLogLog())
    again.open(10)
    again.recover(decode(encode(StateCheckpoint(10, {}, state.checkpoint(10))), "here").state)
    assert HyperLogLog.estimate(again.value) == pytest.approx(500, rel=0.06)
    assert HyperLogLog.estimate(state_of(HyperLogLog(), (1, ""), (2, "a"), (3, "")).value) == pytest.approx(2, rel=0.06)
    with pytest.raises(ValueError, match="lg_k must be from 4 to 21, got 3"):
        HyperLogLog(3)


def test_the_cut_holds_what_is_before_its_time_and_late_messages_from_then_on():
    state = state_of(Sum(), (5, 1), (12, 2), (25, 4))
    state.checkpoint(10)
    assert (state.cut, state.value) == (1, 7)
    feed(state, (3, 8))
    assert (state.cut, state.value) == (9, 15)
    state.checkpoint(30)
    assert (state.cut, state.value) == (15, 15)


def test_updates_count_when_the_message_is_done_and_are_seen_before():
    state = state_of(Keyed(Count()), (1, ("a", 1)))
    state.begin(2)
    state.update(2, ("a", 1))
    assert state.value == {"a": 2}
    state.roll_back()
    assert state.value == {"a": 1}
    with pytest.raises(RuntimeError, match="in process_message only"):
        state.update(3, ("a", 1))


def test_a_window_slides_with_the_clock_and_counts_what_is_late():
    state = WindowState(Sum(), 20, 10)
    state.open(10)
    assert state.window is None
    feed(state, (5, 1), (15, 2), (25, 4))
    state.advance(19)
    assert (state.window, state.value) == ((0, 20), 3)
    state.advance(25)
    assert (state.window, state.value) == ((10, 30), 6)
    feed(state, (9, 100), (10, 8), (31, 16))
    assert (state.value, state.late) == (14, 1)
    state.advance(30)
    assert (state.window, state.value) == ((20, 40), 20)
    state.advance(10)
    assert state.window == (20, 40)


def test_a_window_goes_on_from_its_checkpoint():
    state = WindowState(Count(), 20, 10)
    state.open(10)
    feed(state, (5, 1), (15, 1), (27, 1))
    state.advance(27)
    again = WindowState(Count(), 20, 10)
    again.open(10)
    again.recover(decode(encode(StateCheckpoint(20, {}, state.checkpoint(20))), "here").state)
    assert (again.window, again.value, again.cut) == (state.window, 2, {10: 1})
    again.advance(35)
    assert (again.window, again.value) == ((20, 40), 1)


@pytest.mark.parametrize(("size", "step"), [(90, 30), (120, 60), (60, 30)])
def test_a_window_does_not_go_on_from_windows_of_other_lengths(size, step):
    state = WindowState(Sum(), 60)
    state.open(10)
    feed(state, (10, 1), (45, 2))
    taken = decode(encode(StateCheckpoint(20, {}, state.checkpoint(20))), "here").state
    again = WindowState(Sum(), size, step)
    again.open(10)
    message = f"^totals of windows of 60 ms every 60 ms, the task wants {size} ms every {step} ms$"
    with pytest.raises(ValueError, match=message):
        again.recover(taken)


@pytest.mark.parametrize("value", [b"", b"\x80", b"\xc1", encode(StateCheckpoint(1, {}, None))[:-1] + b"\xc1"])
def test_bytes_that_are_no_state_are_refused_by_their_place(value):
    with pytest.raises(RestoreError, match=r"^topic\[0\] key: not a state"):
        decode(value, "topic[0] key")


def test_a_state_that_is_not_plain_is_refused_with_its_type():
    with pytest.raises(TypeError, match=r"the state has object \(see Monoid\.to_plain\)"):
        encode(StateCheckpoint(1, {}, object()))


ITEMS = {
    "sum": (Sum, st.integers(-(2**40), 2**40)),
    "count": (Count, st.none() | st.text(max_size=2)),
    "min": (Min, st.integers()),
    "max": (Max, st.text(max_size=3)),
    "mean": (Mean, st.integers(0, 9)),
    "distinct": (Distinct, st.integers(0, 5)),
    "keyed": (lambda: Keyed(Sum()), st.tuples(st.sampled_from("ab"), st.integers(0, 9))),
    "own": (Longest, st.text(max_size=3)),
}


def batch_of(messages):
    times, items = zip(*messages, strict=True)
    return MessageBatch(SSP, list(range(len(times))), [None] * len(times), items, times)


@pytest.mark.parametrize("windowed", [False, True])
@pytest.mark.parametrize("name", ITEMS)
@given(data=st.data())
@settings(max_examples=20)
def test_a_batch_adds_what_its_messages_add(name, windowed, data):
    monoid, items = ITEMS[name]
    made = [WindowState(monoid(), 20, 10) if windowed else NonWindowState(monoid()) for _ in range(2)]
    for state in made:
        state.open(10)
    one, other = made
    for messages in data.draw(
        st.lists(st.lists(st.tuples(st.integers(-1, 80), items), min_size=1, max_size=9), max_size=5)
    ):
        feed(one, *messages)
        other.begin_batch()
        other.add_all(batch_of(messages))
        assert other.value == one.value
        other.settle()
        cut = data.draw(st.sampled_from([0, 10, 20]))
        clock = data.draw(st.integers(0, 90))
        for state in made:
            if windowed:
                state.advance(clock)
            if cut > state._sides.cut:
                state.checkpoint(cut)
        assert [other.value, other.cut, other.checkpoint(80)] == [one.value, one.cut, one.checkpoint(80)]


def test_a_batch_that_does_not_add_up_adds_nothing():
    state = state_of(Keyed(Sum()), (5, ("a", 1)))
    state.begin_batch()
    state.add_all(batch_of([(5, ("a", 2)), (15, ("b", 3))]))
    state.add_all(batch_of([(5, ("a", "odd"))]))
    with pytest.raises(TypeError):
        state.settle()
    state.roll_back()
    assert state.value == {"a": 1}


class Lists(Monoid):
    """A user's own, which changes its totals in place, and refuses one that is long."""

    def zero(self):
        return []

    def plus(self, left, right):
        if len(left) > 1:
            raise ValueError("long")
        left += right
        return left


def test_totals_that_are_half_changed_end_the_task():
    state = state_of(Keyed(Lists()), (5, ("a", [1])), (5, ("b", [1])), (5, ("b", [2])))
    state.begin(5)
    state.update(5, ("a", [3]))
    state.update(5, ("b", [3]))
    with pytest.raises(TaskFailed, match="the state is half changed, since some of its totals took an update"):
        state.settle()
