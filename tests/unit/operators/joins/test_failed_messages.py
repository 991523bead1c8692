"""Joins whose task raises on some messages, which are undone and skipped: as if these had never been."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from join_bench import LEFT, RIGHT, JoinBench, ordered

from samzapy.operators.joins import AsOfJoin, StreamStreamJoin, TimeRules, Within

messages = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30), st.integers(0, 99)), max_size=8)
steps = st.lists(st.tuples(st.sampled_from(["read", "fail", "window"]), st.integers(0, 2)), max_size=30)
JOINS = {
    "stream-stream": lambda made: StreamStreamJoin(made, "joined", (LEFT, RIGHT), Within(4, 6), TimeRules(3), 2),
    "as-of": lambda made: AsOfJoin(made, "joined", (LEFT, RIGHT), 5, TimeRules(3), 2),
}


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(inputs=st.tuples(messages, messages, messages), steps=steps, join=st.sampled_from(sorted(JOINS)))
def test_a_message_that_was_undone_leaves_nothing_behind(tmp_path, inputs, steps, join):
    failed = set()
    with JoinBench(tmp_path, JOINS[join], inputs) as bench:
        for what, source in steps:
            if what == "window":
                bench.window()
            elif what == "read":
                bench.read(source)
            else:
                failed.add(bench.fail(source))
        bench.read_all()
        bench.finish()
        found = ordered(bench.outputs)
    left = [
        [message for place, message in enumerate(of_source) if (source, place) not in failed]
        for source, of_source in enumerate(inputs)
    ]
    with JoinBench(tmp_path, JOINS[join], left) as bench:
        bench.read_all()
        bench.finish()
        assert found == ordered(bench.outputs)


@pytest.mark.parametrize("join", JOINS)
def test_event_time_goes_back_with_the_message_that_moved_it(tmp_path, join):
    inputs = [[("a", 10, 0), ("a", 90, 0), ("a", 12, 0)], [("z", 95, 0)], [("z", 95, 0)]]
    with JoinBench(tmp_path, JOINS[join], inputs) as bench:
        for source in (1, 2, 0):
            bench.read(source)
        bench.fail(0)
        bench.read(0)
        assert bench.late() == 0, "12 is late by 90, which has failed, but not by 10"
        assert bench.contents()["m|mem.left[1]"] == 12
