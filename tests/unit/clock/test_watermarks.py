from __future__ import annotations

import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samzapy.clock import IdleRule, Watermarks


def test_the_clock_is_the_least_mark_once_every_source_has_one():
    clock = Watermarks(["a", "b"])
    assert clock.current is None
    assert clock.holding == "a"
    assert not clock.advance("a", 10)
    assert clock.holding == "b"
    assert clock.advance("b", 7)
    assert clock.current == 7
    assert clock.advance("b", 12)
    assert (clock.current, clock.holding) == (10, "a")


def test_an_older_time_moves_nothing():
    clock = Watermarks(["a"])
    assert clock.advance("a", 10)
    assert not clock.advance("a", 9)
    assert clock.marks == {"a": 10}


def test_an_idle_source_does_not_hold_the_others_back_until_it_speaks_again():
    clock = Watermarks(["a", "b"])
    clock.advance("a", 50)
    assert clock.set_aside("b")
    assert clock.current == 50
    clock.advance("b", 20)
    assert clock.current == 50
    clock.advance("a", 60)
    assert (clock.current, clock.holding) == (50, "b")


def test_when_no_source_counts_the_clock_is_the_highest_mark():
    clock = Watermarks(["a", "b"])
    clock.advance("a", 5)
    clock.advance("b", 9)
    clock.set_aside("a")
    clock.set_aside("b")
    assert (clock.current, clock.holding) == (9, None)


def test_kept_marks_go_on_where_they_were_and_forget_sources_that_are_gone():
    clock = Watermarks(["a", "b"], {"a": 3, "b": 4, "gone": 1})
    assert clock.current == 3
    assert clock.marks == {"a": 3, "b": 4}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 50), st.booleans())))
def test_the_clock_never_goes_back_is_the_least_of_what_counts_and_reaches_the_least_of_the_others(steps):
    clock, marks, aside, reached = Watermarks("abc"), {}, set(), None
    for source, time_ms, leaves in steps:
        if leaves:
            clock.set_aside(source)
            aside.add(source)
        else:
            clock.advance(source, time_ms)
            aside.discard(source)
            marks[source] = max(time_ms, marks.get(source, 0))
        counting = [each for each in "abc" if each not in aside]
        if all(each in marks for each in counting):
            least = min((marks[each] for each in counting), default=max(marks.values(), default=None))
            reached = max((each for each in (least, reached) if each is not None), default=None)
        assert clock.current == reached
        holding = min(counting, key=lambda each: (each in marks, marks.get(each, 0), each), default=None)
        assert (clock.holding, clock.marks) == (holding, marks)
        others = [marks.get(each, float("-inf")) for each in counting if each != source]
        assert clock.reach(source) == min(others, default=float("inf"))


def test_a_source_is_idle_after_its_time_of_silence_until_it_brings_something():
    rule = IdleRule(["a", "b"], 0.0, 5.0)
    assert not rule.check(4.9)
    rule.receive("a", 4.9)
    assert rule.check(5.0)
    assert (rule.idle, rule.all_silent_s(5.0)) == ({"b"}, pytest.approx(0.1))
    assert not rule.check(6.0), "nothing new"
    rule.receive("b", 6.0)
    assert rule.idle == set()
    assert rule.check(10.0)
    assert rule.idle == {"a"}
    rule.forget("a")
    assert rule.check(11.0)
    assert rule.idle == {"b"}


class Compared(int):
    """A time that counts how often it is compared with another."""

    times = 0

    def __lt__(self, other):
        Compared.times += 1
        return int(self) < int(other)

    def __eq__(self, other):
        return int(self) == int(other)

    def __hash__(self):
        return int(self)


def test_a_mark_that_moves_is_compared_with_few_of_a_thousand_others():
    clock = Watermarks(range(1_000), {source: Compared(0) for source in range(1_000)})
    Compared.times = 0
    for time_ms in range(1, 4):
        for source in range(1_000):
            clock.reach(source)
            clock.advance(source, Compared(time_ms))
    assert clock.current == 3
    assert Compared.times < 3 * 1_000 * 50


def test_another_thread_may_ask_what_holds_the_marks_back():
    # The heartbeat does, while the task's thread goes on.
    now = [Watermarks(range(60))]
    failures, over = [], threading.Event()

    def ask():
        while not over.is_set():
            try:
                now[0].holding  # noqa: B018
            except Exception as failure:  # noqa: BLE001
                failures.append(failure)
                return

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    reader = threading.Thread(target=ask)
    reader.start()
    try:
        for _ in range(1_500):
            marks = now[0] = Watermarks(range(60))
            for source in range(60):
                marks.advance(source, source)
            for source in range(60):
                marks.set_aside(source)
    finally:
        over.set()
        reader.join()
        sys.setswitchinterval(before)
    assert failures == []
