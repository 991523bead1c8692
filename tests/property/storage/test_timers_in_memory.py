"""Timers against a dict, with few of them in memory."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from samzapy.api.engine import EngineSettings
from samzapy.api.event_time import TimerClock
from samzapy.config.stores import StoreConfig
from samzapy.serializers import BytesSerde, MsgpackSerde
from samzapy.storage.kv.memory import InMemoryStorageEngineFactory
from samzapy.storage.kv.stack import build_stack
from samzapy.storage.views import timers
from samzapy.storage.views.timers import NEVER, TimerStore

KEYS = st.sampled_from(["a", "ab", "", 1, -1, b"a", "k"])
TIMES = st.integers(-3, 40)
CALLS = st.one_of(
    st.tuples(st.just("set"), KEYS, TIMES),
    st.tuples(st.just("set"), KEYS, TIMES),
    st.tuples(st.just("set"), KEYS, TIMES),
    st.tuples(st.just("set"), KEYS, st.just(7)),
    st.tuples(st.just("set for later"), KEYS, st.integers(10_000, 10_040)),
    st.tuples(st.just("all"), st.lists(st.tuples(KEYS, TIMES), max_size=5)),
    st.tuples(st.just("cancel"), KEYS),
    st.tuples(st.just("undone"), KEYS, TIMES),
    st.tuples(st.just("look"), TIMES, st.integers(1, 5)),
    st.tuples(st.just("look"), st.just(7), st.integers(1, 5)),
    st.tuples(st.just("fire"), TIMES, st.integers(1, 5)),
    st.tuples(st.just("exact"), TIMES),
    st.tuples(st.sampled_from(["reopen", "tidy", "tidy"])),
)


@pytest.fixture(autouse=True)
def few_in_memory(monkeypatch):
    monkeypatch.setattr(timers, "READ", 3)
    monkeypatch.setattr(timers, "_MOST", 6)


def in_order(timers, model, now, most):
    return sorted((time_ms, timers._pack(key), key) for key, time_ms in model.items() if time_ms <= now)[:most]


def look(timers, model, now, most):
    order = in_order(timers, model, now, most)
    found = list(timers.fire(TimerClock.EVENT, now, most))
    assert [(timer.key, timer.time_ms) for timer in found] == [(key, time_ms) for time_ms, _, key in order]
    for timer in found:
        del model[timer.key]


def fire(timers, model, now, most):
    """The first timer cancels the second."""
    order = in_order(timers, model, now, most)
    found = []
    for timer in timers.fire(TimerClock.EVENT, now, most):
        found.append((timer.key, timer.time_ms))
        assert timers.time_of(timer.key) is None
        if len(found) == 1 and len(order) > 1:
            timers.cancel(order[1][2])
    assert found == [(key, time_ms) for time_ms, _, key in [*order[:1], *order[2:]]]
    for _, _, key in order:
        del model[key]


def each_has_a_due_entry(timers, entries, model):
    """At its time or before, else a task that starts again does not find it."""
    due = {}
    for entry, _ in entries.prefix(b"te"):
        due.setdefault(entry[10:], []).append(int.from_bytes(entry[2:10], "big") - 2**63)
    for key, time_ms in model.items():
        assert min(due.get(timers._pack(key), [NEVER])) <= time_ms, key


#: A place of an undone message comes due together with the timer's own, and both move.
UNDONE = [("set", "a", 7), ("set", "ab", 8), ("undone", "ab", 0), ("look", 7, 1), ("set", "ab", 10_000), ("look", 8, 2)]
#: A timer moves, is set back to the time of its due entry, fires, and is set again.
SET_BACK = [
    ("set", "ab", 3), ("set", "ab", 8), ("look", 4, 1), ("set", "ab", 3), ("look", 4, 1), ("set", "ab", 8), ("set", "ab", 20),
    ("look", 9, 1),
]  # fmt: skip
#: Two places with one due entry, of which the later half is dropped from memory.
SHARED_ENTRY = [
    *[("set", "a", 0), ("set", "a", 7)] * 6, ("set", "ab", 7), ("exact", 0), ("set", "a", 0), ("set", "a", 1), ("set", "ab", 0),
    ("set", "ab", -1), ("tidy",),
]  # fmt: skip


@example(UNDONE)
@example(SET_BACK)
@example(SHARED_ENTRY)
@settings(max_examples=200)
@given(st.lists(CALLS, min_size=30, max_size=80))
def test_what_is_due_comes_once_and_in_order_whatever_was_set_moved_cancelled_and_undone(calls):
    engine = InMemoryStorageEngineFactory().open(None, EngineSettings("timers"))
    entries = build_stack(
        StoreConfig("timers", "timers", "bytes", "msgpack"), engine, BytesSerde(), MsgpackSerde()
    ).store
    timers, model = TimerStore(entries, "timers"), {}
    for what, *given_ in calls:
        if what.startswith("set"):
            key, time_ms = given_
            timers.schedule(key, time_ms)
            model[key] = time_ms
        elif what == "all":
            timers.schedule_all([key for key, _ in given_[0]], [time_ms for _, time_ms in given_[0]])
            model.update(given_[0])
        elif what == "exact":
            found, first = timers.first_due(TimerClock.EVENT, given_[0]), min(model.values(), default=NEVER)
            assert found == first if first <= given_[0] else given_[0] < found <= first
        elif what == "cancel":
            assert timers.cancel(given_[0]) == (model.pop(given_[0], None) is not None)
        elif what == "undone":
            key, time_ms = given_
            before = dict(entries.all())
            timers.cancel(key)
            timers.schedule(key, time_ms)
            for entry in [entry for entry, _ in entries.all()]:
                entries.delete(entry)
            entries.put_all(before)
        elif what == "look":
            look(timers, model, *given_)
        elif what == "fire":
            fire(timers, model, *given_)
        elif what == "tidy":
            timers.tidy()
        else:
            timers = TimerStore(entries, "timers")
        assert timers.earliest(TimerClock.EVENT) <= min(model.values(), default=NEVER)
        each_has_a_due_entry(timers, entries, model)
        assert timers.earliest(TimerClock.WALL) == NEVER
    # No timer is left behind, and no entry.
    fire_all = list(timers.fire(TimerClock.EVENT, 20_000, 100))
    assert [(timer.time_ms, timers._pack(timer.key)) for timer in fire_all] == sorted(
        (time_ms, timers._pack(key)) for key, time_ms in model.items()
    )
    timers = TimerStore(entries, "timers")
    assert list(timers.fire(TimerClock.EVENT, 20_000, 100)) == []
    assert dict(entries.all()) == {}
