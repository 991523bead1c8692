"""The last right message that is not younger, against lists of everything."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from join_bench import LEFT, RIGHT, JoinBench, least_mark, on_time, ordered, run

from samzapy.operators.joins import AsOfJoin, Joined, Side, TimeRules

messages = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30), st.none() | st.integers(0, 99)), max_size=12)
steps = st.lists(st.sampled_from([0, 0, 1, 1, 2, 2, 2, "window", "commit", "crash"]), max_size=40)
tolerances = st.none() | st.integers(0, 12)


def make(tolerance=None, lateness=0, limit=100):
    return lambda context: AsOfJoin(context, "joined", (LEFT, RIGHT), tolerance, TimeRules(lateness), limit)


def expected(inputs, tolerance_ms, lateness_ms):
    one, other, rights = (on_time(of_source, lateness_ms) for of_source in inputs)
    found = []
    for key, time_ms, value in one + other:
        before = [right for right in rights if right[0] == key and right[1] <= time_ms]
        # Of those of one time the last one counts, so the search is from the end.
        newest = max(reversed(before), key=lambda right: right[1], default=None)
        partner = None
        if newest is not None and newest[2] is not None and time_ms - newest[1] <= (tolerance_ms or 0):
            partner = Side(*newest[1:])
        if newest is not None and newest[2] is not None and tolerance_ms is None:
            partner = Side(*newest[1:])
        found.append(Joined(key, Side(time_ms, value), partner))
    return found


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    inputs=st.tuples(messages, messages, messages),
    steps=steps,
    tolerance_ms=tolerances,
    lateness_ms=st.integers(0, 10),
    limit=st.sampled_from([1, 2, 100]),
)
def test_each_message_meets_the_last_one_before_it_whatever_the_order_and_the_crashes(
    tmp_path, inputs, steps, tolerance_ms, lateness_ms, limit
):
    answer = expected(inputs, tolerance_ms, lateness_ms)
    with JoinBench(tmp_path, make(tolerance_ms, lateness_ms, limit), inputs) as bench:
        run(bench, steps)
        bench.drain()
        current = least_mark(inputs, lateness_ms)
        due = [joined for joined in answer if current is not None and joined.left.time_ms < current]
        assert ordered(bench.outputs) == ordered(due)
        bench.finish()
        assert ordered(bench.outputs) == ordered(answer)


@pytest.mark.parametrize("tolerance_ms", [None, 5])
def test_right_messages_that_no_one_can_ask_for_are_gone(tmp_path, tolerance_ms):
    rights = [(key, time_ms, time_ms) for time_ms in range(1_000) for key in ("a", "b")]
    rights += [("gone", 10, 10), ("a", 1_000, 1_000)]
    rights.sort(key=lambda right: right[1])
    inputs = [[("a", time_ms, 0) for time_ms in range(0, 1_001, 50)], [("b", 1_000, 0)], rights]
    with JoinBench(tmp_path, make(tolerance_ms, limit=50), inputs) as bench:
        for source in (2, 1, 0):
            while bench.read(source):
                pass
        for _ in range(60):
            bench.window()
        left = {key: value for key, value in bench.kept().items() if not key.startswith("due/")}
        assert bench.contents()["passed"] == 1_000
        newest = {"key/a": [999, 999], "key/b": [999, 999], "key/gone": [10, 10]}
        if tolerance_ms is not None:
            del newest["key/gone"]
        assert left == newest
        assert len(bench.kept()) < 20, "what is still to come, and when the rest can go"


def test_a_run_that_goes_on_after_the_end_meets_what_was_ahead_of_it(tmp_path):
    inputs = [[("a", 10, "x")], [("z", 5, "y")], [("a", 8, 8), ("a", 12, 12), ("a", 20, 20)]]
    with JoinBench(tmp_path, make(), inputs) as bench:
        bench.read_all()
        bench.finish()
        assert [joined.right for joined in bench.outputs] == [None, Side(8, 8)]
        assert bench.send(0, "a", 15, "later") == []
        assert bench.send(1, "a", 9, "too late") == []
        assert bench.late() == 1
        bench.finish()
        assert bench.outputs[2:] == [Joined("a", Side(15, "later"), Side(12, 12))]


def test_a_longer_lateness_opens_no_time_that_was_closed(tmp_path):
    with JoinBench(tmp_path, make()) as bench:
        for source, key, time_ms in ((2, "a", 10), (2, "a", 300), (0, "z", 500), (1, "z", 500), (2, "z", 500)):
            bench.send(source, key, time_ms, time_ms)
        bench.window()
        bench.commit()
        bench.restart(make(lateness=1_000))
        assert bench.send(0, "a", 100, "left") + bench.send(2, "a", 50, 50) == []
        assert bench.late() == 2, "the newest right message is that of 300"
        bench.send(0, "a", 501, "left")
        bench.finish()
        assert bench.outputs[-1] == Joined("a", Side(501, "left"), Side(300, 300))


def test_settings_that_mean_nothing_are_refused(tmp_path):
    with pytest.raises(ValueError, match="limit must be at least 1, got 0"):
        JoinBench(tmp_path, make(limit=0))
    with pytest.raises(ValueError, match=r"tolerance of AsOfJoin: milliseconds from 0 to .*got -1"):
        JoinBench(tmp_path, make(-1))
