"""Programs with windows, as the documentation of Kafka Streams has them. Times are seconds behind START."""

import pytest

from samzapy.pipeline import Hopping, OnChange, Pipeline, Sessions, Sliding, Sum, Tumbling

START = 1_700_000_040_000


def spans(results, value="count"):
    """(start, end, value) of each result, in seconds behind START."""
    return [((each["start"] - START) // 1000, (each["end"] - START) // 1000, each[value]) for each in results]


def test_tumbling_windows_close_once_with_late_messages_in_grace(run):
    pipeline = Pipeline("p")
    windows = pipeline.stream("kafka.in").window(Tumbling("10s", grace="5s"))
    windows.late().to("kafka.late")
    windows.count().to("kafka.out")
    flow = run(pipeline)
    for n, second in enumerate((1, 9, 12, 8)):  # the last one is out of order, and within the grace
        flow.send("in", "a", n, second)
    flow.pass_time(16, "in")
    assert spans(flow.by_key("out")["a"]) == [(0, 10, 3)]
    flow.send("in", "a", 9, 7)  # its window has closed
    flow.pass_time(40, "in")
    assert spans(flow.by_key("out")["a"]) == [(0, 10, 3), (10, 20, 1)]
    assert flow.by_key("late") == {"a": [9]}


#: Windows with five seconds of grace, the newest event time before a message of second 9, the windows that it is in,
#: and whether it is late.
EDGES = [
    (Tumbling("10s", grace="5s"), 14, [(0, 10, 1)], False),
    (Tumbling("10s", grace="5s"), 15, [], True),
    (Hopping("10s", "5s", grace="5s"), 14, [(0, 10, 1), (5, 15, 1)], False),
    (Hopping("10s", "5s", grace="5s"), 15, [(5, 15, 1)], False),
    (Hopping("10s", "5s", grace="5s"), 20, [], True),
    (Sessions("10s", grace="5s"), 14, [(9, 19, 1)], False),
    (Sessions("10s", grace="5s"), 15, [], True),
    (Sliding("10s", grace="5s"), 14, [(-1, 9, 1)], False),
    (Sliding("10s", grace="5s"), 15, [], False),  # it is in the windows of later messages
    (Sliding("10s", grace="5s"), 24, [], True),
]


@pytest.mark.parametrize(("windows", "newest", "spanned", "is_late"), EDGES)
def test_grace_ends_at_its_moment(run, windows, newest, spanned, is_late):
    pipeline = Pipeline("p")
    windowed = pipeline.stream("kafka.in").window(windows)
    windowed.late().to("kafka.late")
    windowed.count().to("kafka.out")
    flow = run(pipeline)
    flow.pass_time(newest, "in")
    flow.send("in", "a", 9, 9)
    flow.pass_time(200, "in")
    assert spans(flow.by_key("out").get("a", [])) == spanned
    assert flow.by_key("late") == ({"a": [9]} if is_late else {})


@pytest.mark.parametrize(
    ("windows", "closes"),
    [(Tumbling("10s"), 10), (Hopping("10s", "4s"), 6), (Sessions("10s"), 12), (Sliding("10s"), 3)],
)
def test_windows_give_nothing_before_they_close(run, windows, closes):
    pipeline = Pipeline("p")
    pipeline.stream("kafka.in").window(windows).aggregate(sum=Sum()).to("kafka.out")
    flow = run(pipeline)
    flow.send("in", "a", 7, 2)
    flow.pass_time(closes - 1, "in")
    assert flow.by_key("out") == {}
    flow.pass_time(closes, "in")
    assert [each["sum"] for each in flow.by_key("out")["a"]] == [7]


def test_sessions_that_grow_together_are_updated_as_one(run):
    pipeline = Pipeline("p")
    pipeline.stream("kafka.in").window(Sessions("10s", grace="60s"), emit=OnChange()).count().to("kafka.out")
    flow = run(pipeline)
    for second in (0, 15, 9):
        flow.send("in", "a", 1, second)
    flow.settle()
    assert spans(flow.by_key("out")["a"]) == [(0, 10, 1), (15, 25, 1), (0, 25, 3)]


def test_late_messages_are_a_stream_for_several_further_steps(run):
    pipeline = Pipeline("p")
    windows = pipeline.stream("kafka.in").window(Tumbling("10s"))
    windows.late().key_by(lambda key, _: key).count().to("kafka.late")
    windows.late().to("kafka.again")
    windows.count().to("kafka.out")
    windows.aggregate(sum=Sum()).to("kafka.sums")
    flow = run(pipeline)
    flow.pass_time(30, "in")
    flow.send("in", "a", 1, 1)
    flow.send("in", "a", 1, 2)
    flow.settle()
    assert (flow.by_key("late"), flow.by_key("again")) == ({"a": [1, 2]}, {"a": [1, 1]})


@pytest.mark.parametrize("guarantee", ["at-least-once", "effectively-once"])
def test_late_messages_and_changes_come_in_each_guarantee(run, guarantee):
    pipeline = Pipeline("p")
    windows = pipeline.stream("kafka.in").window(Tumbling("10s"), emit=OnChange())
    windows.late().to("kafka.late")
    windows.count().to("kafka.out")
    flow = run(pipeline, {"task.guarantee": guarantee})
    flow.send("in", "a", 1, 1)
    flow.pass_time(30, "in")
    flow.send("in", "a", 2, 2)
    assert [(each["kind"], each["count"]) for each in flow.by_key("out")["a"]] == [("update", 1), ("final", 1)]
    assert flow.by_key("late") == {"a": [2]}


def test_reduce_of_a_window_gives_its_value(run):
    pipeline = Pipeline("p")
    pipeline.stream("kafka.in").window(Tumbling("10s")).reduce(max).to("kafka.out")
    flow = run(pipeline)
    for n in (3, 7, 5):
        flow.send("in", "a", n, n)
    flow.pass_time(30, "in")
    assert spans(flow.by_key("out")["a"], "value") == [(0, 10, 7)]


def test_windows_of_window_results_follow_their_time(run):
    pipeline = Pipeline("p")
    counts = pipeline.stream("kafka.in").window(Tumbling("10s")).count()
    counts.key_by(lambda result: result["key"][0]).window(Tumbling("1m")).aggregate(
        total=Sum(lambda result: result["count"])
    ).to("kafka.out")
    flow = run(pipeline)
    for key, second in (("a1", 1), ("a2", 2), ("a1", 15), ("a2", 55), ("a1", 70)):
        flow.send("in", key, 1, second)
    flow.pass_time(200, "in")
    flow.pass_time(300, "in")
    assert spans(flow.by_key("out")["a"], "total") == [(0, 60, 4), (60, 120, 1)]


def test_the_event_time_of_a_field_decides_about_the_window(run):
    pipeline = Pipeline("p")
    views = pipeline.stream("kafka.in", time=lambda n: START + n * 1000)
    views.window(Tumbling("10s")).count().to("kafka.out")
    flow = run(pipeline)
    for second in (5, 15):
        flow.send("in", "a", second, 1_000)
    flow.pass_time(0, "in", message=50)
    assert spans(flow.by_key("out")["a"]) == [(0, 10, 1), (10, 20, 1)]


def test_a_key_by_a_field_keeps_the_event_time_of_another(run):
    pipeline = Pipeline("p")
    views = pipeline.stream("kafka.in", time=lambda n: START + n * 1000)
    views.key_by(lambda key, _: key[:1]).window(Tumbling("10s")).count().to("kafka.out")
    flow = run(pipeline)
    for key, second in (("a1", 5), ("a2", 6), ("a1", 15)):
        flow.send("in", key, second, 1_000)
    flow.pass_time(0, "in", message=50)
    flow.pass_time(0, "in", message=60)
    assert spans(flow.by_key("out")["a"]) == [(0, 10, 2), (10, 20, 1)]
