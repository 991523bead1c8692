"""Windows and joins against messages and stores they cannot use: one line says which one, and nothing has changed."""

from __future__ import annotations

import math
import re

import pytest
from rigs.windows_rig import WindowsRig, job, opened_store, ssp

from samzapy import ContainerContext, Context, IncomingMessageEnvelope, JobContext, SystemStream
from samzapy.api.envelope import MessageBatch
from samzapy.container.tasks.context import ContainerTaskContext
from samzapy.errors import ConfigError
from samzapy.metrics import Registry
from samzapy.operators.joins import AsOfJoin, StreamStreamJoin, Within
from samzapy.operators.windows import (
    Count,
    EventTimeWindows,
    Hopping,
    OnChange,
    OnClose,
    Sessions,
    Sliding,
    Tumbling,
    WindowedAggregation,
)

NO_TIMES = [-1, -(10**15), 9 * 10**13 + 1, 1_700_000_000_000_000, 1.5, 5.0, math.nan, "5", True, b"5", [5]]
STREAMS = SystemStream("mem", "in"), SystemStream("mem", "other")
SIDES = ssp(0), ssp(0, "other")
KINDS = {"tumbling": Tumbling("1s"), "sessions": Sessions("1s"), "sliding": Sliding("1s")}
JOINS = {
    "as-of": lambda context: AsOfJoin(context, "windows", STREAMS, "1m"),
    "stream-stream": lambda context: StreamStreamJoin(context, "windows", STREAMS, Within("1s", "1s")),
}


def context_of(opened, **config):
    registry = Registry()
    task = ContainerTaskContext("Partition 0", {"windows": opened.store}, dict.fromkeys(SIDES, 0), registry, 1)
    return Context(JobContext("windows", "1", config), ContainerContext("0", registry), task)


def entries(opened):
    with opened.store.all() as found:
        return dict(found)


def message(number, key="a", time=5, partition=SIDES[0]):
    return IncomingMessageEnvelope(partition, number, key, 1, event_time=time)


@pytest.mark.parametrize("emit", [OnClose(), OnChange()], ids=["on close", "on change"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_message_without_an_event_time_changes_no_window(tmp_path, kind, emit):
    with opened_store(tmp_path) as opened:
        rig = WindowsRig(opened, WindowedAggregation(KINDS[kind], Count(), None, emit=emit))
        rig.add("a", 1_000)
        before, sent = entries(opened), list(rig.sent.pending)
        for time in NO_TIMES:
            said = re.escape(f"mem.in[0]@17: event time {time!r}: windows need milliseconds since 1970, 0 to")
            good = message(16, time=1_001)
            batch = [good, message(17)]
            with pytest.raises(ValueError, match=said):
                rig.windows.add(message(17), "a", 1, rig.sent, time)
            with pytest.raises(ValueError, match=said):
                rig.windows.observe(message(17), time)
            with pytest.raises(ValueError, match=said):
                rig.windows.add_all(batch, rig.sent, time=[1_001, time])
            with pytest.raises(ValueError, match=said):
                rig.windows.add_all([good, message(17, time=time)], rig.sent)
        with pytest.raises(ValueError, match="event time None"):
            rig.windows.add_all(batch, rig.sent, time=lambda _: None)
        assert (entries(opened), rig.sent.pending) == (before, sent)


def first_number(message):
    """A function of the user as one is often written: without a match it raises StopIteration."""
    return next(each for each in message if each > 0)


@pytest.mark.parametrize("column", ["key", "value", "time"])
@pytest.mark.parametrize("windows", [*KINDS.values(), Hopping("40s", "10s")], ids=lambda made: made.name)
def test_a_function_of_a_column_that_stops_early_fails_the_batch_and_changes_no_window(tmp_path, windows, column):
    with opened_store(tmp_path) as opened:
        rig = WindowsRig(opened, WindowedAggregation(windows, Count(), None))
        before = entries(opened)
        for contents in ([[], [5]], [[5], [], [6], [7]], [[5], []]):
            batch = MessageBatch(SIDES[0], range(len(contents)), ["a"] * len(contents), contents, [5] * len(contents))
            with pytest.raises(StopIteration):
                rig.windows.add_all(batch, rig.sent, **{column: first_number})
            with pytest.raises(StopIteration):
                rig.windows.add_all(list(batch), rig.sent, **{column: first_number})
        assert (entries(opened), rig.sent.pending) == (before, [])


@pytest.mark.parametrize("make", JOINS.values(), ids=JOINS)
def test_a_message_without_an_event_time_or_a_key_is_not_joined(tmp_path, make):
    with opened_store(tmp_path) as opened:
        join = make(context_of(opened))
        join.add(message(1, time=1_000))
        before = entries(opened)
        for time in NO_TIMES:
            said = re.escape(f"mem.in[0]@17: event time {time!r}: joins need milliseconds since 1970, 0 to")
            with pytest.raises(ValueError, match=said):
                join.add(message(17, time=time))
            with pytest.raises(ValueError, match=said):
                join.add_all([message(17, time=time), message(18)])
        for key in (None, 3, b"a"):
            said = re.escape(f"mem.in[0]@17: a join needs a string as key, got {key!r}")
            with pytest.raises(ValueError, match=said):
                join.add(message(17, key))
            with pytest.raises(ValueError, match=said):
                join.add_all(MessageBatch(SIDES[0], [17, 18], [key, "a"], [1, 1], [1_000, 1_000]))
        assert entries(opened) == before


DAY_MS = 86_400_000
AHEAD = {"task.event.time.max.ahead.ms": str(DAY_MS)}


@pytest.mark.parametrize("batch", [False, True], ids=["one", "batch"])
@pytest.mark.parametrize("windows", [*KINDS.values(), Hopping("40s", "10s")], ids=lambda made: made.name)
def test_a_message_a_day_ahead_goes_aside_and_makes_no_other_late(tmp_path, windows, batch):
    late = SystemStream("mem", "late")
    with opened_store(tmp_path) as opened:
        rig = WindowsRig(opened, WindowedAggregation(windows, Count(), None, late=late), config=AHEAD)
        now = rig.clock.wall_ms()
        times = [now, now + DAY_MS + 1, now + 1, now + DAY_MS]
        messages = [message(number, time=time) for number, time in enumerate(times)]
        if batch:
            assert rig.windows.add_all(messages, rig.sent) == 1
        else:
            assert [rig.windows.add(each, "a", 1, rig.sent) for each in messages] == [True, False, True, True]
        assert [(each.system_stream, each.timestamp) for each in rig.sent.late] == [(late, now + DAY_MS + 1)]
        assert rig.metrics.snapshot()["windows"]["windows.ahead"] == 1
        rig.clock.advance(1)
        assert rig.windows.add(message(4, time=now + DAY_MS + 2), "a", 1, rig.sent), "the time has come nearer"
        assert sum(each.value for each in rig.finish()) >= 4


@pytest.mark.parametrize("make", JOINS.values(), ids=JOINS)
def test_a_message_a_day_ahead_is_not_joined_and_makes_no_other_late(tmp_path, make):
    with opened_store(tmp_path) as opened:
        context = context_of(opened, **AHEAD)
        join, now = make(context), context.container.clock.wall_ms()
        join.add(message(1, time=now))
        before = entries(opened)
        join.add(message(2, time=now + 2 * DAY_MS))
        join.add_all([message(3, time=now + 2 * DAY_MS)])
        assert entries(opened) == before
        join.add(message(4, time=now))
        counts = context.task.metrics.snapshot()["join"]
        assert (counts["ahead"], counts["late"]) == (2, 2)


def test_a_store_with_entries_that_expire_by_themselves_is_refused(tmp_path):
    key = "stores.windows.rocksdb.ttl.ms"
    with opened_store(tmp_path, **{key: "5000"}) as opened:
        context = context_of(opened, **job(**{key: "5000"}))
        windows = WindowedAggregation(Tumbling("1s"), Count(), SystemStream("mem", "out"))
        users = [*JOINS.values(), lambda made: EventTimeWindows(made, "windows", windows)]
        for make in users:
            with pytest.raises(ConfigError, match=re.escape(f"{key}: must not be set") + ".*got '5000'$"):
                make(context)
            make(context_of(opened, **job(**{key: "0"})))


@pytest.mark.parametrize("serde", ["long", "whole", "string"])
def test_a_store_of_single_values_is_refused_where_lists_are_kept(tmp_path, serde):
    key = "stores.windows.msg.serde"
    config = job(**{key: serde, "serializers.registry.whole.class": "long"})
    users = dict(JOINS)
    for windows in (Hopping("1h", "5m"), *KINDS.values(), Hopping("1h", "30m")):
        aggregation = WindowedAggregation(windows, Count(), SystemStream("mem", "out"))
        users[windows.name] = lambda made, what=aggregation: EventTimeWindows(made, "windows", what)
    single = {Tumbling("1s").name, Hopping("1h", "30m").name}
    for name, make in users.items():
        with opened_store(tmp_path / name) as opened:
            if name in single:
                make(context_of(opened, **config))
                continue
            with pytest.raises(ConfigError, match=re.escape(f"{key}: must be json or msgpack: ") + f".*got '{serde}'$"):
                make(context_of(opened, **config))
            make(context_of(opened, **job(**{key: "msgpack"})))
