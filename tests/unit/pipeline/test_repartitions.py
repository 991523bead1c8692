"""Pipelines of two stages: the second follows the watermarks of the first, and counts what it sends once."""

from dataclasses import dataclass

import pytest
from rigs.pipeline_rig import Surroundings, totals

import samzapy
from samzapy.errors import TaskFailed
from samzapy.pipeline import Count, Distinct, Early, Max, Mean, Min, OnChange, Pipeline, Sum, Tumbling, field
from samzapy.testing import Input, TestRunner
from samzapy.testing.pipeline import PipelineDriver

START = 1_700_000_040_000
ONE_BY_ONE = {"task.guarantee": "effectively-once", "task.batch.max.messages": "1"}


@dataclass
class PageView:
    page: str
    user: str
    bot: bool = False


@pytest.fixture
def views():
    pipeline = Pipeline("page-views")
    (
        pipeline.stream("kafka.page-views", PageView)
        .filter(lambda view: not view.bot)
        .key_by(lambda view: view.page)
        .window(Tumbling("1m", grace="10s"))
        .aggregate(views=Count(), readers=Distinct(lambda view: view.user))
        .to("kafka.page-view-counts")
    )
    with PipelineDriver(pipeline, partitions=2) as driver:
        yield driver


def view(driver, page, user, second, partition, *, bot=False):
    time_ms = START + second * 1000
    driver.send("page-views", PageView(page, user, bot), key=user, timestamp=time_ms, partition=partition)


def test_views_of_a_page_in_any_partition_are_one_window(views):
    view(views, "/a", "ann", 0, 0)
    view(views, "/a", "bob", 1, 1)
    view(views, "/a", "ann", 2, 0)
    view(views, "/a", "robot", 3, 0, bot=True)
    for partition in (0, 1):
        view(views, "/b", "eve", 200, partition)
    views.advance(1)
    views.advance(1)
    end = {"start": START, "end": START + 60_000, "kind": "final"}
    assert views.outputs("page-view-counts").pairs == [
        ("/a", {"key": "/a", **end, "views": 3, "readers": ["ann", "bob"]})
    ]


def test_a_partition_that_is_behind_is_not_late_behind_a_repartition(views):
    view(views, "/a", "ann", 500, 0)
    views.advance(1)
    view(views, "/a", "bob", 0, 1)
    view(views, "/b", "eve", 500, 1)
    views.advance(1)
    views.advance(1)
    first = views.outputs("page-view-counts").messages[0]
    assert (first["start"], first["readers"]) == (START, ["bob"])


def test_a_crash_between_the_stages_loses_and_doubles_nothing(views):
    view(views, "/a", "ann", 0, 0)
    views.commit()
    view(views, "/a", "bob", 1, 1)
    views.crash()
    views.restart()
    for partition in (0, 1):
        view(views, "/b", "eve", 200, partition)
    views.advance(1)
    views.advance(1)
    assert [each["readers"] for each in views.outputs("page-view-counts").messages] == [["ann", "bob"]]


@pytest.mark.parametrize(
    "keys", [ONE_BY_ONE, {"task.guarantee": "exactly-once"}], ids=lambda keys: keys["task.guarantee"]
)
def test_a_repartitioned_message_counts_once_after_a_crash(keys):
    pipeline = Pipeline("counts")
    pipeline.stream("kafka.in").key_by(lambda item: item["k"]).count()
    with PipelineDriver(pipeline, keys, partitions=2) as driver:
        driver.send("in", {"k": "a"}, key="x")
        driver.send("in", {"k": "a"}, key="y")
        driver.crash(at="commit.3")
        driver.restart()
        for _ in range(3):
            driver.commit()
            driver.advance(1)
        assert [driver.store("by-k-count", number).get("a") for number in (0, 1)].count(2) == 1


READERS = [
    (lambda keyed: keyed.count(), b"+1"),
    (lambda keyed: keyed.aggregate(n=Count(), last=Max(field("page"))), b'+[1,"a"]'),
    (lambda keyed: (keyed.count(), keyed.window(Tumbling("1m")).count()), b"-"),
    (lambda keyed: keyed.window(Tumbling("1m")).count(), b"-"),
    (lambda keyed: keyed.aggregate(n=Count(), pages=Distinct(lambda view: view["page"])), {"page": "a"}),
    (lambda keyed: (keyed.count(), keyed.to("shop.copy")), {"page": "a"}),
    (lambda keyed: ((windows := keyed.window(Tumbling("1m"))).late(), windows.count()), {"page": "a"}),
    (lambda keyed: (keyed.count(), keyed.pipeline.stream("shop.views-by-page").to("shop.copy")), {"page": "a"}),
    (lambda keyed: None, {"page": "a"}),
]


@pytest.mark.parametrize(
    ("read", "sent"), READERS, ids=["count", "max", "both", "window", "distinct", "two", "late", "by-name", "nobody"]
)
def test_contents_that_nobody_reads_behind_a_repartition_stay_behind(read, sent):
    pipeline = Pipeline("views")
    read(pipeline.stream("shop.in").key_by(lambda view: view["page"]).through())
    keys = {"systems.shop.streams.views-by-page.samza.msg.serde": "json"}
    with PipelineDriver(pipeline, keys, partitions=2) as driver:
        driver.send("in", {"page": "a"}, timestamp=START)
        assert driver.outputs("views-by-page").messages == [sent]


@pytest.mark.parametrize("left", [b"-", b'{"page":"a"}', b"35"])
@pytest.mark.parametrize("partitions", [1, 2])
def test_what_another_plan_has_left_between_steps_is_refused(left, partitions):
    pipeline = Pipeline("views")
    pipeline.stream("shop.in").key_by(lambda view: view["page"]).count()
    with PipelineDriver(pipeline, partitions=partitions) as driver, pytest.raises(TaskFailed, match="another plan"):
        driver.send("views-by-page", left, key="a")


def test_totals_of_batches_add_up_to_those_of_all_messages(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pipeline = Pipeline("sizes")
    sizes = pipeline.stream("shop.in").key_by(lambda item: item["k"])
    sizes.aggregate(n=Count(), sum=Sum(field("x")), least=Min(field("x")), mean=Mean(field("x"))).to("shop.out")
    around = Surroundings(pipeline, {"in": 3, "out": 1})
    rows = [{"k": f"k{number % 7}", "x": number * 37 % 101} for number in range(900)]
    around.write("in", rows)
    processed = samzapy.run(pipeline, runner="local", until_end=True, progress=False).status.processed
    of = {f"k{number}": [row["x"] for row in rows[number::7]] for number in range(7)}
    wanted = {key: {"n": len(x), "sum": sum(x), "least": min(x), "mean": sum(x) / len(x)} for key, x in of.items()}
    assert totals(around.read("out")) == wanted
    assert processed < len(rows) + 100  # a total per key and batch went through the stream


@pytest.mark.parametrize("emit", [OnChange(), Early("1s")], ids=lambda emit: type(emit).__name__)
def test_a_result_of_an_open_window_has_the_time_of_its_newest_message(emit):
    pipeline = Pipeline("views")
    views = pipeline.stream("shop.in").key_by(lambda view: view["page"])
    views.window(Tumbling("1m"), emit=emit).count().to("shop.counts")
    with PipelineDriver(pipeline, partitions=2) as driver:
        driver.send("in", {"page": "a"}, timestamp=START + 1_000, partition=0)
        driver.advance(2)
        assert [output.event_time for output in driver.outputs("counts")] == [START + 1_000]


@pytest.mark.parametrize("time", [None, lambda second: START + second * 1000], ids=["record", "field"])
def test_windows_of_a_bounded_run_follow_its_last_event_times(time):
    pipeline = Pipeline("views")
    counts = pipeline.stream("shop.in", time=time).key_by(lambda _: "k").window(Tumbling("1m")).count()
    hours = counts.key_by(lambda _: "all").window(Tumbling("1h"), name="hours")
    hours.aggregate(sum=Sum(field("count"))).to("shop.out")
    given = [Input(second, timestamp=START + second * 1000) for second in (1, 2, 70)]
    run = TestRunner.of(pipeline.task).with_config(pipeline.plan.keys({})).with_input("in", given, partitions=2).run()
    assert [(result.event_time, result.message["sum"]) for result in run.outputs("out")] == [(START + 70_000, 3)]


def test_windows_do_not_wait_for_tasks_without_a_partition():
    pipeline = Pipeline("uneven")
    counts = pipeline.stream("shop.narrow").key_by(lambda view: view["page"]).window(Tumbling("1m")).count()
    counts.to("shop.counts")
    pipeline.stream("shop.wide").to("shop.copy")
    with PipelineDriver(pipeline, partitions={"narrow": 1, "wide": 3}) as driver:
        for minute in (0, 5):
            driver.send("narrow", {"page": "a"}, timestamp=START + minute * 60_000)
        for _ in range(4):
            driver.advance(1)
        assert [row["count"] for row in driver.outputs("counts").messages] == [1]


def test_totals_with_ids_are_those_of_each_message_however_batches_end():
    pipeline = Pipeline("counts")
    pipeline.stream("kafka.in").count().to("kafka.out")
    with PipelineDriver(pipeline, {"task.guarantee": "effectively-once"}) as driver:
        driver.send_batch("in", ["a", "a", "b"], [1, 1, 1])
        assert driver.outputs("out").pairs == [("a", 1), ("a", 2), ("b", 1)]
        ids = [dict(output.headers)["samzapy-id"].rsplit(b":", 2)[1:] for output in driver.outputs("out")]
        assert ids == [[b"0", b"0"], [b"1", b"0"], [b"2", b"0"]]
