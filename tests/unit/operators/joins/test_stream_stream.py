"""Pairs within an interval, and what found none, against lists of everything."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from join_bench import LEFT, RIGHT, JoinBench, least_mark, on_time, ordered, run

from samzapy import InitableTask, StreamTask, SystemStream, WindowableTask
from samzapy.errors import StoreError
from samzapy.operators.joins import AsOfJoin, Joined, Side, StreamStreamJoin, TimeRules, Within
from samzapy.testing import ManualClock, TaskTestDriver

messages = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30), st.integers(0, 99)), max_size=12)
steps = st.lists(st.sampled_from([0, 0, 1, 1, 2, 2, 2, "window", "commit", "crash"]), max_size=40)


def make(before=0, after=0, lateness=0, limit=100, idle=None):
    within, rules = Within(before, after), TimeRules(lateness, idle)
    return lambda context: StreamStreamJoin(context, "joined", (LEFT, RIGHT), within, rules, limit)


def expected(inputs, before_ms, after_ms, lateness_ms):
    """Pairs, and lonely messages with the time until which they may have waited."""
    one, other, rights = (on_time(of_source, lateness_ms) for of_source in inputs)
    lefts = one + other
    pairs = [
        Joined(left[0], Side(*left[1:]), Side(*right[1:]))
        for left in lefts
        for right in rights
        if left[0] == right[0] and left[1] - before_ms <= right[1] <= left[1] + after_ms
    ]
    met_left = {(joined.key, joined.left) for joined in pairs}
    met_right = {(joined.key, joined.right) for joined in pairs}
    lonely = [
        (each[1] + after_ms, Joined(each[0], Side(*each[1:]), None))
        for each in lefts
        if (each[0], Side(*each[1:])) not in met_left
    ]
    lonely += [
        (each[1] + before_ms, Joined(each[0], None, Side(*each[1:])))
        for each in rights
        if (each[0], Side(*each[1:])) not in met_right
    ]
    return pairs, lonely


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    inputs=st.tuples(messages, messages, messages),
    steps=steps,
    bounds=st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(0, 10)),
    limit=st.sampled_from([1, 2, 100]),
)
def test_pairs_and_the_rest_are_those_of_the_whole_lists_whatever_the_order_and_the_crashes(
    tmp_path, inputs, steps, bounds, limit
):
    pairs, lonely = expected(inputs, *bounds)
    with JoinBench(tmp_path, make(*bounds, limit=limit), inputs) as bench:
        run(bench, steps)
        bench.drain()
        current = least_mark(inputs, bounds[2])
        expired = [joined for until_ms, joined in lonely if current is not None and until_ms < current]
        assert ordered(bench.outputs) == ordered(pairs + expired)
        bench.finish()
        assert ordered(bench.outputs) == ordered(pairs + [joined for _, joined in lonely])
        assert bench.kept() == {}


def test_a_backlog_is_expired_without_a_window_once_the_limit_has_come(tmp_path):
    inputs = [[(f"k{n}", n * 10, n) for n in range(50)], [("z", 10_000, 0)], [("z", 10_000, 0)]]
    with JoinBench(tmp_path, make(after=5, limit=10), inputs) as bench:
        for source in (1, 2, 0):
            while bench.read(source):
                pass
        waiting = [key for key in bench.contents() if key.startswith("key/k")]
        assert len(waiting) <= 20, "what can expire does, long before anyone calls window"


def test_when_every_partition_is_idle_event_time_goes_on_with_the_clock(tmp_path):
    clock = ManualClock()
    with JoinBench(tmp_path, make(after="1m", lateness="5s", idle="30s"), clock=clock) as bench:
        for source, time_ms in enumerate((3_000, 1_000, 2_000)):
            bench.send(source, f"k{source}", time_ms, source)
        assert bench.join.advance() == []
        clock.advance_to(65)
        found = bench.join.advance()
        assert [joined.key for joined in found] == ["k2", "k1"], (
            "65 s after 3 s, less 5 s: k0 waits until 63 s inclusive"
        )
        clock.advance_to(65.25)
        assert bench.join.advance() == [Joined("k0", Side(3_000, 0), None)]
        bench.send(0, "k0", 63_249)
        assert bench.late() == 1
        bench.send(0, "k0", 63_250)
        assert bench.late() == 1


def test_a_partition_that_comes_back_counts_before_the_others_move_on(tmp_path):
    clock = ManualClock()
    with JoinBench(tmp_path, make(after=10, idle="30s"), clock=clock) as bench:
        for source in range(3):
            bench.send(source, "z", 100)
        bench.join.advance()
        for seconds, time_ms in ((29, 200), (58, 300)):
            clock.advance_to(seconds)
            bench.send(0, "a", time_ms, "left")
            bench.send(1, "z", time_ms)
            bench.join.advance()
        bench.send(2, "b", 300)
        bench.send(0, "z", 500)
        bench.send(1, "z", 500)
        bench.join.advance()
        assert [joined.right.time_ms for joined in bench.send(2, "a", 305)] == [305], "300 to 310 had not expired"


def test_another_interval_is_refused_while_messages_wait(tmp_path):
    with JoinBench(tmp_path, make(after=30)) as bench:
        bench.send(0, "a", 100, "left")
        message = (
            "^Partition 1: store 'joined': messages wait in it for partners from 0 ms before to 30 ms after, "
            "the task wants 0 ms before to 60 ms after: give it a new store"
        )
        with pytest.raises(StoreError, match=message):
            bench.restart(make(after=60))
        with pytest.raises(StoreError, match="the task wants 30 ms before to 0 ms after"):
            bench.restart(make(before=30))
        bench.restart(make(after=30))
        assert bench.send(2, "a", 110, "right") == [Joined("a", Side(100, "left"), Side(110, "right"))]


def test_another_interval_is_taken_when_no_message_waits(tmp_path):
    with JoinBench(tmp_path, make(after=30)) as bench:
        bench.send(0, "a", 100, "left")
        bench.finish()
        bench.restart(make(after=60))
        bench.send(0, "a", 200, "left")
        assert len(bench.send(2, "a", 260, "right")) == 1
        with pytest.raises(
            StoreError, match="from 0 ms before to 60 ms after, the task wants 0 ms before to 30 ms after"
        ):
            bench.restart(make(after=30))


def test_bounds_and_limits_that_mean_nothing_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"before of Within: milliseconds from 0 to .*got -1"):
        Within(-1, 0)
    with pytest.raises(ValueError, match="limit must be at least 1, got 0"):
        JoinBench(tmp_path, make(limit=0))
    with pytest.raises(ValueError, match=r"lateness: milliseconds from 0 to .*got -1"):
        TimeRules(-1)


DRIVEN = {
    "job.default.system": "mem",
    "task.inputs": "mem.left,mem.right",
    "task.window.ms": "1000",
    "systems.mem.samza.factory": "memory",
    "systems.mem.default.stream.samza.key.serde": "string",
    "systems.mem.default.stream.samza.msg.serde": "json",
    "stores.joined.factory": "memory",
    "stores.joined.key.serde": "string",
    "stores.joined.msg.serde": "json",
}


class Meeting(StreamTask, InitableTask, WindowableTask):
    """Sends the keys of what it has joined."""

    def process(self, envelope, collector, coordinator):
        self.send(self.join.add(envelope), collector)

    def window(self, collector, coordinator):
        self.send(self.join.advance(), collector)

    def send(self, found, collector):
        for joined in found:
            collector.send_message(SystemStream("mem", "out"), joined.key)


IDLE = TimeRules(idle="30s")


@pytest.mark.parametrize(
    "made",
    [
        lambda context: StreamStreamJoin(context, "joined", (LEFT, RIGHT), Within(after="1s"), IDLE),
        lambda context: AsOfJoin(context, "joined", (LEFT, RIGHT), rules=IDLE),
    ],
    ids=["stream-stream", "as-of"],
)
def test_idle_partitions_go_by_the_clock_of_the_driver(made):
    class Task(Meeting):
        def init(self, context):
            self.join = made(context)

    with TaskTestDriver(Task, DRIVEN) as driver:
        driver.send("left", 1, key="a", timestamp=5_000)
        driver.advance(29)
        assert driver.outputs("out") == []
        driver.advance(10)
        assert driver.outputs("out").messages == ["a"]
